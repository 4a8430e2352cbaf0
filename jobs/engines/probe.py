"""Between the scans of dirty and of clean segments: asks key indexes which clean ones to read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.cleaning.transactions import joined_batches
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.skipping.key_index import KeyIndex
from tierfold.compaction.skipping.probe_counts import NO_PROBES, ProbeCounts
from tierfold.compaction.skipping.segment_facts import SegmentFacts
from tierfold.compaction.skipping.skip_decision import (
    COMPETING_MAX,
    CompetingKeys,
    IndexAnswer,
    SkipReason,
    all_competing,
    answer_for,
    counts_of_answer,
)
from tierfold.jobs.engines.rows import Row, RowKind, Worker, pickled, unpickled
from tierfold.jobs.engines.scan import TOO_MANY, ScanSummary
from tierfold.storage.key_indexes.index_folder import KeyIndexes

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTask:
    """Everything that a worker needs to ask the key index of one segment."""

    key: PartitionKey
    segment: Segment
    rules: Rules
    spared_bytes: int
    """Superseded bytes that earlier rounds left in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What the key index of one segment says."""

    answer: IndexAnswer
    facts: SegmentFacts | None
    """None: they are unknown, and the segment is read."""
    counts: ProbeCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStage:
    """PROBE rows → PROBED rows."""

    competing: Mapping[int, CompetingKeys]
    """The competing keys of each round, by partition index."""

    def __call__(self, worker: Worker, rows: Iterable[Row]) -> Iterator[Row]:
        """Ask the indexes of the segments of one task."""
        for row in rows:
            task: ProbeTask = unpickled(row.payload)
            try:
                probed = _probed(worker, task, self.competing[row.partition_index])
            except Exception as error:  # noqa: BLE001 - a broken index only costs a read
                _log.debug("The index of %s is not used: %r", task.segment.segment_id, error)
                counts = replace(NO_PROBES, unsound_index=1)
                answer = IndexAnswer(reason=SkipReason.UNSOUND_INDEX)
                probed = Probed(answer=answer, facts=None, counts=counts)
            yield replace(row, kind=RowKind.PROBED, payload=pickled(probed))
            worker.advance(task.segment.size_bytes)


def _probed(worker: Worker, task: ProbeTask, competing: CompetingKeys) -> Probed:
    indexes, bytes_read = worker.key_indexes, 0

    def answered(answer: IndexAnswer, facts: SegmentFacts | None) -> Probed:
        counts = counts_of_answer(
            answer,
            competing=len(competing),
            fpp=float(task.rules.bloom_filter_fpp),
            index_bytes_read=bytes_read,
        )
        return Probed(answer=answer, facts=facts, counts=counts)

    def read_index(indexes: KeyIndexes) -> KeyIndex | SkipReason:
        nonlocal bytes_read
        index, index_bytes = indexes.index_of(task.key, task.segment)
        bytes_read += index_bytes
        return index

    if indexes is None:
        return answered(IndexAnswer(reason=SkipReason.NO_INDEX), None)
    found, bytes_read = indexes.filter_of(task.key, task.segment)
    if isinstance(found, SkipReason):
        return answered(IndexAnswer(reason=found), None)
    answer = answer_for(
        found.facts,
        competing,
        task.rules,
        found.bloom,
        lambda: read_index(indexes),
        task.spared_bytes,
    )
    return answered(answer, found.facts)


def competing_by_round(
    rounds: Sequence[Round], scanned: Iterable[Row]
) -> dict[int, CompetingKeys]:
    """Return the competing keys of each round whose key indexes are worth asking.

    `scanned`: COMPETING and FAILED rows of its dirty segments. A round with too many keys is left
    out, and so is one that failed.
    """
    pieces: dict[int, list[CompetingKeys]] = {work.index: [] for work in rounds if work.skippable}
    for row in scanned:
        if row.kind is RowKind.FAILED or row.payload == TOO_MANY:
            pieces.pop(row.partition_index, None)
        elif row.partition_index in pieces:
            words = np.frombuffer(row.payload, np.uint64)
            pieces[row.partition_index].append(CompetingKeys(words))
    found = {index: all_competing(of_one) for index, of_one in pieces.items()}
    return {index: keys for index, keys in found.items() if len(keys) <= COMPETING_MAX}


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedByAnswer:
    """The probed segments, by what to do next; a place is (partition index, segment index)."""

    skipped: frozenset[tuple[int, int]]
    """The places of segments that are not scanned."""
    unindexed: frozenset[tuple[int, int]]
    """The places of segments without a sound key index."""
    summaries: list[Row]
    """A SCANNED row per segment; for a skipped one, its facts replace the scan."""


def sorted_by_answer(probed: Sequence[Row]) -> SortedByAnswer:
    """Sort segments by their PROBED rows."""
    skipped: set[tuple[int, int]] = set()
    unindexed: set[tuple[int, int]] = set()
    summaries: list[Row] = []
    for row in probed:
        probe: Probed = unpickled(row.payload)
        summary = ScanSummary(txn_batches=joined_batches(()), probes=probe.counts)
        if probe.answer.reason in {SkipReason.NO_INDEX, SkipReason.UNSOUND_INDEX}:
            unindexed.add(row.place)
        elif probe.answer.is_skip and probe.facts is not None:
            skipped.add(row.place)
            summary = replace(
                summary,
                txn_batches=probe.facts.watched.transaction_batches,
                records=probe.facts.records,
                record_bytes=probe.facts.record_bytes,
                unread=((row.segment_index, probe.facts),),
                spared=((probe.facts.segment_id, probe.answer.spared_bytes),),
            )
        summaries.append(replace(row, kind=RowKind.SCANNED, payload=pickled(summary)))
    return SortedByAnswer(
        skipped=frozenset(skipped), unindexed=frozenset(unindexed), summaries=summaries
    )
