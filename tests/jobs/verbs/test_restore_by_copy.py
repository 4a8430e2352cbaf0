"""`tierfold restore --copy` brings a state back under new ids, also under faults at every call."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.aiven import CASES, AivenCase
from tests.jobs.claims import ORDERS, catalog_of, row_of
from tests.jobs.commands import ALWAYS, Ran, status_of, tierfold
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import (
    NOW_MS,
    copied,
    files_below,
    latest_updates,
    put_updates,
    records_in,
    sample_copy,
    updated_tier,
)
from tests.storage.call_scripts import Killed, Rule, at, fails, killed
from tests.storage.emulators import s3, s3_client, s3_environment, uploaded
from tests.storage.scripted_catalog import rival_claims
from tests.storage.scripted_store import CORRUPTIONS
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.compaction.model.origins import Copied
from tierfold.jobs.api.changing import restore as restored
from tierfold.jobs.verbs import restore as restore_verb
from tierfold.jobs.verbs import restored_copies
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.kafka.kafka_uuid import SegmentMark, mark_of
from tierfold.storage.tiers.local_store import LocalStore

NOW: Final = ("--now", str(NOW_MS))
LATER: Final = ("--now", str(NOW_MS + 3 * 86_400_000))
DETACHED: Final = ("--set", "tier.binding=detached")
MAIN_THREAD: Final = threading.get_ident()


def compacted_once(folder: Path) -> Path:
    """Two segments, compacted into one."""
    tier = updated_tier(folder, [ORDERS], 2)
    assert tierfold("compact", tier, *ALWAYS, *NOW).code == 0
    return tier


tier = copied(compacted_once)


@pytest.fixture(autouse=True)
def _in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread makes all calls, so that each has the same number in every run."""
    monkeypatch.setattr(restored_copies, "COPIERS", 1)
    monkeypatch.setattr(restore_verb, "CHECKERS", 1)


def lines_of(tier: Path, name: str = "orders-0") -> list[dict[str, Any]]:
    """The history, newest first."""
    lines: list[dict[str, Any]] = tierfold("history", tier, name, "--json").entries[0]["history"]
    return lines


def found_at(tier: Path, name: str = "orders-0") -> str:
    return str(lines_of(tier, name)[-1]["committed_at"])


def restore(tier: Path, to: str, *arguments: str, name: str = "orders-0") -> Ran:
    return tierfold("restore", tier, name, "--to", to, "--copy", "--json", *arguments)


def parts(tier: Path, segment_id: str) -> dict[str, bytes]:
    """The files of a segment, without its id."""
    return {path.suffix: path.read_bytes() for path in tier.rglob(f"*-{segment_id}.*")}


def values(tier: Path, topic: str = "orders") -> dict[bytes | None, bytes | None]:
    """The last value of each key in the live segments."""
    logs = [segment["log"] for segment in status_of(tier)[topic, 0]["segments"]]
    return {key: value for _, key, value in records_in(logs)}


def sound(tier: Path) -> None:
    verified = tierfold("verify", tier, "--json")
    assert (verified.code, verified.entries[0]["corruptions"]) == (0, []), verified


def test_the_earlier_state_comes_back_under_new_ids(tier: Path) -> None:
    before, to = row_of(tier), found_at(tier)
    entry = restore(tier, to).ends_alone(0, "restored")
    row = row_of(tier)
    sources = [old.segment for old in before.retired]
    assert not row.live_ids & before.named_ids
    assert before.named_ids == row.retired_ids
    assert [segment.first_id for segment in row.segments] == [one.segment_id for one in sources]
    mark = SegmentMark(catalog_of(tier).fingerprint(), is_restored=True)
    for copy, source in zip(row.segments, sources, strict=True):
        assert mark_of(copy.segment_id) == mark
        run, source_id = entry_run(tier), source.segment_id
        assert copy.origin == Copied(run=run, copy_of=source_id, upload=source_id)
        assert parts(tier, copy.segment_id) == parts(tier, source_id)
    assert values(tier) == latest_updates(2)
    assert row.cleaner_offset == 0
    shown = [(one["id"], one["copy_of"]) for one in entry["copies"]]
    assert shown == [(copy.segment_id, copy.copy_of) for copy in row.segments]
    assert [one["id"] for one in entry["back"]] == [one.segment_id for one in sources]
    assert entry["is_copy"]
    assert entry["objects_written"] == 10
    assert entry["parts_verified"] == {"by_checksum": 0, "by_reading_back": 10}
    sound(tier)


