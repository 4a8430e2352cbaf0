"""Each stage turns the rows of its task into the right rows, whatever engine runs it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.compaction.keyed import block_of, columns_of
from tests.jobs.claimed_rounds import claimed_rounds
from tests.jobs.engines.executor_contract import a_row
from tests.jobs.tiers import KEYS, RECORDS_PER_SEGMENT, folder_of, key_of, put_updates, updated_tier
from tierfold.compaction.cleaning.batch_outline import deserialize_outline
from tierfold.compaction.cleaning.key_blocks import head_of
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.jobs.engines.check import CheckStage, CompareStage
from tierfold.jobs.engines.reduce import ReduceStage
from tierfold.jobs.engines.rewrite import MoveStage, RewriteStage, record_bits
from tierfold.jobs.engines.rows import (
    REPORT_BUG,
    Row,
    RowKind,
    Stage,
    Worker,
    failure,
    pickled,
    sentence_of,
    unpickled,
)
from tierfold.jobs.engines.scan import ScanStage, ScanSummary, summed
from tierfold.jobs.engines.task_assignment import scan_rows
from tierfold.storage.tiers.tier_uris import open_tier

ORDERS: Final = key_of("orders")


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    tier = updated_tier(tmp_path / "tier", (ORDERS,), segments=2)
    put_updates(tier, key_of("payments"), 0)
    return tier


def ran(tier: Path, stage: Stage, rows: Sequence[Row], done: list[int] | None = None) -> list[Row]:
    """Return the result of one task, sorted; add the bytes that it counts to `done`."""
    counted: list[int] = [] if done is None else done
    worker = Worker(tier=open_tier(str(tier)), advance=counted.append)
    found = stage(worker, rows)
    return sorted(found, key=lambda row: (row.place, row.kind))


def ordinals_in(row: Row) -> list[int]:
    """The ordinals in a row of the reduce stage, in order."""
    if row.kind in (RowKind.SUPERSEDED_BITMAP, RowKind.SUPERSEDING_BITMAP):
        return set_bits(row)
    return sorted(np.frombuffer(row.payload, np.uint32).tolist())


def set_bits(row: Row) -> list[int]:
    """The ordinals of the set bits in a row with a bitmap of a segment of updates."""
    bits = np.unpackbits(np.frombuffer(row.payload, np.uint8), count=RECORDS_PER_SEGMENT)
    return np.flatnonzero(bits).tolist()


def scanned(tier: Path, rounds: Sequence[Round], done: list[int] | None = None) -> list[Row]:
    stage = ScanStage(first_bucket_task={0: 0, 1: 1})
    return ran(tier, stage, scan_rows(rounds, cores=2)[0], done)


def test_a_scanned_segment_returns_keys_superseded_records_and_a_summary(tier: Path) -> None:
    done: list[int] = []
    _, rounds = claimed_rounds(tier)
    rows = scanned(tier, rounds, done)
    assert [(row.place, row.kind) for row in rows] == [
        (place, kind)
        for place in ((0, 0), (0, 1), (1, 0))
        for kind in (RowKind.KEYS, RowKind.OWN_SUPERSEDED, RowKind.SCANNED, RowKind.OUTLINE)
    ]
    keys, own_superseded, scan, outline = rows[:4]
    # Its own key, and the later updates of the five others.
    assert head_of(keys.payload).entries == 1 + len(KEYS)
    assert set_bits(own_superseded) == [1, 2, 3, 4, 5]
    found = unpickled(scan.payload)
    assert isinstance(found, ScanSummary)
    assert (found.records, len(found.txn_batches)) == (RECORDS_PER_SEGMENT, 0)
    assert deserialize_outline(outline.payload).records.tolist() == [1, len(KEYS), len(KEYS)]
    assert sum(done) == sum(work.scan_bytes for work in rounds)
    assert [row.task for row in rows] == [0] * 8 + [1] * 4


def test_an_unreadable_segment_becomes_one_row_with_the_reason(tier: Path) -> None:
    _, rounds = claimed_rounds(tier)
    victim = sorted(folder_of(tier, ORDERS).glob("*.log"))[0]
    victim.unlink()
    done: list[int] = []
    rows = scanned(tier, rounds, done)
    places = [row.place for row in rows]
    assert places.count((0, 0)) == 1
    assert set(places) == {(0, 0), (0, 1), (1, 0)}
    assert rows[0].kind is RowKind.FAILED
    assert str(victim) in unpickled(rows[0].payload).detail
    # The progress bar still reaches its end.
    assert sum(done) == sum(work.scan_bytes for work in rounds)


def test_the_reduce_finds_records_that_another_segment_supersedes(tier: Path) -> None:
    before = scanned(tier, claimed_rounds(tier)[1])
    destinations = {(0, 0): 3, (0, 1): 1}
    stage = ReduceStage(buckets={0: 1, 1: 1}, shuffle_partitions=1, task_of=destinations)
    after = ran(tier, stage, before)
    passed = [replace(row, task=0) for row in before if row.kind is not RowKind.KEYS]
    (superseded,) = (row for row in after if replace(row, task=0) not in passed)
    assert superseded.place == (0, 0)
    assert ordinals_in(superseded) == [6, 7, 8, 9, 10]
    # Rows without keys pass through once.
    assert [replace(row, task=0) for row in after if row is not superseded] == passed
    # Every row goes to the task that rewrites its segment.
    assert {row.place: row.task for row in after} == {**destinations, (1, 0): 0}


def test_only_records_from_first_dirty_on_compete(tier: Path) -> None:
    _, (work, _) = claimed_rounds(tier)
    dirty_from = 2 * RECORDS_PER_SEGMENT - len(KEYS) + 1
    plan = replace(work.plan, choice=replace(work.compact, first_dirty=dirty_from))
    rows = scanned(tier, [replace(work, plan=plan)])
    after = ran(tier, ReduceStage(buckets={0: 1}, shuffle_partitions=1, task_of={}), rows)
    (superseded,) = (row for row in after if row.kind is RowKind.SUPERSEDED_BITMAP)
    # k0's last update is clean, so no update of k0 supersedes another.
    assert ordinals_in(superseded) == [2, 3, 4, 5, 7, 8, 9, 10]
    own = [set_bits(row) for row in after if row.kind is RowKind.OWN_SUPERSEDED]
    assert own == [[], [2, 3, 4, 5]]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_reduce_takes_blocks_in_log_order_however_they_arrive(
    tier: Path, order: tuple[int, ...]
) -> None:
    stretches = [(0, 0), (0, 7), (1, 2)]  # Two of the first segment, one of the second.
    rows = [
        a_row(RowKind.KEYS, block_of(columns_of([b"k"], first_ordinal=at)), segment_index=segment)
        for segment, at in stretches
    ]
    stage = ReduceStage(buckets={0: 1}, shuffle_partitions=1, task_of={})
    after = ran(tier, stage, [rows[i] for i in order])
    found = [(row.segment_index, ordinals_in(row)) for row in after]
    assert found == [(0, [0, 7])]


@pytest.mark.parametrize(
    ("ordinal", "kind", "payload_bytes"),
    [
        (31, RowKind.SUPERSEDED_BITMAP, 4),
        (32, RowKind.SUPERSEDED_ORDINALS, 4),
        (1000, RowKind.SUPERSEDED_ORDINALS, 4),
    ],
)
def test_the_reduce_returns_ordinals_or_a_bitmap_whichever_is_smaller(
    ordinal: int, kind: RowKind, payload_bytes: int, tier: Path
) -> None:
    rows = [
        a_row(RowKind.KEYS, block_of(columns_of([b"k"], first_ordinal=at)), segment_index=i)
        for i, at in enumerate((ordinal, 0))
    ]
    (found,) = ran(tier, ReduceStage(buckets={0: 1}, shuffle_partitions=1, task_of={}), rows)
    assert (found.place, found.kind, len(found.payload)) == ((0, 0), kind, payload_bytes)
    own = a_row(RowKind.OWN_SUPERSEDED, bytes(126))
    assert np.flatnonzero(record_bits([own, found])).tolist() == [ordinal]


def test_the_buckets_of_a_segment_share_a_row(tier: Path) -> None:
    rows = [
        replace(
            a_row(RowKind.KEYS, block_of(columns_of([key], first_ordinal=at)), segment_index=i),
            bucket=bucket,
        )
        for bucket, (key, at) in enumerate(((b"a", 5), (b"b", 3)))
        for i in range(2)
    ]
    (found,) = ran(tier, ReduceStage(buckets={0: 2}, shuffle_partitions=1, task_of={}), rows)
    assert (found.place, ordinals_in(found)) == ((0, 0), [3, 5])


def rows_of_one_key(tasks: Iterable[int]) -> list[Row]:
    """Of each task the same key in two segments of a partition; its number is the task's."""
    block = block_of(columns_of([b"k"]))
    return [
        replace(a_row(RowKind.KEYS, block, task=task, segment_index=i), partition_index=task)
        for task in tasks
        for i in range(2)
    ]


