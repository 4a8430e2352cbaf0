"""Which clean segments a round leaves unread.

A segment below the first dirty offset supersedes nothing. So its keys need not be read unless a
competing record may have one of them, and it need not be rewritten unless a batch of it changes.

    answer_for   do its keys have to be read?          by the Bloom filter and the key index
    may_change   may a batch of it change otherwise?   by its facts, once transactions are known
    kept_apart   the groups of a round, without segments that stay as they are
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.group_outcome import (
    closing_batch_of,
    offset_violation,
    reason_before_reading,
    reason_in_batches,
)
from tierfold.compaction.cleaning.record_retention import (
    BatchColumns,
    RecordFacts,
    RoundRules,
    decide_retention,
)
from tierfold.compaction.cleaning.transactions import aborted_batches
from tierfold.compaction.model.aborted_transactions import AbortedTransaction, reaching
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.spared_bytes import is_worth_rewriting
from tierfold.compaction.planning.grouping import SegmentGroup, sharing_offsets
from tierfold.compaction.skipping.bloom_filter import BloomFilter
from tierfold.compaction.skipping.key_index import SIZE_ERROR, KeyIndex
from tierfold.compaction.skipping.probe_counts import NO_PROBES, ProbeCounts
from tierfold.compaction.skipping.segment_facts import SegmentFacts

COMPETING_MAX: Final = 2_000_000
"""The maximum of competing keys for which a round consults indexes. More are rare, and then nearly
every segment has one of them."""

_TOMBSTONE: Final = np.uint64(1)


@dataclass(frozen=True, slots=True)
class CompetingKeys:
    """The keys that may supersede records of clean segments."""

    words: NDArray[np.uint64]
    """Shape (keys,): the hash of each, once, ascending; bit 0: some competing record of it is a
    tombstone."""

    def __len__(self) -> int:
        return len(self.words)

    @property
    def is_tombstone(self) -> NDArray[np.bool_]:
        """Shape (keys,): whether a competing record of the key is a tombstone."""
        return (self.words & _TOMBSTONE).astype(np.bool_)


def competing_keys(
    hashes: NDArray[np.uint64], is_tombstone: NDArray[np.bool_]
) -> CompetingKeys:
    """The competing keys of records with these key hashes; both have shape (records,)."""
    return _each_once(hashes | is_tombstone.astype(np.uint64))


def all_competing(pieces: Sequence[CompetingKeys]) -> CompetingKeys:
    """The competing keys of several stretches of a log."""
    none = np.empty(0, np.uint64)
    return _each_once(np.concatenate([none, *(piece.words for piece in pieces)]))


def _each_once(words: NDArray[np.uint64]) -> CompetingKeys:
    ordered = np.sort(words)
    # The last word of a hash has the bit if any of them has it.
    is_last = np.ones(len(ordered), np.bool_)
    is_last[:-1] = (ordered[1:] ^ ordered[:-1]) > _TOMBSTONE
    return CompetingKeys(ordered[is_last])


class SkipReason(StrEnum):
    """Why the keys of a segment are read or not; the value names its count in `ProbeCounts`."""

    BLOOM_FILTER = "by_bloom_filter"
    """Skipped: the Bloom filter denies all competing keys."""
    KEY_INDEX = "by_key_index"
    """Skipped: the key index lacks all competing keys."""
    SMALL_GAIN = "by_small_gain"
    """Skipped: a rewrite would save less than the settings demand."""
    SUPERSEDED = "superseded"
    """Read: it has records of competing keys."""
    NO_INDEX = "no_index"
    """Read: it has none, or that cannot be read now."""
    UNSOUND_INDEX = "unsound_index"
    """Read: its index is damaged, of another segment, or of another version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexAnswer:
    """Whether the keys of one segment are read, and what the filter and the index said."""

    reason: SkipReason
    claimed: int = 0
    """Competing keys that the Bloom filter claims."""
    found: int | None = None
    """Competing keys that the segment has; None: unknown, because its index was not read."""
    spared_bytes: int = 0
    """If it is skipped for its small gain: an upper bound of the bytes that are superseded."""

    @property
    def is_skip(self) -> bool:
        """Whether the keys are not read."""
        skips = (SkipReason.BLOOM_FILTER, SkipReason.KEY_INDEX, SkipReason.SMALL_GAIN)
        return self.reason in skips


