"""`tierfold history` and `restore` print the right lines, and refuse wrong names and times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Final

import pytest

from tests.compaction.builders import segment_id
from tests.jobs.claims import ORDERS, catalog_of, claimed, released, row_of
from tests.jobs.commands import CLOCK, Ran, tierfold, told
from tests.jobs.tiers import files_below, folder_of, key_of, made_tier, put_updates
from tierfold.compaction.commits.commit import (
    AddSegments,
    AdvanceCleanerOffset,
    RetireSegments,
    SegmentsAreLive,
)
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segments import PartitionState

FIRST_MS: Final = 1_795_275_000_000
RUNS: Final = ("20261121T153000-aaaaaaaa", "20261121T153000-aaaabbbb")


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """A partition that two runs claimed and released; a segment was uploaded before each."""
    tier = made_tier(tmp_path / "tier")
    for number, run in enumerate(RUNS):
        put_updates(tier, ORDERS, number)
        at_ms = FIRST_MS + 1000 * number
        released(tier, claimed(tier, run, at_ms), at_ms=at_ms + 1)
    return tier


def history(tier: Path, *arguments: str) -> Ran:
    return tierfold("history", tier, "orders-0", *arguments)


def restore(tier: Path, to: str, *arguments: str) -> Ran:
    return tierfold("restore", tier, "orders-0", "--to", to, *arguments)


@pytest.mark.parametrize("verb", [("history",), ("restore", "--to", "0")])
def test_a_missing_partition_is_reported_with_similar_names(
    tier: Path, verb: tuple[str, ...]
) -> None:
    ran = tierfold(*verb, tier, "order-0")
    ran.refuses(f"{tier}: no partition has the name 'order-0'", "orders-0?")


@pytest.mark.parametrize(
    "verb", [("history", "orders-0"), ("restore", "orders-0", "--to", "0"), ("status",), ("plan",)]
)
def test_a_catalog_whose_log_is_lost_is_not_taken_for_a_new_one(
    tier: Path, verb: tuple[str, ...]
) -> None:
    log = tier / "_tierfold" / "partitions" / "_delta_log"
    rmtree(log)
    ran = tierfold(verb[0], tier, *verb[1:])
    assert ran.code == 3, ran.stdout
    assert not told(ran.stderr, str(log), "it has no commit", "docs/operations.md"), ran.stderr


def test_the_folder_distinguishes_a_recreated_topic(tier: Path) -> None:
    recreated = key_of("orders", incarnation=1)
    put_updates(tier, recreated, 0)
    ran = history(tier)
    assert ran.code == 2
    assert not told(ran.stderr, "is a partition of 2 topics", ORDERS.topic_id, recreated.topic_id)
    ran = tierfold("history", tier, folder_of(tier, recreated).name)
    assert "no run has touched it" in ran.stdout
    copied = replace(recreated, topic="copied")
    folder_of(tier, copied).symlink_to(folder_of(tier, recreated))
    ran = tierfold("restore", tier, folder_of(tier, ORDERS).name, "--to", RUNS[0])
    assert (ran.code, "nothing to do" in ran.stdout) == (0, True)
    ran = tierfold("restore", tier, folder_of(tier, recreated).name, "--to", RUNS[0])
    assert (ran.code, "the partitions copied-0" in ran.stdout) == (3, True)


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("20261121T153000-aaaa", ("is a prefix of 2 runs", *RUNS, "Give more")),
        ("20261121T153000-zzzz", ("is neither a timestamp nor the name", "tierfold history")),
        ("2026-11-31", ("'2026-11-31' is not a timestamp", "--to", "2026-11-21T15:30:46.123Z")),
        ("", ("'' is neither a timestamp nor the name of a run", "tierfold history")),
    ],
)
def test_what_means_nothing_or_too_much_is_a_wrong_use(
    tier: Path, to: str, words: tuple[str, ...]
) -> None:
    before = files_below(tier)
    restore(tier, to).refuses(*words)
    assert files_below(tier) == before


def test_a_time_before_everything_cannot_be_restored(tier: Path) -> None:
    ran = restore(tier, str(FIRST_MS - 1))
    assert (ran.code, ran.stdout) == (2, "")
    told_time = "the catalog has no state of 2026-11-21T15:29:59.999Z"
    assert not told(ran.stderr, "--to: ", told_time, f"`tierfold history {tier} orders-0`")


def test_where_no_run_was_there_is_nothing_to_go_back_to(tier: Path) -> None:
    put_updates(tier, key_of("quiet"), 0)
    ran = tierfold("restore", tier, "quiet-0", "--to", "2026-11-21")
    ran.refuses("--to: ", "no run has touched quiet-0", "nothing to restore")
    ran = tierfold("history", tier, "quiet-0")
    said = f"no run has touched it by the catalog in {tier / '_tierfold'}"
    assert (ran.code, said in ran.stdout) == (0, True)
    empty = tierfold("history", tier, "quiet-0", "--json").entries[0]
    assert (empty["topic"], empty["history"]) == ("quiet", [])


def test_a_folder_under_another_name_stands_for_no_other_partition(tier: Path) -> None:
    copied = replace(ORDERS, topic="copied")
    folder_of(tier, copied).symlink_to(folder_of(tier, ORDERS))
    ran = restore(tier, RUNS[0])
    assert ran.code == 3
    assert "the partitions copied-0 and orders-0, in the tier" in ran.stdout


def test_what_was_adopted_since_stays_so_there_is_nothing_to_do(tier: Path) -> None:
    before = files_below(tier)
    for to in (*RUNS, str(FIRST_MS), str(FIRST_MS + 999), "2030-01-01"):
        ran = restore(tier, to)
        assert (ran.code, ran.stderr) == (0, "")
        assert not told(ran.stdout, "nothing to do", "the segments of that state are the live ones")
        assert ("is in the future" in ran.stdout) is (to == "2030-01-01")
    assert files_below(tier) == before


def test_the_history_fits_its_table_newest_first(tier: Path) -> None:
    ran = history(tier)
    assert (ran.code, ran.stderr) == (0, "")
    lines = [line for line in ran.stdout.splitlines() if RUNS[0][:8] in line]
    assert [line.split()[:4] for line in lines] == [
        ["2026-11-21T15:30:01.000Z", RUNS[1], "claimed", "2"],
        ["2026-11-21T15:30:00.000Z", RUNS[0], "found", "1"],
    ]
    # One state is current, although the one before an empty claim is the same.
    assert [line.split()[-1] for line in lines] == ["current", "now"]
    entries = history(tier, "--json").entries[0]["history"]
    assert [entry["is_current"] for entry in entries] == [True, False]
    assert all(entry["is_same_as_current"] for entry in entries)
    assert max(map(len, ran.stdout.splitlines())) <= 120
    assert "holds it" not in ran.stdout


def test_the_history_may_be_cut_short(tier: Path) -> None:
    ran = history(tier, "--limit", "1")
    assert (ran.stdout.count(RUNS[1]), ran.stdout.count(RUNS[0])) == (1, 0)
    assert "older ones; without --limit all are shown" in ran.stdout
    entry = history(tier, "--limit", "1", "--json").entries[0]
    assert (len(entry["history"]), entry["has_older"]) == (1, True)
    entry = history(tier, "--limit", "2", "--json").entries[0]
    assert (len(entry["history"]), entry["has_older"]) == (2, False)
    assert history(tier, "--limit", "0").code == 2


def merged(tier: Path, row: PartitionState) -> None:
    """Commit one segment in place of two, only in the catalog."""
    state = catalog_of(tier).claim([row], "merger", at_ms=FIRST_MS + 5000)[ORDERS].row
    first, last = state.segments
    one = replace(
        first,
        segment_id=segment_id("merged"),
        end_offset=last.end_offset,
        origin=Compacted("merger"),
    )
    ids, at_ms = (first.segment_id, last.segment_id), FIRST_MS + 6000
    released(
        tier,
        state,
        RetireSegments(ids=ids, at_ms=at_ms, run="merger"),
        AddSegments(segments=(one,)),
        AdvanceCleanerOffset(epoch=state.epoch, offset=one.next_offset),
        at_ms=at_ms,
        requires=(SegmentsAreLive(ids=ids),),
    )


def test_the_printed_report_lists_what_comes_back_and_what_leaves(tier: Path) -> None:
    catalog = catalog_of(tier)
    row = row_of(tier)
    merged(tier, row)
    held = catalog.claim([row_of(tier)], "holder", at_ms=FIRST_MS + 7000)
    assert isinstance(held[ORDERS].outcome, Committed)
    ran = history(tier)
    assert "run holder holds it since 2026-11-21T15:30:07.000Z." in ran.stdout
    ran = restore(tier, RUNS[1], "--dry-run")
    words = (
        "orders-0: planned",
        f"to the state of 2026-11-21T15:30:01.001Z, released by run {RUNS[1]}",
        "run holder holds it since 2026-11-21T15:30:07.000Z; this restore fences it",
        "2 segments would be live again",
        "1 segment would be retired",
        "written by a broker",
        "written by merger",
        "0 segments unchanged; clean below: none; the log starts at 0",
        "Nothing is changed.",
    )
    assert not told(ran.stdout, *words), ran.stdout
    ran = restore(tier, RUNS[1])
    assert ran.code == 0
    words = ("orders-0: restored", "2 segments live again", "1 segment retired")
    assert not told(ran.stdout, *words), ran.stdout
    assert row_of(tier).segments == row.segments
    assert not told(history(tier).stdout, "restored")


def test_help_says_how_to_undo_the_first_run() -> None:
    ran = tierfold("restore", "--help")
    assert not told(ran.stdout, "very first run", '"found"', "ISO 8601", "Example")
    assert "Example" in tierfold("history", "--help").stdout
    assert tierfold("restore", "x", "orders-0").code == 2


def test_a_state_without_live_segments_can_be_restored(tier: Path) -> None:
    expiry = ("--set", "tier.binding=detached", "--set", "cleanup.policy=delete")
    later = (CLOCK, str(FIRST_MS + 10_000))
    assert tierfold("vacuum", tier, *expiry, "--set", "retention.ms=0", *later).code == 0
    expired, *_, found = history(tier, "--json").entries[0]["history"]
    assert restore(tier, str(found["committed_at_ms"])).code == 0
    before = files_below(folder_of(tier, ORDERS))
    ran = restore(tier, str(expired["committed_at_ms"]))
    assert (ran.code, "2 segments retired" in ran.stdout) == (0, True), ran.stderr
    row = row_of(tier)
    assert (row.segments, row.log_start_offset, len(row.whole_retired)) == ((), 22, 2)
    assert files_below(folder_of(tier, ORDERS)) == before