def entry_run(tier: Path) -> str:
    """The run of the newest commit."""
    return str(lines_of(tier)[0]["run"])


def test_what_is_live_already_is_not_copied_again(tier: Path) -> None:
    to = found_at(tier)
    assert restore(tier, to).code == 0
    put_updates(tier, ORDERS, 2)
    assert tierfold("compact", tier, *ALWAYS, *NOW, "--dry-run").code == 0
    before, row = files_below(tier), row_of(tier)
    restore(tier, to).ends(0, "nothing_to_do", "the segments of that state are the live ones")
    assert row_of(tier) == row
    assert tierfold("restore", tier, "orders-0", "--to", to, "--json").entry["outcome"] == (
        "nothing_to_do"
    )
    segments = {path for path in files_below(tier) if "_tierfold" not in str(path)}
    assert segments == {path for path in before if "_tierfold" not in str(path)}
    assert lines_of(tier)[0]["event"] == "restored"


def test_it_goes_back_and_forth_and_never_to_a_retired_id(tier: Path) -> None:
    states = [line["committed_at"] for line in lines_of(tier)]
    retired = row_of(tier).retired_ids
    for to in (states[-1], states[0], states[-1], states[0]):
        assert restore(tier, to).entry["outcome"] == "restored"
        row = row_of(tier)
        assert not row.live_ids & retired
        assert retired < row.retired_ids
        retired = row.retired_ids
        assert values(tier) == latest_updates(2)
        sound(tier)


def test_compact_and_vacuum_go_on_from_the_copies(tmp_path: Path) -> None:
    arguments = (*ALWAYS, *DETACHED, *NOW)
    alone, undone = (sample_copy(tmp_path / name) for name in ("alone", "undone"))
    for made in (alone, undone):
        assert tierfold("compact", made, *arguments).code == 0
    to = found_at(undone, "tiered-0")
    assert restore(undone, to, *NOW, name="tiered-0").code == 0
    copies = status_of(undone)["tiered", 0]["segments"]
    assert len(copies) == 3
    assert tierfold("vacuum", undone, *DETACHED, *LATER).code == 0
    assert [one["id"] for one in status_of(undone)["tiered", 0]["segments"]] == [
        one["id"] for one in copies
    ]
    assert status_of(undone)["tiered", 0]["retired"] == []
    sound(undone)
    assert tierfold("compact", undone, *arguments).code == 0
    live = [status_of(made)["tiered", 0]["segments"] for made in (alone, undone)]
    ((once,), (again,)) = live
    assert parts(alone, once["id"]) == parts(undone, again["id"])
    proven = tierfold("verify", undone, "--json").entries[0]
    assert (proven["corruptions"], proven["keys_compared"]) == ([], 999)


def test_the_first_state_is_restored_from_copies_once_its_segments_are_gone(tier: Path) -> None:
    to = found_at(tier)
    assert restore(tier, to, *NOW).code == 0
    assert tierfold("vacuum", tier, *DETACHED, *LATER).code == 0
    assert tierfold("compact", tier, *ALWAYS, *LATER).code == 0
    entry = restore(tier, to, *LATER).ends(0, "restored")
    row = row_of(tier)
    assert [segment.copy_of for segment in row.segments] == lines_of(tier)[-1]["segments"]
    assert [one["copy_of"] for one in entry["copies"]] == [one["id"] for one in entry["back"]]
    sound(tier)


def test_a_dry_run_says_what_would_be_copied_and_changes_nothing(tier: Path) -> None:
    before = files_below(tier)
    entry = restore(tier, found_at(tier), "--dry-run").ends(0, "planned")
    assert (entry["is_copy"], entry["copies"], len(entry["back"])) == (True, [], 2)
    shown = tierfold("restore", tier, "orders-0", "--to", found_at(tier), "--copy", "--dry-run")
    assert "2 segments would be live again, as copies under new ids" in shown.stdout
    assert "compares each copy with its source" in shown.stdout
    assert files_below(tier) == before