def answer_for(
    facts: SegmentFacts,
    competing: CompetingKeys,
    rules: Rules,
    bloom: BloomFilter,
    read_index: Callable[[], KeyIndex | SkipReason],
    spared_before: int = 0,
) -> IndexAnswer:
    """Whether the keys of the segment must be read.

    `read_index` is called only if the Bloom filter claims a key; it returns the index, or why there
    is none. `spared_before`: the superseded bytes that earlier rounds left; what is left adds up.

    A segment is not skipped for its small gain if a tombstone would supersede a record in it. Once
    the tombstone is gone, that record would come back.
    """
    is_claimed = bloom.may_hold(competing.words)
    claimed = int(np.count_nonzero(is_claimed))
    if not claimed:
        return IndexAnswer(reason=SkipReason.BLOOM_FILTER, found=0)
    index = read_index()
    if isinstance(index, SkipReason):
        return IndexAnswer(reason=index, claimed=claimed)
    hashes = competing.words
    saved = index.matches(hashes[is_claimed])
    reason = SkipReason.SUPERSEDED
    if not saved.keys:
        reason = SkipReason.KEY_INDEX
    elif not is_worth_rewriting(
        spared_before + _saved_bytes(saved.record_bytes, facts), facts.size_bytes, rules
    ):
        deleted = index.matches(hashes[is_claimed & competing.is_tombstone])
        if not deleted.keys:
            return IndexAnswer(
                reason=SkipReason.SMALL_GAIN,
                claimed=claimed,
                found=saved.keys,
                spared_bytes=math.ceil(_saved_bytes(saved.record_bytes * SIZE_ERROR, facts)),
            )
    return IndexAnswer(reason=reason, claimed=claimed, found=saved.keys)


def counts_of_answer(
    answer: IndexAnswer, *, competing: int, fpp: float, index_bytes_read: int
) -> ProbeCounts:
    """The counts of one segment; `competing`: how many keys were asked for.

    `fpp` is `bloom.filter.fpp`.
    """
    one = replace(NO_PROBES, **{answer.reason.value: 1}, index_bytes_read=index_bytes_read)
    if answer.found is None:
        return one
    lacked = competing - answer.found
    return replace(
        one,
        keys_lacked=lacked,
        keys_claimed=answer.claimed - answer.found,
        keys_claimed_promised=lacked * fpp,
    )


def _saved_bytes(record_bytes: float, facts: SegmentFacts) -> float:
    """The stored bytes that a rewrite saves by so many bytes of records."""
    return min(1.0, record_bytes / max(1, facts.record_bytes)) * facts.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFacts:
    """What decides in a round whether batches change without losing a key."""

    rules: RoundRules
    aborted: Sequence[AbortedTransaction]
    discardable: NDArray[np.int64]
    """Base offsets, ascending, of control batches that may be removed."""
    listed: Sequence[AbortedTransaction]
    """The transactions that transaction indexes must list, by marker offset."""


def may_change(facts: SegmentFacts, segment: Segment, of_round: RoundFacts) -> bool:
    """Whether the segment may have to be rewritten although none of its records is superseded.

    In doubt it may, and the rewrite finds out.
    """
    return any(_changes(facts, segment, of_round))


