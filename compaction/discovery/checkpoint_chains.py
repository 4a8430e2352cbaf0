"""Joins leader epoch checkpoints into the lineage of one log.

    checkpoint of   0- 9    0@0
                   10-19    0@0  2@10
                   20-29         2@15  4@20     the log start was 15 then
    lineage                 0@0  2@10  4@20

While the log start rises, each checkpoint begins later than the one before
(Kafka `LeaderEpochFileCache.truncateFromStart`). Together they cover the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tierfold.compaction.model.leader_epochs import CoveredEpochs, disagreement
from tierfold.compaction.model.segments import LeaderEpoch


def joined(
    base: CoveredEpochs | None, known: CoveredEpochs | None, checkpoints: Sequence[CoveredEpochs]
) -> tuple[LeaderEpoch, ...]:
    """The lineage `base` with the older epochs of the row and of checkpoints that it continues.

    `known`, the row's, is joined even where it contradicts `base`: such a partition is refused. A
    checkpoint is joined if it contradicts neither.
    """
    if base is None:
        return ()
    parts = [] if known is None else [known]
    parts += [
        checkpoint
        for checkpoint in checkpoints
        if known is None or disagreement(checkpoint, known) is None
    ]
    parts.sort(key=lambda part: (part.epochs[-1].epoch, part.end_offset), reverse=True)
    lineage = base
    for part in parts:
        older = [entry for entry in part.epochs if entry.start_offset < lineage.start_offset]
        is_older = bool(older) and older[-1].epoch <= lineage.epochs[0].epoch
        if part is known or (is_older and disagreement(part, lineage) is None):
            lineage = replace(lineage, epochs=with_older_epochs(lineage.epochs, part.epochs))
    return lineage.epochs


def with_older_epochs(
    lineage: tuple[LeaderEpoch, ...], known: tuple[LeaderEpoch, ...]
) -> tuple[LeaderEpoch, ...]:
    """`lineage` with the older epochs that only the catalog's row has.

    A broker's checkpoint starts at its log start (Kafka `LeaderEpochFileCache`), and the tier still
    holds the log below. That is not another history.
    """
    if not lineage:
        return known
    first = lineage[0]
    older = [
        entry
        for entry in known
        if entry.epoch <= first.epoch and entry.start_offset < first.start_offset
    ]
    is_first_known = bool(older) and older[-1].epoch == first.epoch
    return (*older, *(lineage[1:] if is_first_known else lineage))
