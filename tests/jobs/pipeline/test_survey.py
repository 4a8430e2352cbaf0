"""The real `plan` reads and reports partitions correctly, without Spark."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.commands import ALWAYS, COMPACT, status_of, tierfold, told
from tests.jobs.tiers import (
    RECORDS_PER_SEGMENT,
    an_open_producer,
    files_below,
    folder_of,
    key_of,
    made_tier,
    put_segment,
    put_updates,
)
from tests.storage.call_scripts import Script, fails
from tests.storage.live_segments import NOW_MS, data
from tests.storage.scripted_store import ScriptedStore
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    MissingRight,
    TierfoldError,
    UnreadableObject,
)
from tierfold.compaction.planning.plan import Compact
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.known_partition import refusal_of
from tierfold.jobs.pipeline.survey import survey, survey_again
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.status import status
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, LocalTieredStorage

OPEN_FROM = RECORDS_PER_SEGMENT + 1


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return made_tier(tmp_path / "tier")


@pytest.mark.parametrize("verb", [("plan",), ("compact", "--dry-run")], ids=" ".join)
def test_a_plan_and_a_dry_run_report_the_round_and_change_nothing(
    tier: Path, verb: tuple[str, ...]
) -> None:
    logs = [put_updates(tier, key_of("orders"), number) for number in range(2)]
    before = files_below(tier)
    ran = tierfold(verb[0], tier, *COMPACT, *verb[1:], "--json")
    assert (ran.code, ran.stderr) == (0, "")
    planned = tierfold("plan", tier, *COMPACT, "--json")
    assert ran.untimed | {"verb": "plan"} == planned.untimed
    report = ran.partitions["orders", 0]
    assert report["outcome"] == "planned"
    assert (report["first_dirty"], report["next_offset"]) == (0, 2 * RECORDS_PER_SEGMENT)
    assert (report["segments_in"], report["segments_out"]) == (2, 1)
    assert report["bytes_in"] == sum(log.stat().st_size for log in logs)
    screen = tierfold(verb[0], tier, *COMPACT, *verb[1:]).stdout
    assert "1 partition: planned." in screen
    assert ("dry run: nothing is changed" in screen) == (verb[0] == "compact")
    assert files_below(tier) == before
    assert sorted(path.name for path in tier.iterdir()) == [TIER_FOLDER]


def test_what_partitions_took_is_of_all_that_the_run_surveyed_first(tier: Path) -> None:
    keys = [key_of("orders"), key_of("payments")]
    for key in keys:
        put_updates(tier, key, 0)
    context, settings = run_context(str(tier)), resolve([])
    assert len(survey(context, settings, Scope())) == 2
    before = context.stored.before
    assert before is not None
    # Some are surveyed again once what was open of them is published.
    assert len(survey_again(context, settings, keys[:1], Scope())) == 1
    assert context.stored.before == before


def test_a_topic_without_a_policy_is_left_unchanged(tier: Path) -> None:
    # It is not inspected: its objects cannot be read.
    put_updates(tier, key_of("events"), 0).write_bytes(b"")
    ran = tierfold("plan", tier, "--json")
    assert ran.code == 0
    assert ran.partitions["events", 0]["outcome"] == "nothing_to_do"
    assert "no cleanup.policy is set" in ran.partitions["events", 0]["reason"]
    deleted = tierfold("plan", tier, "--set", "cleanup.policy=delete", "--json")
    assert deleted.code == 0
    assert "does not name compact" in deleted.partitions["events", 0]["reason"]


def test_patterns_choose_topics_and_partitions(tier: Path) -> None:
    for key in (key_of("orders", 0), key_of("orders", 11), key_of("orders.eu", 1)):
        put_updates(tier, key, 0)
    put_updates(tier, key_of("payments", 1), 0)

    def chosen(*patterns: str) -> list[tuple[str, int]]:
        return sorted(tierfold("plan", tier, *patterns, "--json").partitions)

    assert chosen("--topic", "orders*") == [("orders", 0), ("orders", 11), ("orders.eu", 1)]
    assert chosen("--topic", "orders") == [("orders", 0), ("orders", 11)]
    assert chosen("--partition", "1") == [("orders.eu", 1), ("payments", 1)]
    assert chosen("--partition", "1*", "--topic", "orders") == [("orders", 11)]
    assert chosen("--topic", "payments", "--topic", "*.eu") == [("orders.eu", 1), ("payments", 1)]
    for asked in (("--topic", "Orders*"), ("--topic", "Orders*", "--partition", "1")):
        nothing = tierfold("plan", tier, *asked)
        assert nothing.code == 0
        assert "nothing matches the patterns" in nothing.stdout


@pytest.mark.parametrize("verb", ["plan", "compact", "status", "verify", "vacuum"])
def test_an_unknown_name_is_refused(tier: Path, verb: str) -> None:
    for key in (key_of("orders", 0), key_of("payments", 1)):
        put_updates(tier, key, 0)
    before = files_below(tier)
    for asked, said in (
        (("--topic", "Orders"), "topic Orders: no topic has that name. Did you mean"),
        (("--topic", "orders", "--topic", "?", "--topic", "bills"), "topic bills: no topic"),
        (("--partition", "7"), "partition 7: no partition of the chosen topics has that number."),
        (("--topic", "orders", "--partition", "1"), "partition 1: no partition of the chosen"),
    ):
        ran = tierfold(verb, tier, *COMPACT, *asked)
        assert (ran.code, ran.stdout) == (2, ""), ran.stderr
        assert said in ran.stderr
    assert files_below(tier) == before


def test_an_empty_tier_is_nothing_to_do(tier: Path) -> None:
    for verb in ("plan", "compact", "status"):
        ran = tierfold(verb, tier, *COMPACT)
        assert ran.code == 0
        assert "No partitions: the tier is empty" in ran.stdout
        assert tierfold(verb, tier, *COMPACT, "--json").partitions == {}
    assert sorted(path.name for path in tier.iterdir()) == [TIER_FOLDER]


def test_a_partition_without_a_segment_is_nothing_to_do(tier: Path) -> None:
    folder_of(tier, key_of("orders")).mkdir()
    ran = tierfold("compact", tier, *COMPACT, "--json")
    assert ran.code == 0
    assert ran.partitions["orders", 0]["reason"] == "no live segment in the tier"
    assert status_of(tier)["orders", 0]["segments"] == []


def test_other_files_and_folders_are_ignored(tier: Path) -> None:
    put_updates(tier, key_of("orders"), 0)
    planned = tierfold("plan", tier, *COMPACT, "--json")
    objects = tier / TIER_FOLDER
    (objects / "lost+found").mkdir()
    (objects / "orders-0").mkdir()
    (objects / "README").write_text("mine")
    partition = folder_of(tier, key_of("orders"))
    (partition / "notes.txt").write_text("mine")
    (partition / ".00000000000000000000-x.log.abc.staged").write_bytes(b"half")
    (partition / "00000000000000000000-0hLI51_3SZKS69rydQPI4w").mkdir()
    (partition / "00000000000000000000-0hLI51_3SZKS69rydQPI4w.log").mkdir()
    assert tierfold("plan", tier, *COMPACT, "--json").untimed == planned.untimed


@pytest.mark.parametrize("has_earlier", [True, False], ids=["a segment before", "nothing before"])
def test_an_open_transaction_holds_its_segment_and_all_later_ones_back(
    tier: Path, has_earlier: bool
) -> None:
    key = key_of("orders")
    batches = [data(OPEN_FROM, (b"k0", b"open"), producer_id=7)]
    if has_earlier:
        put_updates(tier, key, 0)
        batches.insert(0, data(OPEN_FROM - 1, (b"k0", b"before")))
    start, producers = OPEN_FROM - has_earlier, [an_open_producer(7, OPEN_FROM)]
    put_segment(tier, key, batches, start_offset=start, producers=producers)
    ran = tierfold("plan" if has_earlier else "compact", tier, *COMPACT, "--json")
    assert ran.code == 0
    report = ran.partitions["orders", 0]
    if has_earlier:
        wanted = f"the transaction of producer 7 that begins at offset {OPEN_FROM} has no marker"
        assert not told(report["reason"], wanted)
        assert report["next_offset"] == RECORDS_PER_SEGMENT
    else:
        assert report["outcome"] == "nothing_to_do"
        assert not told(report["reason"], f"held back from offset {OPEN_FROM} on", "producer 7")


def test_a_partition_without_a_row_is_refused_for_gaps_and_conflicting_batches(tier: Path) -> None:
    for number in (0, 2):
        put_updates(tier, key_of("gap"), number)
    one, other = (
        put_segment(tier, key_of("overlap"), [data(0, (b"k", value))], start_offset=0)
        for value in (b"one", b"other")
    )
    ran = tierfold("plan", tier, *COMPACT, "--json")
    assert ran.code == 3
    assert not told(ran.partitions["gap", 0]["reason"], "offsets 11 to 21", "missing")
    ids = (one.name[21:43], other.name[21:43])
    assert not told(ran.partitions["overlap", 0]["reason"], *ids, "share offsets 0 to 0")
    assert {partition["outcome"] for partition in ran.partitions.values()} == {"refused"}


def test_a_copy_of_a_partition_under_another_topics_name_is_refused(tier: Path) -> None:
    # The catalog identifies a topic by its id, and would take both for one partition.
    key = key_of("orders")
    put_updates(tier, key, 0)
    put_updates(tier, key_of("payments"), 0)
    original = folder_of(tier, key)
    copied = original.with_name(original.name.replace("orders", "orders-backup"))
    shutil.copytree(original, copied)
    ran = tierfold("plan", tier, *ALWAYS, "--json")
    assert ran.code == 3
    assert ran.outcomes == {
        ("orders", 0): "refused",
        ("orders-backup", 0): "refused",
        ("payments", 0): "planned",
    }
    for name in ("orders", "orders-backup"):
        reason = ran.partitions[name, 0]["reason"]
        assert not told(reason, key.topic_id, "orders-0", "orders-backup-0", "Move")
    ran = tierfold("status", tier, "--json", "--segments")
    assert ran.code == 3
    assert key.topic_id in ran.partitions["orders", 0]["reason"]


def test_an_unexpected_error_stops_one_partition_alone(tier: Path) -> None:
    for topic in ("odd", "orders"):
        put_updates(tier, key_of(topic), 0)
    opened = run_context(str(tier), None, NOW_MS)
    odd_one = fails("list", ArithmeticError("7 is not 8")).where(lambda key: "/odd-0-" in key)
    live = replace(opened, tier=LocalTieredStorage(ScriptedStore(tier, Script(odd_one))))
    odd, orders = survey(live, resolve(COMPACT[1:]), Scope())
    assert isinstance(orders.choice, Compact)
    assert odd.choice == Refusal(
        reason=RefusalReason.UNREADABLE,
        detail="odd-0: unexpected ArithmeticError: 7 is not 8",
        remedy="This is a bug; please report it.",
    )
    puzzling, understood = status(live, resolve([]), Scope())
    assert understood.reason == ""
    assert puzzling.reason == (
        "odd-0: unexpected ArithmeticError: 7 is not 8. This is a bug; please report it."
    )


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (CorruptLog, "corrupt"),
        (UnreadableObject, "unreadable"),
        (MissingRight, "right_missing"),
        (BadSettings, "bad_settings"),
    ],
)
def test_an_error_refuses_its_partition_with_its_own_code(
    kind: type[TierfoldError], code: str
) -> None:
    (part,) = refusal_of(kind("it is odd", where="here", remedy="Mend it."), "orders-0").parts
    assert (part.code, part.detail, part.remedy) == (code, "here: it is odd", "Mend it.")


def test_a_topic_that_is_created_again_is_another_partition(tier: Path) -> None:
    for incarnation in (0, 1):
        put_updates(tier, key_of("orders", incarnation=incarnation), 0)
    ran = tierfold("plan", tier, *COMPACT)
    assert ran.code == 0
    assert "2 partitions: planned." in ran.stdout


def test_a_first_dirty_offset_beyond_the_log_is_refused(tier: Path) -> None:
    put_updates(tier, key_of("orders"), 0)
    ran = tierfold("plan", tier, *COMPACT, "--first-dirty", "99", "--json")
    assert ran.code == 3
    assert not told(ran.partitions["orders", 0]["reason"], "99", "Choose an offset from 0 to 11")