def test_the_printed_report_names_each_copy_and_its_source(tier: Path) -> None:
    ids = lines_of(tier)[-1]["segments"]
    shown = tierfold("restore", tier, "orders-0", "--to", found_at(tier), "--copy").stdout
    assert "2 segments live again, as copies under new ids" in shown
    assert all(f"copy of {segment_id}" in shown for segment_id in ids)
    assert "10 new objects verified by reading them back." in shown
    row = RunsTable(str(tier / "_tierfold")).read()[-1]
    assert (row.command, row.outcome) == ("restore", "restored")
    assert row.verified == {"by_checksum": 0, "by_reading_back": 10}
    assert row.bytes_written > row.bytes_out
    assert set(row.stage_seconds) == {"survey", "check", "rewrite", "commit"}


def test_without_the_option_nothing_is_copied(tier: Path) -> None:
    ran = tierfold("restore", tier, "orders-0", "--to", found_at(tier), "--json")
    entry = ran.ends(0, "restored")
    assert (entry["is_copy"], entry["copies"], entry["objects_written"]) == (False, [], 0)


# Faults.


def state(tier: Path) -> tuple[Any, ...]:
    """What the row says of the log."""
    row = row_of(tier)
    return row.segments, row.retired, row.cleaner_offsets, row.log_start_offset


def calls(tier: Path) -> list[tuple[str, int]]:
    """Every call of a restore that succeeds, but for its looks at the catalog."""
    with scripted() as script:
        assert restore(tier, found_at(tier)).code == 0
    kinds = ("list", "read", "read_range", "copy", "claim", "commit")
    return [(call.operation, call.number) for call in script.calls if call.operation in kinds]


COPY_CALLS: Final = [("copy", number) for number in range(1, 11)]


def test_every_object_is_made_by_a_copy_within_the_store(tier: Path) -> None:
    made = calls(tier)
    assert [call for call in made if call[0] == "copy"] == COPY_CALLS
    first, last = made.index(("copy", 1)), made.index(COPY_CALLS[-1])
    assert made.index(("claim", 1)) < first
    commit = made.index(("commit", 1))
    assert commit > last
    assert [kind for kind, _ in made[last + 1 : commit]].count("read_range") >= 10


def orphans_go(tier: Path) -> None:
    """`vacuum` deletes what the run left, once it is old; then nothing is unreferenced."""
    later_ms = time.time_ns() // 1_000_000 + 3 * 86_400_000
    keeps = ("--now", str(later_ms), "--grace-period", "3000d")
    assert tierfold("vacuum", tier, *DETACHED, *keeps).code == 0
    named = row_of(tier).named_ids
    left = {path.name[21:43] for path in tier.rglob("*.log")}
    assert left <= named
    assert not [path for path in tier.rglob("*.staged") if "_tierfold" not in str(path)]


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("fault", [fails, killed])
@pytest.mark.parametrize(("operation", "number"), [*COPY_CALLS, ("commit", 1)])
def test_a_restore_that_ends_at_any_write_leaves_the_state_and_orphans(
    tier: Path, operation: str, number: int, fault: Callable[..., Rule], is_done: bool
) -> None:
    before, to = state(tier), found_at(tier)
    with scripted(fault(f"{operation} {number}", is_done=is_done)):
        if fault is killed:
            with pytest.raises(Killed):
                restore(tier, to)
        else:
            ran = restore(tier, to)
            assert ran.code != 0 or (operation == "commit" and is_done)
    if operation == "commit" and is_done:
        assert values(tier) == latest_updates(2)
        assert len(row_of(tier).segments) == 2
    else:
        assert state(tier) == before
    assert restore(tier, to).entry["outcome"] in {"restored", "nothing_to_do"}
    assert values(tier) == latest_updates(2)
    orphans_go(tier)
    sound(tier)


