"""Overlapping uploads: which segments are taken, and from which offset on each counts.

A new leader uploads whole segments that start and end elsewhere than the old leader's. Complete
segments of one lineage then share offsets, and hold the same batches there (SEMANTICS 1, "Overlaps
are normal"):

    reached  0 ────────── 10
    taken            8 ────[11 ──── 15]          effective start 11
    superseded       8 ── 9
    waiting                               18 ── 23    offsets 16 and 17 are missing

If 16 and 17 are a hole (`discovery.holes`), 11 ── 15 ends at 17, and 18 ── 23 is taken, too. A
segment of 0 bytes covers no offset but a hole behind it.

    chain_of(reached, candidates)      -> Chain: taken, superseded, waiting
    comparisons(live, chain)           -> the stretches that must agree before anything is adopted
    with_proof(chain, ..., proof)      -> the taken segments as the row will describe them

An effective start lies above all live segments and never moves, so no removed record comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tierfold.compaction.discovery.holes import ALL_GAPS, Gap, HoleRule
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.segments import Hole, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What becomes of complete unknown segments of the lineage."""

    taken: tuple[Segment, ...]
    """In offset order, each with its effective start; the bytes still count the whole `.log`."""
    superseded: tuple[Segment, ...]
    """Segments of which other segments give every offset."""
    waiting: tuple[Segment, ...]
    """Segments after a gap."""
    reached: int
    """The last offset that is covered with the taken segments; -1: none."""
    live_end: int
    """The last offset that the live segments cover, with a hole behind them; -1: none."""
    holes: tuple[Hole, ...] = ()
    """The gaps that were taken for holes, in offset order."""
    gap: Gap | None = None
    """The first gap that was not; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two segments and the offsets they share, both ends inclusive."""

    first: Segment
    second: Segment
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where a segment's effective range begins in its `.log`."""

    skipped_bytes: int
    first_timestamp_ms: int
    """Max timestamp of the first batch of that range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapProof:
    """The result of comparing the batches of overlapping segments."""

    cuts: Mapping[str, Cut]
    """By segment id, for every taken segment whose effective start is not its own start."""
    disagreements: tuple[str, ...] = ()
    """Why the partition is refused, a sentence each that names both segments."""


def chain_of(
    reached: int,
    candidates: Sequence[Segment],
    rule: HoleRule = ALL_GAPS,
    last_live: Segment | None = None,
) -> Chain:
    """Take each segment that reaches further, in order of start, larger end, id.

    `reached` is the last offset that is already covered, by `last_live` if it is given;
    `candidates` are complete unknown segments of the lineage, in any order, with their own ranges.
    One without a batch whose end is unknown ends below its start.
    """
    taken: list[Segment] = []
    superseded: list[Segment] = []
    waiting: list[Segment] = []
    holes: list[Hole] = []
    live_end, gap = reached, None
    ordered = sorted(candidates, key=lambda s: (s.start_offset, -s.end_offset, s.segment_id))
    for segment in ordered:
        if segment.start_offset > reached + 1:
            before = taken[-1] if taken else last_live
            found = Gap(before=before, after=segment, start_offset=reached + 1)
            if waiting or not rule.is_hole(found):
                gap = gap or found
                waiting.append(segment)
                continue
            holes.append(found.hole)
            reached = segment.start_offset - 1
            if taken:
                taken[-1] = rule.ended_at(taken[-1], reached)
            else:
                live_end = reached
        if max(segment.start_offset, segment.end_offset) <= reached:
            superseded.append(segment)
        elif taken and taken[-1].end_offset < taken[-1].start_offset:
            superseded.append(segment)  # Both have no batch, and start at the same offset.
        else:
            start, reached = reached + 1, segment.end_offset
            taken.append(_from(segment, start))
    if taken and taken[-1].end_offset < taken[-1].start_offset:
        waiting.insert(0, taken.pop())
    return Chain(
        taken=tuple(taken),
        superseded=tuple(superseded),
        waiting=tuple(waiting),
        reached=reached,
        live_end=live_end,
        holes=tuple(holes),
        gap=gap,
    )


def _from(segment: Segment, start_offset: int) -> Segment:
    """The segment with that effective start."""
    end_offset = max(start_offset, segment.end_offset)
    return replace(
        segment,
        start_offset=start_offset,
        skipped_offsets=start_offset - segment.own_start_offset,
        leader_epochs=epochs_in(segment.leader_epochs, start_offset, end_offset),
    )


def comparisons(live: Sequence[Segment], chain: Chain) -> tuple[Comparison, ...]:
    """The stretches in which segments must hold the same batches before any is adopted.

    Each taken segment is compared with every segment that shares offsets with it: other unknown
    ones, and live ones that brokers wrote. A segment that tierfold wrote holds fewer records by
    design, and of a log directory the broker's cleaner may have removed some since the upload
    before: there the lineage suffices.
    """
    if not chain.taken:
        return ()
    unknown = [*chain.taken, *chain.superseded]
    uploads = [segment for segment in (*live, *unknown) if segment.is_evidence]
    ordered = sorted(uploads, key=lambda s: (s.own_start_offset, s.segment_id))
    unknown_ids = {segment.segment_id for segment in unknown}
    found: list[Comparison] = []
    open_segments: list[Segment] = []
    for segment in ordered:
        start_offset = segment.own_start_offset
        open_segments = [s for s in open_segments if s.end_offset >= start_offset]
        found += [
            Comparison(
                first=earlier,
                second=segment,
                start_offset=start_offset,
                end_offset=min(earlier.end_offset, segment.end_offset),
            )
            for earlier in open_segments
            if {earlier.segment_id, segment.segment_id} & unknown_ids
        ]
        open_segments.append(segment)
    return tuple(found)


def with_proof(
    chain: Chain, compared: Sequence[Comparison], proof: OverlapProof
) -> tuple[Segment, ...]:
    """The taken segments as the row describes them, with their cuts and `agrees_with`."""
    agrees: dict[str, set[str]] = {segment.segment_id: set() for segment in chain.taken}
    for comparison in compared:
        first, second = comparison.first.segment_id, comparison.second.segment_id
        for one, other in ((first, second), (second, first)):
            if one in agrees:
                agrees[one].add(other)
    return tuple(
        _cut(segment, proof.cuts.get(segment.segment_id), agrees[segment.segment_id])
        for segment in chain.taken
    )


def _cut(segment: Segment, cut: Cut | None, agrees_with: set[str]) -> Segment:
    segment = replace(segment, agrees_with=tuple(sorted(agrees_with)))
    if cut is None:
        return segment
    return replace(
        segment,
        size_bytes=segment.size_bytes - cut.skipped_bytes,
        skipped_bytes=cut.skipped_bytes,
        first_timestamp_ms=cut.first_timestamp_ms,
    )
