"""A segment of real batches in a round: what its facts say, and what the rewrite finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tests.compaction.hash_keys import HASH_KEY
from tests.pictures.batch_words import draft_of
from tests.storage.corrupted_bytes import patched, summed
from tests.storage.live_segments import KEY, a_group_task, put_segment
from tierfold.compaction.cleaning.record_retention import RoundRules
from tierfold.compaction.cleaning.rounds import GroupTask
from tierfold.compaction.commits.receipts import GroupReceipt
from tierfold.compaction.model.aborted_transactions import AbortedTransaction, reaching
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.drop_limits import DropLimits
from tierfold.compaction.skipping.segment_facts import SegmentFacts
from tierfold.compaction.skipping.skip_decision import RoundFacts, may_change
from tierfold.storage.kafka.batch_draft import write_batch
from tierfold.storage.key_indexes.index_files import filter_file, index_file, read_filter_file
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.segments.log_windows import live_log
from tierfold.storage.segments.segment_scan import ScanOrder, scan_segment
from tierfold.storage.tiers.remote_tier import RemoteTier

FPP: Final = 0.01
_BASE_TIMESTAMP_AT: Final = 27


@dataclass(frozen=True, slots=True, kw_only=True)
class ARound:
    """A round at time 500; the remote range ends far behind the segment."""

    now_ms: int = 500
    delete_retention_ms: int = 1000
    remote_end: int = 2001
    data: tuple[tuple[int, int], ...] = ()
    """(producer, last data offset) of active producers."""
    epochs: tuple[tuple[int, int], ...] = ()
    """(producer, epoch) of active producers without data."""
    aborted: tuple[AbortedTransaction, ...] = ()
    discardable: tuple[int, ...] = ()
    listed: tuple[AbortedTransaction, ...] = ()
    keeps_tombstones: bool = False
    served: DropLimits | None = None

    @property
    def rules(self) -> RoundRules:
        """The rules of the whole round."""
        return RoundRules(
            now_ms=self.now_ms,
            delete_retention_ms=self.delete_retention_ms,
            remote_end=self.remote_end,
            last_data_offsets=np.array(sorted(self.data), np.int64).reshape(-1, 2),
            marker_epochs=np.array(sorted(self.epochs), np.int64).reshape(-1, 2),
            keeps_tombstones=self.keeps_tombstones,
            served=self.served,
        )

    @property
    def facts(self) -> RoundFacts:
        """What `may_change` needs of the round."""
        return RoundFacts(
            rules=self.rules,
            aborted=self.aborted,
            discardable=np.array(sorted(self.discardable), np.int64),
            listed=self.listed,
        )

    def task_of(self, segment: Segment) -> GroupTask:
        """The task of rewriting the segment alone, as `cleaning.rounds.group_tasks` makes it."""
        start, end = segment.start_offset, segment.end_offset
        inside = [at for at in sorted(self.discardable) if start <= at <= end]
        return a_group_task(
            (segment,),
            rules=self.rules,
            aborted=reaching(self.aborted, start, end),
            discardable=np.array(inside, np.int64),
            listed=tuple(one for one in self.listed if start <= one.last_offset <= end),
            ends_in_batch=end + 1 == self.remote_end,
            fpp=FPP,
        )


def batch_of(word: str) -> bytes:
    """The batch that a word of `tests.pictures` draws; with `!` its base timestamp is 0.

    An emptied batch has none, so that one is emptied again.
    """
    data = write_batch(draft_of(word.removesuffix("!"), 0))
    return summed(patched(data, _BASE_TIMESTAMP_AT, "q", 0)) if word.endswith("!") else data


def segment_of(
    tier: RemoteTier,
    words: Sequence[str],
    *,
    indexed: Sequence[AbortedTransaction] = (),
    **fields: Any,
) -> Segment:
    """A segment of these batches in the tier; `indexed`: what its transaction index lists."""
    drafts = [draft_of(word.removesuffix("!"), 0) for word in words]
    last = drafts[-1].base_offset if drafts[-1].last_offset is None else drafts[-1].last_offset
    offsets = (fields.pop("start_offset", drafts[0].base_offset), last)
    segment = put_segment(tier, [*map(batch_of, words)], offsets=offsets, aborted=indexed)
    return replace(segment, **fields)


def facts_of(tier: RemoteTier, segment: Segment) -> SegmentFacts:
    """The segment's facts from a scan, as they return from their file."""
    files = scanned_files(tier, segment)
    assert files is not None
    return read_filter_file(files[0], segment).facts


def scanned_files(tier: RemoteTier, segment: Segment, *, threads: int = 1) -> list[bytes] | None:
    """Both files of the index that a scan of the segment makes, `.bloom` first; None: none."""
    order = ScanOrder(
        hash_key=HASH_KEY, first_dirty=segment.next_offset, buckets=1, threads=threads, fpp=FPP
    )
    scanned = scan_segment(live_log(tier, KEY, segment), (), order)
    built = scanned.indexing.built(segment, FPP)
    if built is None:
        return None
    indexed, index = built
    return [filter_file(indexed), index_file(indexed.facts, index)]


def is_left_unread(tier: RemoteTier, segment: Segment, of_round: ARound) -> bool:
    """Whether its facts say that nothing of it changes."""
    return not may_change(facts_of(tier, segment), segment, of_round.facts)


def rewritten(tier: RemoteTier, segment: Segment, of_round: ARound) -> GroupReceipt:
    """The receipt of its rewrite, of no record superseded."""
    records = facts_of(tier, segment).records
    return rewrite_group(tier, of_round.task_of(segment), lambda _: np.zeros(records, np.uint8))