@pytest.mark.parametrize("fault", [fails, killed])
def test_a_restore_that_ends_at_any_read_leaves_the_state(
    tier: Path, fault: Callable[..., Rule], tmp_path: Path
) -> None:
    before, to = state(tier), found_at(tier)
    reads = 0
    while True:
        with scripted(fault(f"read_range {reads + 1}")) as script:
            try:
                ran = restore(tier, to)
            except Killed:
                ran = None
        if len(script.of("read_range")) <= reads:
            break
        assert ran is None or (ran.code, ran.entry["outcome"]) in {(3, "refused"), (3, "failed")}
        assert state(tier) == before
        reads += 1
    assert reads > 20
    assert ran is not None
    assert ran.code == 0
    assert values(tier) == latest_updates(2)
    orphans_go(tier)
    sound(tier)


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_copy_that_differs_from_its_source_is_never_live(tier: Path, corruption: str) -> None:
    before, to = state(tier), found_at(tier)
    target: list[Path] = []

    def corrupted(call: Any) -> None:
        target.append(tier / call.arguments[1])
        content = target[-1].read_bytes()
        CORRUPTIONS[corruption](target[-1])
        if target[-1].exists() and target[-1].read_bytes() == content:  # It was empty before.
            target[-1].write_bytes(b"\0")

    for step in COPY_CALLS:
        with scripted(Rule(step="{} {}".format(*step), after=corrupted)):
            ran = restore(tier, to)
        entry = ran.ends(3, "failed", target[-1].name)
        assert "Nothing was committed" in entry["reason"] or corruption == "gone"
        assert entry["copies"] == []
        assert state(tier) == before
        assert row_of(tier).owner_run == ""
    sound(tier)


def test_a_source_that_is_corrupt_is_not_copied(tier: Path) -> None:
    segment_id = lines_of(tier)[-1]["segments"][1]
    (log,) = tier.rglob(f"*-{segment_id}.log")
    CORRUPTIONS["a bit turned"](log)
    before = files_below(tier)
    with scripted() as script:
        restore(tier, found_at(tier)).ends(3, "refused", segment_id, "Nothing was changed")
    assert not script.of("claim", "copy")
    assert files_below(tier) == before


@pytest.mark.parametrize("step", ["claim 1", "copy 1", "copy 7", "copy 10", "commit 1"])
def test_a_restore_that_was_overtaken_commits_nothing(tier: Path, step: str) -> None:
    before, to = state(tier), found_at(tier)
    with scripted(at(step, rival_claims(str(tier / "_tierfold"), ORDERS))):
        ran = restore(tier, to)
    assert (ran.code, ran.entry["outcome"]) == (4, "lost_race" if step == "claim 1" else "fenced")
    assert ran.entry["copies"] == []
    assert state(tier)[:2] == before[:2]
    sound(tier)


def test_a_source_that_vanishes_meanwhile_is_reported(tier: Path) -> None:
    before, to = state(tier), found_at(tier)
    gone = lines_of(tier)[-1]["segments"][1]

    def vanishes() -> None:
        for path in tier.rglob(f"*-{gone}.*"):
            path.unlink()

    with scripted(at("claim 1", vanishes)):
        restore(tier, to).ends(3, "failed", gone)
    assert state(tier) == before


def test_a_stop_between_two_copies_commits_nothing_and_gives_the_claim_back(tier: Path) -> None:
    before, to = state(tier), found_at(tier)

    def stops() -> None:
        signal.pthread_kill(MAIN_THREAD, signal.SIGINT)

    with scripted(at("copy 2", stops)) as script:
        ran = restore(tier, to)
    assert ran.code == 130
    assert len(script.of("copy")) == 5
    assert state(tier) == before
    assert row_of(tier).owner_run == ""
    row = RunsTable(str(tier / "_tierfold")).read()[-1]
    assert (row.outcome, row.reason) == (
        "left",
        "stopped by Ctrl-C (SIGINT); nothing was changed",
    )


