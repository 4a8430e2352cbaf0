"""What the row of a served partition notes of a round, for tombstones and markers that wait.

    NotePass          from when on the round's delete horizons count: once it is published
    NoteFoundHorizon  of a merge, which is no pass: those that it found count from the next one
    NoteLocalRanges   until when brokers can have local copies, before uploads are replaced

Rule: PUBLISHING 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.commit import (
    NoteFoundHorizon,
    NoteLocalRanges,
    NotePass,
    Update,
)
from tierfold.compaction.commits.receipts import GroupReceipt
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.planning.local_copies import joined_past, local_ranges


def notes_for_readers(
    work: Round, receipts: Sequence[GroupReceipt], at_ms: int
) -> tuple[Update, ...]:
    """The notes of a round that wrote something; `at_ms`: the time of its commit."""
    noted = _horizons_noted(work, receipts)
    brokers = None if work.plan.view is None else work.plan.view.brokers
    if brokers is None:
        return noted
    return *noted, local_ranges_noted(work.state, brokers, work.rules, at_ms)


def local_ranges_noted(
    row: PartitionState, brokers: BrokerPartition, rules: Rules, at_ms: int
) -> NoteLocalRanges:
    """The note of a commit that retires uploads of the row, or beside it; `at_ms`: its time."""
    ranges = local_ranges(row, brokers, at_ms)
    return NoteLocalRanges(
        entries=joined_past(ranges, at_ms - rules.delete_retention_ms),
        retention_ms=brokers.local_retention_ms,
    )


def _horizons_noted(work: Round, receipts: Sequence[GroupReceipt]) -> tuple[Update, ...]:
    found_ms = [one.found_horizon_ms for one in receipts if one.found_horizon_ms is not None]
    if work.compact.is_merge:
        return (NoteFoundHorizon(earliest_ms=min(found_ms)),) if found_ms else ()
    set_ms = work.now_ms + work.rules.delete_retention_ms
    return (NotePass(earliest_ms=min([set_ms, *found_ms]), has_spared=_has_spared(work)),)


def _has_spared(work: Round) -> bool:
    """Whether the pass, with its earlier rounds, leaves a record that a tombstone hides.

    `min.rewrite.gain` leaves none (`skipping.skip_decision.answer_for`). A round for passed
    horizons compares no keys, so it leaves what the pass before it left.
    """
    passes = work.state.passes
    if work.compact.is_partial:
        return bool(passes) and passes[-1].has_spared
    is_by_offset = work.rules.compaction_strategy is CompactionStrategy.OFFSET
    has_left = any(one.epoch == work.state.epoch and one.has_spared for one in passes)
    # If versions decide, the last chunk has compared all that the earlier ones left.
    return work.leaves_superseded or (is_by_offset and has_left)