def _changes(facts: SegmentFacts, segment: Segment, of_round: RoundFacts) -> Iterator[bool]:
    limits, group = of_round.rules.limits, SegmentGroup(segments=(segment,))
    due_ms = facts.due_ms
    ends_range = segment.end_offset + 1 == of_round.rules.remote_end
    yield reason_before_reading(group.segments, limits) is not None
    # A horizon that the catalog lacks: `reason_after_reading`.
    yield due_ms is not None and segment.earliest_due_ms is None
    yield facts.has_undated_tombstones
    # Those of several batches have one earliest horizon, and some may lie where it has not passed.
    yield limits.may_have_passed(facts.tombstones_due_ms, segment.start_offset)
    yield segment.has_transaction_index
    listed = of_round.listed
    at = bisect_left(listed, segment.start_offset, key=lambda t: t.last_offset)
    yield at < len(listed) and listed[at].last_offset <= segment.end_offset
    yield closing_batch_of(group, facts.last_offset, ends_in_batch=ends_range) is not None
    yield bool(offset_violation(facts.first_offset, facts.last_offset, segment))
    yield _watched_change(facts, of_round)


def _watched_change(facts: SegmentFacts, of_round: RoundFacts) -> bool:
    """Whether the rules change one of the watched batches, of which no record is superseded."""
    watched = facts.watched
    rows = np.flatnonzero(watched.has_records).astype(np.int32)
    has_key = np.ones(len(rows), np.bool_)
    aborted = np.zeros(len(watched), np.bool_)
    decides = watched.is_transactional | watched.is_control
    if decides.any():
        reach = reaching(of_round.aborted, facts.first_offset, facts.last_offset)
        aborted[decides] = aborted_batches(watched.transaction_batches, reach)
    columns = BatchColumns(
        last_offset=watched.last_offset,
        producer_id=watched.producer_id,
        producer_epoch=watched.producer_epoch,
        is_control=watched.is_control,
        is_legacy=np.zeros(len(watched), np.bool_),
        is_emptied=watched.is_emptied,
        horizon_ms=watched.horizon_ms,
        record_batch=rows,
        has_key=has_key,
        has_value=has_key,
    )
    facts_of_records = RecordFacts(
        aborted=aborted,
        discardable=watched.is_control & np.isin(watched.base_offset, of_round.discardable),
        superseded=~has_key,
        supersedes=~has_key,
        legacy_tombstones_go=False,
    )
    retention = decide_retention(columns, facts_of_records, of_round.rules)
    return reason_in_batches(retention.batch) is not None


def kept_apart(
    groups: Sequence[SegmentGroup], stays: Container[str]
) -> tuple[SegmentGroup, ...]:
    """The groups of a round, cut so that a segment that stays is not rewritten for small ones.

    `stays`: ids of segments that need no rewrite. Such a segment leaves its group, unless those
    beside it that are rewritten anyway have at least as many bytes; then it joins them, as in
    Kafka's `Cleaner.groupSegmentsBySize`. For brokers, segments that share offsets are rewritten
    together. So each byte is rewritten a number of times that grows
    with the logarithm of the log, and segments pile up only if each is smaller than the one before.
    """
    return tuple(cut for group in groups for cut in _cut(group, stays))


def _cut(group: SegmentGroup, stays: Container[str]) -> Iterator[SegmentGroup]:
    """The group, cut around segments that stay."""
    pieces: list[tuple[Segment, ...]] = [(segment,) for segment in group.segments]
    if group.is_for_brokers:
        pieces = list(sharing_offsets(group.segments))
    is_rewritten = [len(piece) > 1 or piece[0].segment_id not in stays for piece in pieces]
    at = 0
    while at + 1 < len(pieces):
        left, right = pieces[at], pieces[at + 1]
        is_left, is_right = is_rewritten[at], is_rewritten[at + 1]
        sizes = [sum(segment.size_bytes for segment in piece) for piece in (left, right)]
        joins = (is_left and is_right) or (
            (is_left and sizes[1] <= sizes[0]) or (is_right and sizes[0] <= sizes[1])
        )
        if joins:
            pieces[at : at + 2] = [(*left, *right)]
            is_rewritten[at : at + 2] = [True]
            at = max(0, at - 1)
        else:
            at += 1
    return (replace(group, segments=piece) for piece in pieces)
