"""What the rows of `runs` say of a run, also of one that ended early."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.jobs.claims import ORDERS, catalog_of
from tests.jobs.commands import ALWAYS, tierfold
from tests.jobs.elections import histories
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import (
    files_below,
    flip_last_byte,
    folder_of,
    key_of,
    made_tier,
    put_segment,
    put_updates,
    updated_tier,
)
from tests.jobs.vacuum_tiers import vacuum
from tests.storage.call_scripts import at
from tests.storage.live_segments import data, marker
from tests.storage.scripted_catalog import rival_claims
from tierfold.jobs.context.stage_seconds import StageSeconds, TimedStage
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import RunRow
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

OTHER: Final = key_of("payments")
OF_A_ROUND: Final = {"survey", "claim", "scan", "rewrite", "check", "commit"}


def rows(tier: Path) -> list[RunRow]:
    return list(RunsTable(str(tier / CATALOG_FOLDER)).read())


def sizes(tier: Path) -> dict[str, int]:
    """The bytes of each object of orders-0."""
    return {path.name: path.stat().st_size for path in folder_of(tier, ORDERS).iterdir()}


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", [ORDERS], 3)


def log_bytes(objects: dict[str, int]) -> int:
    return sum(size for name, size in objects.items() if name.endswith(".log"))


def test_a_round_reads_again_what_it_keeps_and_counts_all_objects_that_it_writes(
    tier: Path,
) -> None:
    before = sizes(tier)
    # The updates of the five keys are in two batches of each segment; only the last one stays.
    logs = sorted(folder_of(tier, ORDERS).glob("*.log"))
    lost = [batch for log in logs for batch in list(read_segment(log).batches())[1:]][:-1]
    ran = tierfold("compact", tier, *ALWAYS, "--json")
    new = {name: size for name, size in sizes(tier).items() if name not in before}
    (row,) = rows(tier)
    assert row.bytes_in == log_bytes(before)
    assert row.bytes_read == 2 * row.bytes_in - sum(batch.size_bytes for batch in lost)
    assert row.bytes_written == sum(new.values()) > row.bytes_out == log_bytes(new)
    assert (ran.entry["bytes_read"], ran.entry["bytes_written"]) == (
        row.bytes_read,
        row.bytes_written,
    )


def test_a_segment_that_loses_nothing_is_read_once(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    first = put_segment(tier, ORDERS, [data(0, (b"a", b"1"), (b"b", b"1"))], start_offset=0)
    put_segment(tier, ORDERS, [data(2, (b"b", b"2"))], start_offset=2)
    put_segment(tier, ORDERS, [data(3, (b"c", b"1"), (b"d", b"1"))], start_offset=3)
    before = log_bytes(sizes(tier))
    ran = tierfold("compact", tier, *ALWAYS, "--set", "segment.bytes=1", "--json")
    assert (ran.entry["segments_out"], ran.entry["segments_read_once"]) == (3, 2)
    assert ran.entry["segments_skipped"] == 0
    assert ran.entry["bytes_read"] == before + first.stat().st_size
    # A key of the last segment is written again: only that segment is rewritten. The others have
    # key indexes.
    put_segment(tier, ORDERS, [data(5, (b"c", b"2"))], start_offset=5)
    after = log_bytes(sizes(tier)) - first.stat().st_size
    again = tierfold("compact", tier, *ALWAYS, "--set", "segment.bytes=1", "--json")
    assert (again.entry["segments_out"], again.entry["segments_read_once"]) == (4, 1)
    assert again.entry["segments_skipped"] == 2
    assert after - first.stat().st_size < again.entry["bytes_read"] < 2 * after


def test_chunks_add_up_the_segments_that_are_read_once(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    for offset, name in enumerate((b"a", b"b", b"c")):
        put_segment(tier, ORDERS, [data(offset, (name, b"1"))], start_offset=offset)
    small = ("--set", "segment.bytes=1", "--set", "chunk.bytes=1")
    ran = tierfold("compact", tier, *ALWAYS, *small, "--json")
    # Each chunk's segment gets its key index when it is read, and later chunks skip it.
    assert (ran.entry["segments_read_once"], ran.entry["segments_skipped"]) == (1 + 1 + 1, 1 + 2)


def test_a_failed_partition_counts_what_was_read_before(tier: Path) -> None:
    put_segment(tier, ORDERS, [data(33, (None, b"no key"))], start_offset=33)
    keyless = ("--set", "compact.keyless.max=0")
    tierfold("compact", tier, *ALWAYS, *keyless, "--json").ends(3, "failed", "no key")
    (row,) = rows(tier)
    assert (row.bytes_read, row.bytes_written) == (log_bytes(sizes(tier)), 0)


def test_a_log_that_is_scanned_again_counts_again(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    batches = [
        data(0, (b"k", b"aborted"), producer_id=7),
        marker(1, 7, ControlType.ABORT),
        data(2, (b"k", b"kept")),
    ]
    put_segment(tier, ORDERS, batches, start_offset=0)
    ran = tierfold("compact", tier, *ALWAYS, "--json")
    assert "no index lists them" in ran.entry["notes"][0]
    (row,) = rows(tier)
    assert row.bytes_read == 3 * row.bytes_in


def test_chunks_have_rows_of_their_own_and_the_document_sums_them(tier: Path) -> None:
    ran = tierfold("compact", tier, *ALWAYS, "--set", "chunk.bytes=1", "--json")
    found = rows(tier)
    assert [row.chunk for row in found] == [0, 1, 2]
    for name in ("bytes_read", "bytes_written"):
        assert ran.entry[name] == sum(getattr(row, name) for row in found)
    # Seconds are those of the whole run until then.
    scans = [row.stage_seconds["scan"] for row in found]
    assert scans == sorted(scans)


def test_a_row_has_the_dirty_ratio_and_the_delay_that_decided(tier: Path) -> None:
    assert tierfold("compact", tier, *ALWAYS).code == 0
    put_updates(tier, ORDERS, 3)
    late = ("--set", "max.compaction.lag.ms=1", "--set", "segment.ms=1")
    ran = tierfold("compact", tier, *ALWAYS, *late, "--json")
    row = rows(tier)[-1]
    ratio = ran.entry["ratio"]
    total = ratio["clean_bytes"] + ratio["cleanable_bytes"]
    assert row.dirty_ratio == ratio["cleanable_bytes"] / total
    assert 0 < row.dirty_ratio < 1
    assert row.delay_ms == ratio["delay_ms"] > 0


def test_a_partition_that_was_not_inspected_has_no_ratio_and_no_delay(tier: Path) -> None:
    assert tierfold("compact", tier, *ALWAYS).code == 0
    assert tierfold("compact", tier).code == 0  # no cleanup.policy
    row = rows(tier)[-1]
    assert (row.outcome, row.dirty_ratio, row.delay_ms) == ("nothing_to_do", None, None)
    assert (row.bytes_read, row.bytes_written) == (0, 0)


def test_each_verb_measures_its_stages(tier: Path) -> None:
    assert tierfold("compact", tier, *ALWAYS).code == 0
    assert tierfold("compact", tier, *ALWAYS).code == 0
    lines = tierfold("history", tier, "orders-0", "--json").entries[0]["history"]
    assert tierfold("restore", tier, "orders-0", "--to", lines[-1]["committed_at"]).code == 0
    assert vacuum(tier).code == 0
    assert [(row.command, set(row.stage_seconds)) for row in rows(tier)] == [
        ("compact", OF_A_ROUND),
        ("compact", {"survey"}),
        ("restore", {"survey", "check", "commit"}),
        ("vacuum", {"survey", "claim", "commit", "delete"}),
    ]
    assert all(seconds >= 0 for row in rows(tier) for seconds in row.stage_seconds.values())


def test_seconds_of_a_stage_add_up_also_if_it_fails() -> None:
    seconds = StageSeconds()
    for _ in range(2):
        with pytest.raises(ValueError, match="bad"), seconds.timed(TimedStage.SCAN):
            before = seconds.so_far()
            raise ValueError("bad")
    assert before.keys() == seconds.so_far().keys() == {"scan"}
    assert seconds.so_far()["scan"] >= before["scan"]


def test_a_refused_and_an_idle_restore_leave_a_row(tier: Path) -> None:
    assert tierfold("compact", tier, *ALWAYS).code == 0
    lines = tierfold("history", tier, "orders-0", "--json").entries[0]["history"]
    newest, found = lines[0]["committed_at"], lines[-1]["committed_at"]
    assert tierfold("restore", tier, "orders-0", "--to", newest).code == 0
    originals = sorted(folder_of(tier, ORDERS).glob("*.log"))
    broken = next(path for path in originals if path.name[21:43] in lines[-1]["segments"])
    flip_last_byte(broken)
    corrupt = tierfold("restore", tier, "orders-0", "--to", found, "--json")
    broken.unlink()
    gone = tierfold("restore", tier, "orders-0", "--to", found, "--json")
    assert tierfold("restore", tier, "orders-0", "--to", newest, "--dry-run").code == 0
    restores = [row for row in rows(tier) if row.command == "restore"]
    assert [row.outcome for row in restores] == ["nothing_to_do", "refused", "refused"]
    assert [row.reason for row in restores[1:]] == [
        ran.entries[0]["reason"] for ran in (corrupt, gone)
    ]
    assert [bool(row.bytes_read) for row in restores] == [False, True, False]


def test_a_refused_and_an_idle_forget_leave_a_row(tmp_path: Path) -> None:
    cut_off, *_ = histories(tmp_path / "tier")
    put_updates(cut_off, OTHER, 0)
    assert tierfold("forget", cut_off, "orders-0", "--dry-run").code == 0
    assert tierfold("forget", cut_off, "payments-0").code == 0
    put_updates(cut_off, OTHER, 2)
    assert tierfold("forget", cut_off, "payments-0").code == 3
    assert tierfold("forget", cut_off, "orders-0").code == 0
    assert [(row.topic, row.command, row.outcome) for row in rows(cut_off)] == [
        ("payments", "forget", "nothing_to_do"),
        ("payments", "forget", "refused"),
        ("orders", "forget", "forgotten"),
    ]


def test_forget_and_restore_that_change_nothing_make_no_catalog(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    put_updates(tier, ORDERS, 0)
    before = files_below(tier)
    assert tierfold("forget", tier, "orders-0").code == 0
    assert files_below(tier) == before


def test_a_run_whose_engine_does_not_start_leaves_rows(tier: Path) -> None:
    put_updates(tier, OTHER, 0)
    assert tierfold("compact", tier, *ALWAYS, "--topic", "payments").code == 0
    ran = tierfold("compact", tier, *ALWAYS, "--engine", "local", "--local-max", "1")
    assert ran.code == 2
    by_topic = {row.topic: row for row in rows(tier)[1:]}
    assert {topic: row.outcome for topic, row in by_topic.items()} == {
        "orders": "left",
        "payments": "nothing_to_do",
    }
    reason = by_topic["orders"].reason
    assert reason.startswith("left for the next run: the engine did not start: ")
    assert "--local-max" in reason


def test_an_unexpected_error_leaves_rows_of_what_was_not_begun(tier: Path) -> None:
    put_updates(tier, OTHER, 0)

    def breaks() -> None:
        raise ZeroDivisionError("a bug")

    with scripted(at("commit", breaks)):
        assert tierfold("compact", tier, *ALWAYS, "--max-bytes", "1").code == 1
    found = {row.topic: (row.outcome, row.reason) for row in rows(tier)}
    assert set(found) == {"orders", "payments"}
    assert {outcome for outcome, _ in found.values()} == {"left"}
    assert {reason for _, reason in found.values()} == {
        "left for the next run: an unexpected error ended the run"
    }


def test_an_unexpected_error_leaves_no_second_row_of_what_was_begun(tier: Path) -> None:
    def breaks() -> None:
        raise ZeroDivisionError("a bug")

    with scripted(at("commit 2", breaks)):
        assert tierfold("compact", tier, *ALWAYS, "--set", "chunk.bytes=1").code == 1
    assert [(row.chunk, row.outcome) for row in rows(tier)] == [(0, "compacted")]


@pytest.mark.parametrize("verb", ["compact", "vacuum"])
def test_a_claim_that_another_run_won_leaves_a_row(tier: Path, verb: str) -> None:
    assert tierfold("compact", tier, *ALWAYS).code == 0
    put_updates(tier, ORDERS, 3)
    with scripted(at("claim", rival_claims(str(tier / CATALOG_FOLDER), ORDERS))):
        ran = vacuum(tier) if verb == "vacuum" else tierfold("compact", tier, *ALWAYS, "--json")
    assert (ran.code, ran.entry["outcome"]) == (0, "left")
    row = rows(tier)[-1]
    assert (row.command, row.outcome, row.reason) == (
        verb,
        ran.entry["outcome"],
        ran.entry["reason"],
    )
    assert catalog_of(tier).read()[ORDERS].owner_run != row.run
