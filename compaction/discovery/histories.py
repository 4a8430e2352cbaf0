"""Which history of a partition its candidates belong to, by their leader epochs.

After an unclean leader election the new leader writes other records at offsets that the tier
already holds. Only the leader epochs distinguish the two histories, so they are read from every
candidate that has a `.log` (SEMANTICS 1, "Histories first"): from its checkpoint or, without
one, from its batches. The highest epoch decides which lineage is the log's; older checkpoints that
it continues extend it, since each begins at the log start of its time:

    a lineage that contradicts the catalog's row   -> the partition is refused
    a candidate that contradicts the lineage       -> set apart: listed, never read

They contradict each other if they give an offset that both cover to different leaders: that proves
that a log was truncated. What does not fit and contradicts nothing is kept, as unproven.

Rule: Kafka `RemoteLogManager.isRemoteSegmentWithinLeaderEpochs` and `LeaderEpochFileCache`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import not_

from tierfold.compaction.discovery.candidates import NO_EPOCH, Candidate
from tierfold.compaction.discovery.checkpoint_chains import joined
from tierfold.compaction.model.leader_epochs import CoveredEpochs, Disagreement, disagreement
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The partition's lineage, and which readable candidates belong to it."""

    lineage: tuple[LeaderEpoch, ...]
    fitting: tuple[Candidate, ...]
    """Candidates within the lineage."""
    apart: tuple[Candidate, ...]
    """Candidates of another history, each proven by a disagreement."""
    unproven: tuple[Candidate, ...] = ()
    """Candidates that neither fit the lineage nor contradict it at an offset that both cover."""
    violation: str = ""
    """How the lineage differs from the row, a sentence; empty: it does not."""
    is_violation_proven: bool = True
    """Whether the two contradict each other at an offset that both cover."""
    covered_end: int = -1
    """The last offset that the lineage covers."""

    @property
    def complete(self) -> list[Segment]:
        """Those of the candidates within the lineage that can be taken."""
        return [found.segment for found in self.fitting if found.segment is not None]

    def needed(self, reached: int) -> tuple[str, ...]:
        """Ids of candidates set apart that alone have offsets of the log above `reached`."""
        return tuple(
            found.segment_id
            for found in self.apart
            if max(found.start_offset, reached + 1) <= found.shared_until(self.lineage)
        )

    def against(self, candidate: Candidate) -> Disagreement | None:
        """The first offset at which the lineage contradicts a readable candidate; None: nowhere."""
        return candidate.against(self._covered) if self.lineage else None

    def against_live(self, segment: Segment) -> Disagreement | None:
        """The first offset at which the lineage contradicts a live segment; None: nowhere."""
        if not self.lineage or not segment.leader_epochs:
            return None
        own = CoveredEpochs(epochs=segment.leader_epochs, end_offset=segment.end_offset)
        return disagreement(own, self._covered)

    @property
    def _covered(self) -> CoveredEpochs:
        return CoveredEpochs(epochs=self.lineage, end_offset=self.covered_end)


def decided_history(candidates: Sequence[Candidate], row: PartitionState | None) -> History:
    """Decide which lineage is the log's, and check every readable candidate against it.

    `candidates` are all that have a `.log`; `row` is the catalog's, if there is one.
    """
    readable = [candidate for candidate in candidates if candidate.is_readable]
    known = _known(row)
    decider = _newest(readable)
    base, violation = known, None
    if decider is not None and (
        known is None or decider.checkpoint[-1].epoch >= known.epochs[-1].epoch
    ):
        violation = _violation(decider, row)
        base = decider.covered
    checkpoints = [segment.covered for segment in readable if segment.checkpoint]
    lineage = _with_newer_batches(joined(base, known, checkpoints), readable)
    if row is not None and violation is None:
        violation = _truncation(candidates, row)
    covered_end = _covered_end(row, decider, readable)
    decided = History(
        lineage=lineage,
        fitting=(),
        apart=(),
        violation="" if violation is None else violation.sentence,
        is_violation_proven=violation is None or _is_proven(violation, row),
        covered_end=covered_end,
    )
    fitting = [segment for segment in readable if segment.fits(decided.lineage)]
    fitting_ids = {segment.segment_id for segment in fitting}
    others = [segment for segment in readable if segment.segment_id not in fitting_ids]
    is_apart = [decided.against(segment) is not None for segment in others]
    return replace(
        decided,
        fitting=tuple(fitting),
        apart=tuple(compress(others, is_apart)),
        unproven=tuple(compress(others, map(not_, is_apart))),
    )