def test_copies_that_do_not_fit_are_refused_before_anything_is_written(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = sum(
        len(data) for one in lines_of(tier)[-1]["segments"] for data in parts(tier, one).values()
    )
    monkeypatch.setattr(LocalStore, "free_bytes", lambda _: needed - 1)
    before = files_below(tier)
    for more in ((), ("--dry-run",)):
        refused = restore(tier, found_at(tier), *more)
        refused.ends(3, "refused", "the copies take", "without --copy")
    kept = {path: data for path, data in files_below(tier).items() if "runs" not in str(path)}
    assert kept == {path: data for path, data in before.items() if "runs" not in str(path)}
    monkeypatch.setattr(LocalStore, "free_bytes", lambda _: needed)
    assert restore(tier, found_at(tier)).code == 0


# Other layouts and stores.


@pytest.fixture(scope="module")
def uploads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return updated_tier(tmp_path_factory.mktemp("local") / "tier", (ORDERS,), segments=3)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_works_on_aivens_layout(uploads: Path, tmp_path: Path, case: AivenCase) -> None:
    made = aiven_tier(uploads, tmp_path / "tier", case.variant)
    say = case.arguments
    assert tierfold("compact", made, *ALWAYS, *NOW, *DETACHED, *say).code == 0
    states = tierfold("history", made, "orders-0", *say, "--json").entry["history"]
    before = case.segments(made)
    to = str(states[-1]["committed_at_ms"])
    ran = tierfold("restore", made, "orders-0", "--to", to, "--copy", *NOW, *say, "--json")
    copies = ran.ends(0, "restored")["copies"]
    after = case.segments(made)
    for copy in copies:
        assert after[copy["id"]].parts == before[copy["copy_of"]].parts
    assert after.keys() - before.keys() == {copy["id"] for copy in copies}
    vacuumed = tierfold("vacuum", made, *DETACHED, *LATER, *say, "--json")
    assert vacuumed.entry["outcome"] == "vacuumed"
    assert case.segments(made).keys() == {copy["id"] for copy in copies}
    status = tierfold("status", made, *say, "--json").entry
    live = {key: value for _, key, value in records_in(case.live_logs(made, status, tmp_path))}
    assert live == latest_updates(3)
    again = tierfold("compact", made, *ALWAYS, *LATER, *DETACHED, *say, "--json")
    assert again.entry["outcome"] == "compacted"
    assert tierfold("verify", made, *say).code == 0


@pytest.fixture
def s3_tier(uploads: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3_environment(s3()).items():
        monkeypatch.setenv(name, value)
    return uploaded(uploads, s3())


def on_s3(tier: str, folder: Path, status: dict[str, Any]) -> dict[bytes | None, bytes | None]:
    bucket = tier.removeprefix("s3://").partition("/")[0]
    logs = []
    for segment in status["segments"]:
        key = segment["log"].removeprefix(f"s3://{bucket}/")
        logs.append(folder / Path(key).name)
        s3_client(s3()).download_file(bucket, key, str(logs[-1]))
    return {key: value for _, key, value in records_in(logs)}


def test_it_works_on_s3(s3_tier: str, tmp_path: Path) -> None:
    assert tierfold("compact", s3_tier, *ALWAYS, *NOW, *DETACHED).code == 0
    states = tierfold("history", s3_tier, "orders-0", "--json").entry["history"]
    to = str(states[-1]["committed_at_ms"])
    ran = tierfold("restore", s3_tier, "orders-0", "--to", to, "--copy", *NOW, "--json")
    entry = ran.ends(0, "restored")
    requests = ran.document["requests"]
    assert (requests["begins"], requests["completes"]) == (15, 15)
    assert (requests["sent_bytes"], requests["puts"]) == (0, 0)
    assert entry["objects_written"] == 15
    assert tierfold("vacuum", s3_tier, *DETACHED, *LATER).code == 0
    status = tierfold("status", s3_tier, "--json").entry
    assert [one["id"] for one in status["segments"]] == [one["id"] for one in entry["copies"]]
    assert on_s3(s3_tier, tmp_path, status) == latest_updates(3)
    assert tierfold("compact", s3_tier, *ALWAYS, *LATER, *DETACHED).code == 0
    assert tierfold("verify", s3_tier).code == 0


def test_the_function_takes_copy_as_a_keyword(tier: Path) -> None:
    done = restored(tier, "orders-0", to=found_at(tier), copy=True)
    assert done.to_dict()["partitions"][0]["is_copy"]
