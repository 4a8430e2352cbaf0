"""Retention of records and batches: every combination, against a check of one batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from tests.compaction.builders import a_segment
from tierfold.compaction.cleaning.counts import (
    ABORTED,
    KEPT,
    MARKER_EXPIRED,
    SUPERSEDED,
    TOMBSTONE_EXPIRED,
    WITHOUT_KEY,
)
from tierfold.compaction.cleaning.record_retention import (
    BatchColumns,
    BatchRetention,
    RecordFacts,
    Retention,
    RoundRules,
    decide_retention,
    earliest_due_ms,
    is_plain,
    legacy_delete_horizon_ms,
    legacy_tombstones_go,
    must_stay,
)
from tierfold.compaction.model.units import NO_HORIZON, NO_PRODUCER_ID

NOW_MS = 10_000
RETENTION_MS = 700
PRODUCER = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ARecord:
    has_key: bool = True
    has_value: bool = True
    superseded: bool = False
    supersedes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ABatch:
    records: tuple[ARecord, ...] = (ARecord(),)
    is_control: bool = False
    aborted: bool = False
    discardable: bool = False
    horizon_ms: int | None = None
    stays: bool = False
    is_emptied: bool = False
    is_legacy: bool = False


def decided_alone(
    batch: ABatch, *, keeps_tombstones: bool = False, legacy_go: bool = False
) -> tuple[list[int], BatchRetention, int | None]:
    """The rules for one batch: its records' outcomes, its own, the horizon it is written with."""
    is_over = batch.horizon_ms is not None and batch.horizon_ms <= NOW_MS
    is_over = is_over or (batch.is_legacy and legacy_go)
    outcomes = [
        _outcome_of(record, batch, is_over=is_over, keeps_tombstones=keeps_tombstones)
        for record in batch.records
    ]
    kept = [
        record
        for record, outcome in zip(batch.records, outcomes, strict=True)
        if outcome == KEPT
    ]
    if not kept:
        if not batch.stays:
            return outcomes, BatchRetention.DROP, None
        return outcomes, BatchRetention.COPY if batch.is_emptied else BatchRetention.EMPTY, None
    waits = any(not record.has_value for record in kept)
    waits = waits or (batch.is_control and batch.discardable)
    if waits and batch.horizon_ms is None:
        return outcomes, BatchRetention.REWRITE, NOW_MS + RETENTION_MS
    is_whole = len(kept) == len(batch.records) and not batch.is_legacy
    return outcomes, BatchRetention.COPY if is_whole else BatchRetention.REWRITE, batch.horizon_ms


def _outcome_of(
    record: ARecord, batch: ABatch, *, is_over: bool, keeps_tombstones: bool
) -> int:
    if batch.is_control:
        return MARKER_EXPIRED if batch.discardable and is_over else KEPT
    if batch.aborted:
        return ABORTED
    if not record.has_key:
        return WITHOUT_KEY
    if record.superseded:
        return SUPERSEDED
    waits = record.supersedes or keeps_tombstones
    if not record.has_value and is_over and not waits:
        return TOMBSTONE_EXPIRED
    return KEPT


def decided(
    batches: list[ABatch], *, keeps_tombstones: bool = False, legacy_go: bool = False
) -> tuple[Retention, int | None]:
    """All batches at once, and the earliest due time; those that stay are a producer's last."""
    count = len(batches)
    records = [(i, record) for i, batch in enumerate(batches) for record in batch.records]
    horizons = [NO_HORIZON if b.horizon_ms is None else b.horizon_ms for b in batches]
    columns = BatchColumns(
        last_offset=np.arange(count, dtype=np.int64),
        producer_id=np.array([i if b.stays else -1 for i, b in enumerate(batches)], np.int64),
        producer_epoch=np.zeros(count, np.int16),
        is_control=np.array([b.is_control for b in batches], np.bool_),
        is_legacy=np.array([b.is_legacy for b in batches], np.bool_),
        is_emptied=np.array([b.is_emptied for b in batches], np.bool_),
        horizon_ms=np.array(horizons, np.int64),
        record_batch=np.array([i for i, _ in records], np.int32),
        has_key=np.array([r.has_key for _, r in records], np.bool_),
        has_value=np.array([r.has_value for _, r in records], np.bool_),
    )
    facts = RecordFacts(
        aborted=np.array([b.aborted for b in batches], np.bool_),
        discardable=np.array([b.discardable for b in batches], np.bool_),
        superseded=np.array([r.superseded for _, r in records], np.bool_),
        supersedes=np.array([r.supersedes for _, r in records], np.bool_),
        legacy_tombstones_go=legacy_go,
    )
    whole = rules(data=[(i, i) for i in range(count)], remote_end=-1)
    of_round = replace(whole, keeps_tombstones=keeps_tombstones)
    retention = decide_retention(columns, facts, of_round)
    return retention, earliest_due_ms(columns, retention, of_round)


