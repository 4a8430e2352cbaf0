"""What the row of a served partition notes of a round, for tombstones and markers that wait.

    NotePass          from when on the round's delete horizons count: once it is published
    NoteLocalRanges   until when brokers can have local copies of what it replaced

Rule: PUBLISHING 5.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.commit import NoteLocalRanges, NotePass, Update
from tierfold.compaction.commits.receipts import GroupReceipt
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.serving import LocalRange
from tierfold.compaction.planning.local_copies import local_until_ms


def notes_for_readers(
    work: Round, receipts: Sequence[GroupReceipt], at_ms: int
) -> tuple[Update, ...]:
    """The notes of a round that wrote something; `at_ms`: the time of its commit."""
    set_ms = work.now_ms + work.rules.delete_retention_ms
    found_ms = [one.found_horizon_ms for one in receipts if one.found_horizon_ms is not None]
    noted = NotePass(earliest_ms=min([set_ms, *found_ms]), has_spared=_has_spared(work))
    brokers = None if work.plan.view is None else work.plan.view.brokers
    if brokers is None:
        return (noted,)
    until_ms = local_until_ms(work.state, brokers, at_ms)
    ranges = dict(_ranges_after(work, receipts, until_ms))
    return noted, NoteLocalRanges(
        entries=tuple(
            LocalRange(segment_id=name, until_ms=until_ms) for name, until_ms in ranges.items()
        ),
        retention_ms=brokers.local_retention_ms,
    )


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


def _ranges_after(
    work: Round, receipts: Sequence[GroupReceipt], until_ms: dict[str, int]
) -> Iterator[tuple[str, int]]:
    """By id of a live segment after the round, what is known over all its sources."""
    new = {
        source.segment_id: (group, receipt)
        for group, receipt in zip(work.groups, receipts, strict=True)
        for source in group.segments
        if receipt.written
    }
    for segment in work.state.segments:
        if segment.segment_id not in new:
            if segment.segment_id in until_ms:
                yield segment.segment_id, until_ms[segment.segment_id]
            continue
        group, receipt = new[segment.segment_id]
        known = [until_ms.get(source.segment_id) for source in group.segments]
        times_ms = [time_ms for time_ms in known if time_ms is not None]
        if len(times_ms) == len(known):
            yield from ((one.segment.segment_id, max(times_ms)) for one in receipt.written)