def test_the_reduce_ends_a_shuffle_partition_before_it_reads_the_next_one(tier: Path) -> None:
    rows = rows_of_one_key([3, 1, 2, 0])
    left = iter(rows)
    stage = ReduceStage(buckets=dict.fromkeys(range(4), 1), shuffle_partitions=2, task_of={})
    found = stage(Worker(tier=open_tier(str(tier)), advance=print), left)
    assert [next(found).place for _ in range(2)] == [(3, 0), (1, 0)]
    assert [*left] == rows[5:]  # One row of the next partition was read.


def test_the_reduce_refuses_a_shuffle_partition_that_comes_again(tier: Path) -> None:
    stage = ReduceStage(buckets=dict.fromkeys(range(4), 1), shuffle_partitions=2, task_of={})
    with pytest.raises(RuntimeError, match="rows of shuffle partition 1 are not together"):
        ran(tier, stage, rows_of_one_key([1, 2, 3]))


def test_rows_move_to_the_new_tasks_of_their_segments(tier: Path) -> None:
    rows = [a_row(RowKind.SUPERSEDED_ORDINALS, bytes([i]), segment_index=i) for i in range(3)]
    moved = ran(tier, MoveStage(task_of={(0, 0): 4, (0, 2): 5, (1, 1): 6}), rows)
    assert moved == [replace(rows[0], task=4), replace(rows[2], task=5)]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_records_bits_come_from_all_rows_in_any_order(order: tuple[int, ...]) -> None:
    own = {RowKind.OWN_SUPERSEDED: [1, 0, 0, 0, 1], RowKind.OWN_SUPERSEDING: [0, 1, 0, 0, 0]}
    others = {RowKind.SUPERSEDED_ORDINALS: [1, 2], RowKind.SUPERSEDING_ORDINALS: [3]}
    payloads = {kind: np.packbits(np.array(bits, np.uint8)) for kind, bits in own.items()}
    payloads |= {kind: np.array(ordinals, np.uint32) for kind, ordinals in others.items()}
    rows = [a_row(kind, payload.tobytes()) for kind, payload in payloads.items()]
    found = record_bits([rows[i] for i in order])
    both = SUPERSEDED | SUPERSEDING
    assert found.tolist() == [SUPERSEDED, both, SUPERSEDED, SUPERSEDING, SUPERSEDED, 0, 0, 0]