def rules(
    *,
    data: list[tuple[int, int]] | None = None,
    markers: list[tuple[int, int]] | None = None,
    remote_end: int = -1,
) -> RoundRules:
    return RoundRules(
        now_ms=NOW_MS,
        delete_retention_ms=RETENTION_MS,
        remote_end=remote_end,
        last_data_offsets=np.array(data or [], np.int64).reshape(-1, 2),
        marker_epochs=np.array(markers or [], np.int64).reshape(-1, 2),
    )


def every_batch() -> Iterator[ABatch]:
    """Up to two records of every kind, under every flag, on both sides of the horizon."""
    flags = (False, True)
    kinds = [
        ARecord(has_key=key, has_value=value, superseded=lost)
        for key, value, lost in product(flags, repeat=3)
    ]
    kinds.append(ARecord(has_value=False, supersedes=True))
    contents = [(), *product(kinds), *product(kinds, repeat=2)]
    horizons = (None, NOW_MS - 1, NOW_MS, NOW_MS + 1)
    for records, horizon_ms in product(contents, horizons):
        for is_control, aborted, discardable, stays, emptied in product(flags, repeat=5):
            if emptied and (records or horizon_ms is not None):
                continue
            yield ABatch(
                records=records,
                is_control=is_control,
                aborted=aborted,
                discardable=discardable,
                horizon_ms=horizon_ms,
                stays=stays,
                is_emptied=emptied,
            )
    # Before magic 2 there were no transactions, no horizons and no batches without records.
    for records, stays in product([content for content in contents if content], flags):
        yield ABatch(records=records, stays=stays, is_legacy=True)


@pytest.mark.parametrize("legacy_go", [False, True])
@pytest.mark.parametrize("keeps_tombstones", [False, True])
def test_every_combination_follows_the_rules(
    *, keeps_tombstones: bool, legacy_go: bool
) -> None:
    batches = list(every_batch())
    flags = {"keeps_tombstones": keeps_tombstones, "legacy_go": legacy_go}
    found, _ = decided(batches, **flags)
    expected = [decided_alone(batch, **flags) for batch in batches]
    assert found.record.tolist() == [
        outcome for outcomes, _, _ in expected for outcome in outcomes
    ]
    wrong = [
        (batch, BatchRetention(retention), horizon)
        for batch, retention, horizon, (_, by_rule, horizon_by_rule) in zip(
            batches, found.batch, found.horizon_ms.tolist(), expected, strict=True
        )
        # A batch that is dropped or emptied is written without a horizon.
        if retention != by_rule
        or (
            by_rule in {BatchRetention.COPY, BatchRetention.REWRITE}
            and batch.records
            and horizon != (NO_HORIZON if horizon_by_rule is None else horizon_by_rule)
        )
    ]
    assert wrong == []


@pytest.mark.parametrize("legacy_go", [False, True])
@pytest.mark.parametrize("keeps_tombstones", [False, True])
def test_a_plain_batch_is_copied_under_every_rule(
    *, keeps_tombstones: bool, legacy_go: bool
) -> None:
    latest = [b for b in every_batch() if not any(record.superseded for record in b.records)]
    plain = [batch for batch in latest if plain_alone(batch)]
    assert len(plain) > 10
    found, due_ms = decided(plain, keeps_tombstones=keeps_tombstones, legacy_go=legacy_go)
    assert set(found.batch.tolist()) == {BatchRetention.COPY}
    assert set(found.record.tolist()) == {KEPT}
    assert due_ms is None