def _newest(readable: Sequence[Candidate]) -> Candidate | None:
    """The segment whose checkpoint has the highest epoch; None: none has a checkpoint."""
    return max(
        (segment for segment in readable if segment.checkpoint),
        key=lambda segment: (
            segment.checkpoint[-1].epoch,
            segment.end_offset,
            segment.segment_id,
        ),
        default=None,
    )


def _covered_end(
    row: PartitionState | None,
    decider: Candidate | None,
    readable: Sequence[Candidate],
) -> int:
    """The last offset up to which the row, the decider or batches say whose it is."""
    ends = [stretch.last_offset for segment in readable for stretch in segment.stretches]
    ends += [] if row is None else [row.next_offset - 1]
    if decider is not None:
        ends.append(decider.covered.end_offset)
    return max(ends, default=-1)


def _with_newer_batches(
    lineage: tuple[LeaderEpoch, ...], readable: Sequence[Candidate]
) -> tuple[LeaderEpoch, ...]:
    """`lineage` with newer epochs that only batches show, because the upload has no checkpoint.

    An epoch starts at its first batch found, or below. Records of older epochs from there on were
    truncated, as when a leader assigns its epoch (Kafka `LeaderEpochFileCache.assign`).
    """
    newest = lineage[-1].epoch if lineage else NO_EPOCH
    first_offsets: dict[int, int] = {}
    for stretch in (stretch for segment in readable for stretch in segment.stretches):
        if stretch.epoch > newest:
            first = first_offsets.get(stretch.epoch, stretch.first_offset)
            first_offsets[stretch.epoch] = min(first, stretch.first_offset)
    for epoch, start_offset in sorted(first_offsets.items()):
        kept = (entry for entry in lineage if entry.start_offset < start_offset)
        lineage = (*kept, LeaderEpoch(epoch=epoch, start_offset=start_offset))
    return lineage


def _known(row: PartitionState | None) -> CoveredEpochs | None:
    """The row's lineage up to the end of its live segments; None: it has none.

    Rows of catalog format 3 also list epochs of newer uploads that were never live and may have
    been truncated.
    """
    if row is None:
        return None
    epochs = tuple(entry for entry in row.lineage if entry.start_offset < row.next_offset)
    return CoveredEpochs(epochs=epochs, end_offset=row.next_offset - 1) if epochs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Violation:
    """How a candidate's leader epochs differ from the row's."""

    candidate: Candidate
    sentence: str


def _violation(decider: Candidate, row: PartitionState | None) -> _Violation | None:
    """How the deciding checkpoint differs from the row; None: it does not."""
    covered = _known(row)
    if row is None or covered is None:
        return None
    known = {entry.epoch: entry.start_offset for entry in covered.epochs}
    # With the log start, the head of either list may be missing, or its first entry may be higher.
    heads = {row.lineage[0].epoch, decider.checkpoint[0].epoch}
    for entry in decider.checkpoint:
        start_offset = known.get(entry.epoch)
        if start_offset is None:
            if entry.epoch > row.lineage[0].epoch and entry.start_offset < row.next_offset:
                return _truncated(decider, entry.epoch, entry.start_offset, row)
        elif entry.start_offset != start_offset and entry.epoch not in heads:
            sentence = (
                f"in {decider} leader epoch {entry.epoch} starts at offset {entry.start_offset},"
                f" in the catalog at {start_offset}"
            )
            return _Violation(candidate=decider, sentence=sentence)
    return None


def _truncation(candidates: Sequence[Candidate], row: PartitionState) -> _Violation | None:
    """How a candidate shows that the log was truncated; None: none does.

    An upload without a checkpoint shows it by its batches, one with a torn log by its checkpoint.
    """
    known = _known(row)
    newest = NO_EPOCH if known is None else known.epochs[-1].epoch
    for candidate in candidates:
        epochs = [(entry.epoch, entry.start_offset) for entry in candidate.checkpoint]
        epochs += [(stretch.epoch, stretch.first_offset) for stretch in candidate.stretches]
        for epoch, start_offset in epochs:
            if epoch > newest and start_offset < row.next_offset:
                return _truncated(candidate, epoch, start_offset, row)
    return None


def _truncated(
    candidate: Candidate, epoch: int, start_offset: int, row: PartitionState
) -> _Violation:
    sentence = (
        f"{candidate} is of leader epoch {epoch}, which starts at offset {start_offset}; the live"
        f" segments have records of an older leader there, up to offset {row.next_offset - 1}"
    )
    return _Violation(candidate=candidate, sentence=sentence)


def _is_proven(violation: _Violation, row: PartitionState | None) -> bool:
    """Whether the candidate and the row give a common offset to different leaders."""
    known = _known(row)
    return known is not None and violation.candidate.against(known) is not None
