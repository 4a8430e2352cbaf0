"""`plan --out` and `compact --plan`: exactly what was approved, refused where anything changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import tierfold as api
from tests.jobs.claims import ORDERS, row_of
from tests.jobs.commands import ALWAYS, CLOCK, COMPACT, Ran, status_of, tierfold
from tests.jobs.result_schema import faults
from tests.jobs.tiers import (
    copied,
    files_below,
    key_of,
    latest_updates,
    live_values,
    made_tier,
    put_segment,
    put_updates,
    updated_tier,
)
from tests.storage.live_segments import data
from tierfold.storage.tiers.local_tiered_storage import partition_folder

TOPICS: Final = ("invoices", "orders", "payments")
THEN_MS: Final = 1_800_000_000_000
RETENTION_MS: Final = 1000
SHORT: Final = (*ALWAYS, "--set", f"delete.retention.ms={RETENTION_MS}")

tier = copied(lambda folder: updated_tier(folder, [key_of(topic) for topic in TOPICS], 2))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


def planned(tier: Path, file: Path, *words: str) -> dict[str, Any]:
    assert tierfold("plan", tier, "--out", file, *(words or ALWAYS)).code == 0
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert faults(document) == []
    return document


def carried_out(tier: Path, file: Path, *words: str) -> Ran:
    return tierfold("compact", tier, "--plan", file, "--json", *words)


def outcomes(ran: Ran) -> dict[str, str]:
    return {topic: outcome for (topic, _), outcome in ran.outcomes.items()}


def test_exactly_the_plan_is_carried_out(tier: Path, file: Path) -> None:
    before = files_below(tier)
    document = planned(tier, file, *ALWAYS, "--topic", "orders", "--topic", "invoices")
    dry = carried_out(tier, file, "--dry-run")
    assert (dry.code, outcomes(dry)) == (0, dict.fromkeys(TOPICS[:2], "planned"))
    assert files_below(tier) == before
    file.write_text(json.dumps(document), encoding="utf-8")  # Other white space is no edit.
    approved = document["partitions"][1]["approved"]
    ran = carried_out(tier, file)
    assert (ran.code, outcomes(ran)) == (0, dict.fromkeys(TOPICS[:2], "compacted"))
    assert [[one.segment.segment_id for one in row_of(tier).retired]] == approved["round"]["groups"]
    assert latest_updates(2).items() <= live_values(status_of(tier)["orders", 0]).items()
    assert not any("payments" in path for path in files_below(tier).keys() - before.keys())


def partition_folder_of(tier: Path, topic: str) -> Path:
    return tier / partition_folder(key_of(topic))


def test_the_command_and_the_functions_agree(tier: Path, file: Path) -> None:
    ran = tierfold("plan", tier, "--out", file, *COMPACT)
    assert f"tierfold compact {tier} --plan {file}" in ran.stdout.replace("\n", " ")
    other = file.with_name("api.json")
    api.plan(tier, settings={"cleanup.policy": "compact"}, out=other)
    one, two = (json.loads(path.read_text(encoding="utf-8")) for path in (file, other))
    assert one["approval"]["given"]["settings"] == two["approval"]["given"]["settings"]
    assert api.compact(tier, plan=other, engine="local").outcome == "compacted"


def upload(tier: Path, _: Path) -> None:
    put_updates(tier, ORDERS, 2)


def commit(tier: Path, _: Path) -> None:
    assert tierfold("compact", tier, *ALWAYS, "--topic", "orders").code == 0


def vanish(tier: Path, _: Path) -> None:
    shutil.rmtree(partition_folder_of(tier, "orders"))


def lose_a_waiting_segment(tier: Path, _: Path) -> None:
    (log,) = partition_folder_of(tier, "orders").glob("00000000000000000011-*.log")
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()


def raise_the_ratio(_: Path, config: Path) -> None:
    with config.open("a", encoding="utf-8") as settings:
        settings.write('[topics.orders]\n"segment.bytes" = 14\n')


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (upload, ("1 segment is new",)),
        (commit, ("a run has changed its row in the catalog (epoch 0 then, 1 now)",)),
        (vanish, ("the tier has no such partition now",)),
        (lose_a_waiting_segment, ("1 segment is gone",)),
        (raise_the_ratio, ("segment.bytes was 1073741824 and is 14",)),
    ],
)
def test_a_partition_that_changed_is_refused_and_the_others_go_on(
    change: Callable[[Path, Path], None], words: tuple[str, ...], tier: Path, file: Path
) -> None:
    config = file.with_name("tierfold.toml")
    config.write_text('[broker]\n"log.cleanup.policy" = "compact"\n', encoding="utf-8")
    given = ("--config", str(config), "--set", "min.cleanable.dirty.ratio=0")
    planned(tier, file, *given)
    change(tier, config)
    before = row_of(tier) if change is commit else None
    ran = carried_out(tier, file, "--config", str(config))
    entry = ran.ends(3, "refused", "it has changed since it was planned", *words)
    assert [one["code"] for one in entry["refusals"]] == ["plan_outdated"]
    assert before is None or row_of(tier) == before
    assert outcomes(ran) == {"invoices": "compacted", "orders": "refused", "payments": "compacted"}
    if change is upload:  # As the remedy says.
        again = file.with_name("again.json")
        planned(tier, again, *given, "--first-dirty", "0")
        assert carried_out(tier, again, "--config", str(config)).code == 0


def test_settings_that_are_missing_now_are_named(tier: Path, file: Path) -> None:
    config = file.with_name("tierfold.toml")
    config.write_text('[topics."*"]\n"cleanup.policy" = "compact"\n', encoding="utf-8")
    planned(tier, file, "--config", str(config))
    ran = carried_out(tier, file)
    ran.ends(3, "refused", "cleanup.policy was compact and is ")


@pytest.mark.parametrize(
    "words",
    [
        ("--topic", "orders"),
        ("--partition", "0"),
        ("--partitions-from", "-"),
        ("--set", "cleanup.policy=compact"),
        ("--first-dirty", "0"),
        ("--now", "1800000000000"),
        ("--holes-are-holes", "orders-0"),
        ("--no-publish",),
        ("--readers-begin-again",),
    ],
)
def test_options_that_decide_are_refused_beside_a_plan(
    words: tuple[str, ...], tier: Path, tmp_path: Path
) -> None:
    ran = carried_out(tier, tmp_path / "none.json", *words)
    option = words[0].replace("--no-", "--")
    ran.refuses(f"{option} beside --plan: it would change what was approved")


def edited(document: dict[str, Any]) -> str:
    document["partitions"][0]["approved"]["round"]["groups"] = []
    return json.dumps(document)


def of_another_format(document: dict[str, Any]) -> str:
    document["approval"]["format"] = 2
    return json.dumps(document)


def without_approval(document: dict[str, Any]) -> str:
    del document["approval"]
    return json.dumps(document)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (edited, "it was edited, or is damaged"),
        (of_another_format, "it has the format 2, of tierfold"),
        (without_approval, "this is not a plan to carry out"),
        (lambda document: json.dumps(document)[:-20], "this is not JSON"),
        (lambda _: "[]", "this is not a plan to carry out"),
        (lambda _: '{"approval": {}}', "it has the format None"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_before_the_tier_is_read(
    write: Callable[[dict[str, Any]], str], words: str, tier: Path, file: Path
) -> None:
    text = write(planned(tier, file))
    file.write_text(text, encoding="utf-8")
    shutil.rmtree(tier)
    carried_out(tier, file).refuses(f"--plan {file}", words)


def test_a_plan_of_another_tier_or_catalog_is_refused(tier: Path, file: Path) -> None:
    planned(tier, file)
    other = Path(shutil.copytree(tier, file.with_name("other")))
    carried_out(other, file).refuses("it is the plan of another tier", str(tier))
    catalog = ("--catalog", str(file.with_name("catalog")))
    carried_out(tier, file, *catalog).refuses("the plan was made with catalog", "--catalog")
    assert carried_out(tier, file.with_name("none.json")).code == 3


def test_a_plan_of_a_run_that_would_publish_otherwise_is_refused(tier: Path, file: Path) -> None:
    config = file.with_name("tierfold.toml")
    planned(tier, file)
    config.write_text('[broker]\n"tier.binding" = "detached"\n', encoding="utf-8")
    ran = carried_out(tier, file, "--config", str(config))
    ran.refuses("made with publishing brokers_not_named, and this run has no_brokers")


def test_a_plan_file_is_never_overwritten(tier: Path, file: Path) -> None:
    planned(tier, file)
    before = file.read_bytes()
    tierfold("plan", tier, *ALWAYS, "--out", file).refuses(f"--out {file}: the name is taken")
    explain = ("--explain", "orders-0", "--out", file.with_name("x.json"))
    tierfold("plan", tier, *ALWAYS, *explain).refuses("--out plans all partitions in scope")
    assert file.read_bytes() == before


def test_a_plan_that_is_due_for_nothing_does_nothing(tier: Path, file: Path) -> None:
    before = files_below(tier)
    planned(tier, file, "--topic", "orders")
    assert carried_out(tier, file).code == 0
    assert files_below(tier) == before


def test_a_forced_plan_keeps_its_first_dirty_offset(tier: Path, file: Path) -> None:
    alone = (*ALWAYS, "--topic", "orders")
    assert tierfold("compact", tier, *alone).code == 0
    planned(tier, file, *alone, "--first-dirty", "0")
    assert outcomes(carried_out(tier, file)) == {"orders": "compacted"}


def test_the_time_of_the_plan_decides_which_tombstones_go(tmp_path: Path, file: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    put_segment(tier, ORDERS, [data(0, (b"a", None), (b"b", b"1"))], start_offset=0)
    assert tierfold("compact", tier, *SHORT, CLOCK, str(THEN_MS)).code == 0
    put_segment(tier, ORDERS, [data(2, (b"c", b"1"))], start_offset=2)
    before_ms = THEN_MS + RETENTION_MS - 1
    planned(tier, file, *SHORT, CLOCK, str(before_ms))
    ran = carried_out(tier, file, CLOCK, str(THEN_MS + 10 * RETENTION_MS))
    assert ran.entry["counts"]["tombstones_expired"] == 0
    assert row_of(tier).committed_at_ms >= THEN_MS + 10 * RETENTION_MS
    ran = tierfold("compact", tier, *SHORT, CLOCK, str(THEN_MS + 11 * RETENTION_MS), "--json")
    assert ran.entry["counts"]["tombstones_expired"] == 1


def test_new_horizons_count_from_the_run(tmp_path: Path, file: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    put_segment(tier, ORDERS, [data(0, (b"a", None), (b"b", b"1"))], start_offset=0)
    planned(tier, file, *SHORT, CLOCK, str(THEN_MS))
    later_ms = THEN_MS + 10 * RETENTION_MS
    assert carried_out(tier, file, CLOCK, str(later_ms)).code == 0
    (segment,) = row_of(tier).segments
    assert segment.earliest_due_ms is not None
    assert 0 <= segment.earliest_due_ms - later_ms - RETENTION_MS < 1000


def test_a_plan_for_a_time_to_come_is_refused(tier: Path, file: Path) -> None:
    planned(tier, file, *ALWAYS, "--now", str(THEN_MS))
    ran = carried_out(tier, file, CLOCK, str(THEN_MS - 11 * 60_000))
    ran.refuses("the plan was made for 2027-01-15", "horizons would pass early")
    assert carried_out(tier, file, CLOCK, str(THEN_MS - 9 * 60_000)).code == 0