def plain_alone(batch: ABatch) -> bool:
    return is_plain(
        is_control=np.array([batch.is_control]),
        is_legacy=np.array([batch.is_legacy]),
        is_aborted=np.array([batch.aborted]),
        records=np.array([len(batch.records)], np.int32),
        has_key=np.array([record.has_key for record in batch.records], np.bool_),
        has_value=np.array([record.has_value for record in batch.records], np.bool_),
    )


def test_without_records_there_are_no_outcomes() -> None:
    found, due_ms = decided([])
    assert (found.record.tolist(), found.batch.tolist(), due_ms) == ([], [], None)


TOMBSTONE = ARecord(has_value=False)
LOST_TOMBSTONE = ARecord(has_value=False, superseded=True)


@pytest.mark.parametrize(
    ("batch", "due_ms"),
    [
        # A horizon that this pass sets, and one that was set before.
        (ABatch(records=(TOMBSTONE,)), NOW_MS + RETENTION_MS),
        (ABatch(records=(TOMBSTONE,), horizon_ms=NOW_MS + 1), NOW_MS + 1),
        (ABatch(is_control=True, discardable=True), NOW_MS + RETENTION_MS),
        (ABatch(is_control=True, discardable=True, horizon_ms=NOW_MS + 9), NOW_MS + 9),
        # The batch of its transaction that keeps the marker may be gone by then.
        (ABatch(is_control=True, horizon_ms=NOW_MS + 9), NOW_MS + 9),
        # Nothing waits for a horizon.
        (ABatch(), None),
        (ABatch(is_control=True), None),
        (ABatch(records=(), stays=True), None),
        # The batch keeps its horizon without its tombstone: nothing is due then.
        (ABatch(records=(TOMBSTONE, ARecord()), horizon_ms=NOW_MS), None),
        (ABatch(records=(LOST_TOMBSTONE, ARecord()), horizon_ms=NOW_MS + 1), None),
        (ABatch(records=(TOMBSTONE,), aborted=True, horizon_ms=NOW_MS + 1), None),
        # Passed, and still there: only a pass without its transaction's batches removes it.
        (ABatch(is_control=True, horizon_ms=NOW_MS), None),
    ],
)
def test_when_a_batch_is_due(batch: ABatch, due_ms: int | None) -> None:
    assert decided([batch])[1] == due_ms


def test_the_earliest_of_a_stretch_counts() -> None:
    waiting = [ABatch(records=(TOMBSTONE,), horizon_ms=NOW_MS + at) for at in (30, 20, 25)]
    assert decided([ABatch(), *waiting])[1] == NOW_MS + 20


def outcomes_of(batch: ABatch) -> list[int]:
    found = decided([batch])[0].record.tolist()
    assert found == decided_alone(batch)[0]
    return found


def test_a_record_counts_under_the_first_matching_reason() -> None:
    everything = ARecord(has_key=False, has_value=False, superseded=True)
    reasons = (everything, LOST_TOMBSTONE, TOMBSTONE)
    assert outcomes_of(ABatch(records=reasons, aborted=True, horizon_ms=0)) == [ABORTED] * 3
    assert outcomes_of(ABatch(records=reasons, horizon_ms=0)) == [
        WITHOUT_KEY,
        SUPERSEDED,
        TOMBSTONE_EXPIRED,
    ]


@pytest.mark.parametrize("is_marker", [False, True])
@pytest.mark.parametrize(
    ("horizon_ms", "is_removed"),
    # Base timestamps may be negative; only `NO_HORIZON` means that none is set.
    [(-1, True), (NOW_MS - 1, True), (NOW_MS, True), (NOW_MS + 1, False), (None, False)],
)
def test_a_tombstone_or_marker_is_removed_from_the_millisecond_of_its_horizon(
    horizon_ms: int | None, *, is_removed: bool, is_marker: bool
) -> None:
    marker = ABatch(is_control=True, discardable=True, horizon_ms=horizon_ms)
    tombstone = ABatch(records=(TOMBSTONE,), horizon_ms=horizon_ms)
    removed = MARKER_EXPIRED if is_marker else TOMBSTONE_EXPIRED
    found = outcomes_of(marker if is_marker else tombstone)
    assert found == [removed if is_removed else KEPT]


