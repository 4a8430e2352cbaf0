"""Offsets between two segments: a hole that Kafka's cleaner left, or a missing segment.

    last batch of a segment    … 6316
    next segment               6318 …      is 6317 a hole, or was it in a segment of its own?

A broker that compacted a topic before it was tiered uploaded segments whose last records its
cleaner had removed; of some it had removed all, and they have 0 bytes. Brokers' metadata say that
such a segment ends where the next one starts. Without them both cases look alike, so a person
decides. A segment's end comes from

    the catalog's row       what was decided before
    brokers' metadata       if a cluster is given (`discovery.phases`)
    its own objects         the manifest in Aiven's layout: `RemoteTier.recorded_end`
    its last batch          then a gap may be a hole
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tierfold.compaction.model.leader_epochs import epochs_in, merged_epochs
from tierfold.compaction.model.segment_ids import is_uploaded_id
from tierfold.compaction.model.segments import Hole, LeaderEpoch, Segment
from tierfold.compaction.model.units import OFFSET_SPAN_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets that no segment covers, below a segment."""

    before: Segment | None
    """The segment below the gap; None: there is none."""
    after: Segment
    start_offset: int

    @property
    def hole(self) -> Hole:
        """The offsets that are not covered."""
        return Hole(start_offset=self.start_offset, end_offset=self.after.start_offset - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoleRule:
    """Which gaps are holes."""

    is_declared: bool = False
    """Whether a person said that no segment is missing."""
    exact_ids: frozenset[str] = frozenset()
    """Ids of segments whose ends are known: behind them a segment is missing."""
    lineage: tuple[LeaderEpoch, ...] = ()
    """The log's leader epochs, of which some may begin in a hole."""

    def may_be_hole(self, gap: Gap) -> bool:
        """Whether nothing but a person can tell the gap from a missing segment."""
        before = gap.before
        return (
            before is not None
            and before.segment_id not in self.exact_ids
            and gap.hole.end_offset - before.own_start_offset <= OFFSET_SPAN_MAX
        )

    def is_hole(self, gap: Gap) -> bool:
        """Whether the segment below the gap covers it.

        An upload of a log directory leaves no segment out.
        """
        ends = (gap.before, gap.after)
        is_known = all(one is not None and is_uploaded_id(one.segment_id) for one in ends)
        return (self.is_declared or is_known) and self.may_be_hole(gap)

    def ended_at(self, segment: Segment, end_offset: int) -> Segment:
        """The segment with a higher end, and with the leader epochs that begin up to there."""
        beyond = epochs_in(self.lineage, segment.next_offset, end_offset)
        return replace(
            segment,
            end_offset=end_offset,
            leader_epochs=merged_epochs([segment.leader_epochs, beyond]),
        )


ALL_GAPS: Final = HoleRule()
"""No gap is a hole."""


def with_end(
    segments: Sequence[Segment], rule: HoleRule, end_offset: int
) -> tuple[Segment, ...]:
    """The segments, the last one up to that end."""
    if not segments or segments[-1].end_offset == end_offset:
        return tuple(segments)
    return (*segments[:-1], rule.ended_at(segments[-1], end_offset))
