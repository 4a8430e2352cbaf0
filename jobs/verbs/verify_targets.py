"""Chooses what `verify` reads of each partition: its live segments and the originals.

The originals (`jobs.pipeline.originals`) define the latest value of every key, by the strategy
that the partition was compacted under.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tierfold.compaction.discovery.view import (
    PartitionView,
    Refusal,
    RefusalReason,
    first_break,
)
from tierfold.compaction.model.aborted_transactions import AbortedTransaction, reaching
from tierfold.compaction.model.cleaner_vectors import CLEANER_OFFSETS_KEPT
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.hash_key import HashKey
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.compaction.model.strategies import BY_OFFSET, named_strategy
from tierfold.compaction.planning.open_step import served_look
from tierfold.compaction.publishing.look import Look
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.engines.task_assignment import buckets_of
from tierfold.jobs.pipeline.discovery import aborted_in
from tierfold.jobs.pipeline.known_partition import KnownPartition, why_absent
from tierfold.jobs.pipeline.originals import originals_of
from tierfold.jobs.pipeline.survey import inspected
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.segments.segment_check import CheckOrder
from tierfold.storage.tiers.remote_tier import Listing

CORRUPTIONS: Final = frozenset(
    {
        RefusalReason.CORRUPT,
        RefusalReason.DATA_GONE,
        RefusalReason.GAP,
        RefusalReason.OVERLAP,
        RefusalReason.PARTIAL_SEGMENT,
    }
)
"""The refusals that are what `verify` looks for: objects or offsets of the tier are wrong. Of any
other, it is unknown whether anything is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSet:
    """A chain of segments that covers the live range."""

    segments: tuple[Segment, ...]
    aborted: tuple[AbortedTransaction, ...]
    """The aborted transactions in their indexes."""

    @property
    def ids(self) -> frozenset[str]:
        """The segments' ids."""
        return frozenset(segment.segment_id for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyTarget:
    """One partition to verify."""

    key: PartitionKey
    index_interval_bytes: int
    batch_bytes_max: int
    """The rules' `decompressed_batch_max_bytes`; 0: not set."""
    now: SegmentSet
    """The live segments."""
    before: SegmentSet | None
    """The originals; None: there is nothing to compare with."""
    is_listed_known: bool = True
    """Every live transaction index could be read."""
    strategy: str = BY_OFFSET
    """The compaction strategy by which keys are compared, as the catalog names it."""
    passes: tuple[int, ...] = ()
    """If versions decide: the offsets at which passes ended, ascending."""
    commit_id: str = ""
    """The commit of the catalog's row at the time of the survey; empty: no row."""
    corruptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    left: str = ""
    """Why nothing of it is read, a clause; empty: it is, or it is refused."""
    refusal: Refusal | None = None
    """Why nothing of it can be verified; None: it can, or it is left."""
    look: Look | None = None
    """What brokers have of it; None: none were asked, or the row names no cluster."""

    @property
    def is_unread(self) -> bool:
        """Whether nothing of it is read, and nothing is said of its objects."""
        return bool(self.left) or self.refusal is not None

    @property
    def read(self) -> tuple[Segment, ...]:
        """All segments to read: the live ones, then the originals that are not live."""
        if self.before is None:
            return self.now.segments
        live = self.now.ids
        return self.now.segments + tuple(
            segment for segment in self.before.segments if segment.segment_id not in live
        )

    @property
    def read_bytes(self) -> int:
        """Bytes of all logs to read."""
        return sum(segment.size_bytes for segment in self.read)

    @property
    def versions(self) -> VersionSource:
        """The source of versions that orders the records of a key."""
        strategy, header = named_strategy(self.strategy)
        return VersionSource(strategy=strategy, header=header)

    def without_comparison(self, why: str) -> VerifyTarget:
        """Return the target without a comparison of keys, with the reason."""
        return replace(self, before=None, notes=(*self.notes, f"not compared: {why}"))


def target_of(context: RunContext, known: KnownPartition, rules: Rules) -> VerifyTarget:
    """Inspect one partition; a refusal is its own or a corruption, and nothing is raised."""
    key = known.key
    empty = VerifyTarget(
        key=key,
        index_interval_bytes=rules.index_interval_bytes,
        batch_bytes_max=rules.decompressed_batch_max_bytes or 0,
        now=SegmentSet(segments=(), aborted=()),
        before=None,
    )
    if known.is_left_alone:
        return replace(empty, left=why_absent(known))
    view = inspected(context, known)
    if isinstance(view, Refusal):
        if view.reason in CORRUPTIONS:
            return replace(empty, corruptions=(view.sentence,))
        return replace(empty, refusal=view)
    breaks = first_break(view.segments)
    target = replace(
        empty,
        now=SegmentSet(segments=view.segments, aborted=()),
        commit_id="" if view.state is None else view.state.commit_id,
        corruptions=() if breaks is None else (breaks.sentence,),
        notes=view.notes,
        look=served_look(view, rules, context.now_ms),
    )
    try:
        now = SegmentSet(segments=view.segments, aborted=aborted_in(context, key, view.segments))
    # The worker that reads the segment reports the corruption of its index.
    except TierfoldError:
        why = "a live transaction index cannot be read"
        return replace(target.without_comparison(why), is_listed_known=False)
    return _with_originals(context, replace(target, now=now), view, known.listed)


def _with_originals(
    context: RunContext, target: VerifyTarget, view: PartitionView, listed: Listing
) -> VerifyTarget:
    """Add the originals to compare with, or the reason why there are none."""
    if not view.segments:
        return target.without_comparison("no segment is live")
    if all(segment.is_upload for segment in view.segments):
        return target.without_comparison("nothing was rewritten since the upload")
    decided = _decided(target, view)
    if isinstance(decided, str):
        return target.without_comparison(decided)
    try:
        originals = originals_of(view, listed)
        if isinstance(originals, str):
            return target.without_comparison(originals)
        aborted = aborted_in(context, target.key, originals)
    except TierfoldError as error:
        return target.without_comparison(str(error))
    return replace(decided, before=SegmentSet(segments=originals, aborted=aborted))


def _decided(target: VerifyTarget, view: PartitionView) -> VerifyTarget | str:
    """Add the strategy, or return why the expected record of a key is unknown."""
    state = view.state
    if state is None or state.strategies in {(), (BY_OFFSET,)}:
        return target
    if len(state.strategies) > 1:
        return f"compacted by {', then by '.join(state.strategies)}: removed records do not return"
    (name,) = state.strategies
    try:
        named_strategy(name)
    except ValueError:
        return f"compacted by {name}, which this version of tierfold does not know"
    return _by_versions(replace(target, strategy=name), state)


def _by_versions(target: VerifyTarget, state: PartitionState) -> VerifyTarget | str:
    """As `_decided`, if versions decide: a record may then supersede a later one."""
    if any(retired.segment.end_offset < state.log_start_offset for retired in state.retired):
        return (
            f"compacted by {target.strategy}, and records that have expired since may have "
            "superseded later ones"
        )
    if len(state.cleaner_offsets) >= CLEANER_OFFSETS_KEPT:
        return (
            f"compacted by {target.strategy} in more than {CLEANER_OFFSETS_KEPT} runs, and the "
            "catalog no longer has the offset where each ended"
        )
    return replace(target, passes=tuple(sorted(entry.offset for entry in state.cleaner_offsets)))


def orders_of(target: VerifyTarget, hash_key: HashKey) -> list[CheckOrder]:
    """Return one order per segment of `target.read`, in that order; `hash_key` is the run's."""
    live = target.now.ids
    last_id = target.now.segments[-1].segment_id if target.now.segments else ""
    buckets = buckets_of(target.read_bytes)
    return [
        CheckOrder(
            key=target.key,
            segment=segment,
            is_live=segment.segment_id in live,
            is_last=segment.segment_id == last_id,
            index_interval_bytes=target.index_interval_bytes,
            buckets=buckets,
            aborted_now=_reaching(target.now, segment) if target.before else None,
            aborted_before=_reaching(target.before, segment) if target.before else None,
            hash_key=hash_key,
            versions=target.versions,
            batch_bytes_max=target.batch_bytes_max,
        )
        for segment in target.read
    ]


def _reaching(segment_set: SegmentSet, segment: Segment) -> tuple[AbortedTransaction, ...] | None:
    """The set's aborted transactions that reach into the segment; None: not in the set."""
    if segment.segment_id not in segment_set.ids:
        return None
    return reaching(segment_set.aborted, segment.start_offset, segment.end_offset)