def of_producer(
    *, last: int, producer: int = PRODUCER, epoch: int = 3, is_control: bool = False
) -> BatchColumns:
    """One batch without records."""
    return BatchColumns(
        last_offset=np.array([last], np.int64),
        producer_id=np.array([producer], np.int64),
        producer_epoch=np.array([epoch], np.int16),
        is_control=np.array([is_control], np.bool_),
        is_legacy=np.zeros(1, np.bool_),
        is_emptied=np.zeros(1, np.bool_),
        horizon_ms=np.array([NO_HORIZON], np.int64),
        record_batch=np.empty(0, np.int32),
        has_key=np.empty(0, np.bool_),
        has_value=np.empty(0, np.bool_),
    )


@pytest.mark.parametrize(
    ("batch", "stays"),
    [
        (of_producer(last=20), True),
        (of_producer(last=19), False),
        (of_producer(last=20, producer=4), False),
        (of_producer(last=20, producer=6), False),
        (of_producer(last=20, producer=NO_PRODUCER_ID), False),
        (of_producer(last=40, producer=9), True),
        (of_producer(last=40, producer=10), False),
        # A control batch may hold the last data offset: then its producer has nothing newer.
        (of_producer(last=20, is_control=True), True),
    ],
)
def test_the_batch_with_a_producers_last_data_offset_stays(
    batch: BatchColumns, *, stays: bool
) -> None:
    # The pair without a producer must not match the batches that have none.
    known = rules(data=[(NO_PRODUCER_ID, 20), (3, 7), (PRODUCER, 20), (9, 40)])
    assert must_stay(batch, known).tolist() == [stays]


@pytest.mark.parametrize(
    ("batch", "stays"),
    [
        (of_producer(last=20, is_control=True), True),
        (of_producer(last=99, is_control=True), True),
        (of_producer(last=20, is_control=False), False),
        (of_producer(last=20, is_control=True, epoch=2), False),
        (of_producer(last=20, is_control=True, producer=6), False),
        (of_producer(last=20, is_control=True, producer=NO_PRODUCER_ID), False),
    ],
)
def test_without_data_a_producers_markers_of_its_epoch_stay(
    batch: BatchColumns, *, stays: bool
) -> None:
    known = rules(markers=[(NO_PRODUCER_ID, 3), (PRODUCER, 3), (7, 2)])
    assert must_stay(batch, known).tolist() == [stays]


@pytest.mark.parametrize(("last", "stays"), [(98, False), (99, True), (100, False)])
def test_the_last_batch_of_the_remote_range_stays(last: int, *, stays: bool) -> None:
    without_producer = of_producer(last=last, producer=NO_PRODUCER_ID)
    assert must_stay(without_producer, rules(remote_end=100)).tolist() == [stays]


@pytest.mark.parametrize(
    ("first_dirty", "horizon_ms"),
    [(0, 0), (10, 0), (11, 5000 - 700), (20, 5000 - 700), (21, 3000 - 700), (99, 3000 - 700)],
)
def test_the_last_clean_segments_age_is_the_horizon_of_legacy_tombstones(
    first_dirty: int, horizon_ms: int
) -> None:
    segments = (a_segment(10, 19, max_timestamp_ms=5000), a_segment(20, 29, max_timestamp_ms=3000))
    assert legacy_delete_horizon_ms(segments, first_dirty, RETENTION_MS) == horizon_ms


@pytest.mark.parametrize(
    ("max_timestamp_ms", "horizon_ms", "go"),
    [(5000, 4999, False), (5000, 5000, True), (0, 0, True), (1, 0, False), (-1, 5000, False)],
)
def test_legacy_tombstones_are_removed_from_segments_as_old_as_the_horizon(
    max_timestamp_ms: int, horizon_ms: int, *, go: bool
) -> None:
    # Without a timestamp the age of a segment is unknown.
    known = replace(rules(), legacy_delete_horizon_ms=horizon_ms)
    assert legacy_tombstones_go(max_timestamp_ms, known) is go