@pytest.mark.parametrize(
    "row",
    [
        a_row(RowKind.SUPERSEDED_ORDINALS, np.array([8], np.uint32).tobytes()),
        a_row(RowKind.SUPERSEDED_BITMAP, b"\0\1"),
    ],
    ids=["ordinal", "bitmap"],
)
def test_a_record_beyond_the_segments_own_bitmap_is_an_error(row: Row) -> None:
    own = a_row(RowKind.OWN_SUPERSEDED, b"\0")
    with pytest.raises(IndexError):
        record_bits([own, row])
    with pytest.raises(IndexError):
        record_bits([row])


def test_the_last_bytes_of_a_bitmap_may_be_missing() -> None:
    rows = [a_row(RowKind.OWN_SUPERSEDED, b"\0\0"), a_row(RowKind.SUPERSEDING_BITMAP, b"\x40")]
    assert record_bits(rows).tolist() == [0, SUPERSEDING, *[0] * 14]


def test_the_summaries_of_a_rounds_segments_add_up() -> None:
    nothing = summed(())
    one = replace(nothing, records=1, record_bytes=2, malformed_versions=3, without_key=4)
    assert replace(summed((one, one)), txn_batches=one.txn_batches) == replace(
        one, records=2, record_bytes=4, malformed_versions=6, without_key=8
    )
    assert (nothing.records, len(nothing.txn_batches)) == (0, 0)


@pytest.mark.parametrize(
    "stage",
    [
        ScanStage(first_bucket_task={0: 0}),
        ReduceStage(buckets={0: 1}, shuffle_partitions=1, task_of={(0, 0): 1}),
        MoveStage(task_of={(0, 0): 1}),
        RewriteStage(),
        CheckStage(first_bucket_task={0: 0}),
        CompareStage(passes={0: (1, 2)}),
    ],
    ids=lambda stage: type(stage).__name__,
)
def test_a_stage_survives_pickling(stage: Stage) -> None:
    assert unpickled(pickled(stage)) == stage


def test_a_failure_has_its_parts_and_an_unexpected_one_is_called_a_bug() -> None:
    known = CorruptLog("it is torn", where="a.log", remedy="Restore it.")
    found: RefusalPart = unpickled(failure(known, "elsewhere"))
    assert found == RefusalPart(
        code="corrupt", detail="a.log: it is torn", remedy="Restore it."
    )
    assert found.sentence == str(known)
    surprise = unpickled(failure(IndexError("9"), "b.log"))
    assert surprise.sentence == "b.log: unexpected IndexError: 9. This is a bug; please report it."


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_not_called_a_bug(number: int) -> None:
    # As numba raises it, which does not name the file.
    full = unpickled(failure(OSError(number, os.strerror(number)), "b.log")).sentence
    assert full.startswith("no space is left on a disk where this process writes")
    assert "bug" not in full
    assert REPORT_BUG in sentence_of(OSError(errno.EBADF, "bad"), "b.log")


def test_a_stage_that_runs_out_of_memory_ends_and_is_not_called_a_bug() -> None:
    with pytest.raises(MemoryError):
        failure(MemoryError(), "b.log")
    assert sentence_of(MemoryError(), "b.log") == (
        "b.log: this process ran out of memory. Use --engine spark, or choose less with --topic."
    )


def test_errors_survive_pickling() -> None:
    error = unpickled(pickled(CorruptLog("it is torn", where="a.log", remedy="Restore it.")))
    assert isinstance(error, CorruptLog)
    assert (error.what, error.where, error.remedy) == ("it is torn", "a.log", "Restore it.")
