"""`upload` into buckets, and killed or without an answer at each of its calls."""

from __future__ import annotations

from pathlib import Path

import pytest

import tierfold
from tests.jobs.log_dirs import WrittenLogDir
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import key_of, made_tier
from tests.spread import most_in_soak
from tests.storage.call_scripts import Killed, at, fails, killed
from tests.storage.emulators import new_bucket, s3, s3_environment
from tests.storage.scripted_catalog import rival_claims
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.uploading.local_retention import LocalRetentionReason
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

ORDERS = key_of("orders")
WRITES = 10
STEPS = ("claim 1", *(f"open_new {n + 1}" for n in range(WRITES)), "claim 2", "commit 1")
DETACHED = {"tier.binding": "detached"}


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit without an answer is looked for once."""
    monkeypatch.setattr("tierfold.jobs.pipeline.held_partitions.READ_BACK_AFTER_MS", (0,))


@pytest.fixture
def logs(tmp_path: Path) -> WrittenLogDir:
    return WrittenLogDir(tmp_path / "data").filled(ORDERS, 2)


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return made_tier(tmp_path / "tier")


def live(tier: Path) -> list[tuple[int, int]]:
    row = Catalog(str(tier / CATALOG_FOLDER)).read()[ORDERS]
    return [(one.start_offset, one.end_offset) for one in row.segments]


@pytest.mark.parametrize("layout", ["aiven", pytest.param("local", marks=pytest.mark.soak)])
def test_an_empty_place_in_a_bucket_becomes_a_tier(
    logs: WrittenLogDir, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    for name, value in s3_environment(s3()).items():
        monkeypatch.setenv(name, value)
    tier = f"s3://{new_bucket(s3())}/archive"
    assert tierfold.upload(logs.path, tier, layout=layout, dry_run=True).outcome == "planned"
    assert tierfold.upload(logs.path, tier, layout=layout).outcome == "uploaded"
    assert tierfold.upload(logs.path, tier, layout=layout).outcome == "nothing_to_do"
    (row,) = tierfold.status(tier).partitions
    assert row.outcome == "ok"
    settings = {"cleanup.policy": "compact", "local.retention.ms": "0"}
    for reason in (LocalRetentionReason.NOT_COMPACTED, LocalRetentionReason.OLD):
        (found,) = tierfold.local_retention(logs.path, tier, settings=settings).partitions
        assert found.decisions[0].reason is reason
        tierfold.compact(tier, settings=settings | DETACHED, engine="local")


@pytest.mark.parametrize("is_dry_run", [False, True])
def test_a_file_system_that_is_not_mounted_does_not_look_like_an_empty_tier(
    logs: WrittenLogDir, tmp_path: Path, *, is_dry_run: bool
) -> None:
    with pytest.raises(BadSettings, match="there is no such folder"):
        tierfold.upload(logs.path, tmp_path / "unmounted", dry_run=is_dry_run)
    assert not (tmp_path / "unmounted").exists()


def test_the_steps_come_in_this_order(logs: WrittenLogDir, tier: Path) -> None:
    with scripted() as script:
        assert tierfold.upload(logs.path, tier).outcome == "uploaded"
    steps = [str(call) for call in script.of("look", "claim", "open_new", "commit")]
    written = [f"open_new {number + 1}" for number in range(WRITES)]
    assert steps == ["look 1", "claim 1", *written, "claim 2", "commit 1"]


@pytest.mark.parametrize("step", most_in_soak(STEPS, 3))
@pytest.mark.parametrize("is_done", [False, True])
def test_killed_anywhere_the_next_run_goes_on(
    logs: WrittenLogDir, tier: Path, step: str, *, is_done: bool
) -> None:
    with scripted(killed(step, is_done=is_done)), pytest.raises(Killed):
        tierfold.upload(logs.path, tier)
    again = tierfold.upload(logs.path, tier, if_held="take-over")
    is_adopted = step == "commit 1" or (step, is_done) == ("claim 2", True)
    assert again.outcome == ("nothing_to_do" if is_adopted else "uploaded")
    # What was finished is not written again.
    if step.startswith("open_new"):
        whole = (STEPS.index(step) - (not is_done)) // 5
        sizes = [logs.file(ORDERS, start, "log").stat().st_size for start in (0, 10)]
        assert again.partitions[0].report.bytes_written == sum(sizes[whole:])
    assert live(tier) == [(0, 9), (10, 19)]
    assert tierfold.upload(logs.path, tier, if_held="take-over").outcome == "nothing_to_do"
    tierfold.vacuum(tier, orphan_age_ms=0, settings=DETACHED, if_held="take-over")
    assert len(list((tier / "kafka-tiered-storage").rglob("*.log"))) == 2


@pytest.mark.parametrize("step", most_in_soak(STEPS, 2))
def test_without_an_answer_it_fails_and_the_next_run_goes_on(
    logs: WrittenLogDir, tier: Path, step: str
) -> None:
    with scripted(fails(step)):
        ended = tierfold.upload(logs.path, tier)
    assert ended.outcome == ("uploaded" if step == "commit 1" else "failed"), step
    assert tierfold.upload(logs.path, tier, if_held="take-over").outcome in {
        "uploaded",
        "nothing_to_do",
    }
    assert live(tier) == [(0, 9), (10, 19)]


@pytest.mark.parametrize("step", ["claim 1", "open_new 3", "claim 2"])
def test_a_run_that_claims_meanwhile_fences_it(
    logs: WrittenLogDir, tier: Path, step: str
) -> None:
    tierfold.upload(logs.path, tier)
    logs.roll_ten(ORDERS, 20)
    rival = at(step, rival_claims(str(tier / CATALOG_FOLDER), ORDERS))
    with scripted(rival):
        ended = tierfold.upload(logs.path, tier)
    assert ended.outcome in {"fenced", "lost_race", "refused"}
    assert live(tier) == [(0, 9), (10, 19)]
    assert tierfold.upload(logs.path, tier, if_held="take-over").outcome == "uploaded"
    assert live(tier) == [(0, 9), (10, 19), (20, 29)]
