"""Why nothing of a partition is uploaded from a log directory, until a person acts."""

from __future__ import annotations

from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.leader_epochs import CoveredEpochs, disagreement
from tierfold.compaction.model.segment_ids import is_own_id, is_uploaded_id
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.compaction.uploading.local_log import LocalLog

_ONE_WRITER = (
    "Leave the topic out with --topic. Its brokers upload it; `tierfold compact` works on their"
    " tier."
)


def refused_upload(log: LocalLog, view: PartitionView) -> Refusal | None:
    """The refusal of a partition of a log directory; None: its log continues the tier's."""
    return _refused_tiered(log, view) or refused_lineage(log, view) or _refused_gap(log, view)


def _refused_tiered(log: LocalLog, view: PartitionView) -> Refusal | None:
    of_brokers = [
        one.segment_id
        for one in view.segments
        if not is_uploaded_id(one.segment_id) and not is_own_id(one.segment_id)
    ]
    if not log.is_tiered and not of_brokers:
        return None
    detail = "its brokers tier the topic themselves: its log start is that of a tiered log"
    if of_brokers:
        detail = f"its brokers tier the topic themselves: they wrote segment {of_brokers[0]}"
    return Refusal(reason=RefusalReason.TIERED, detail=detail, remedy=_ONE_WRITER)


def refused_lineage(log: LocalLog, view: PartitionView) -> Refusal | None:
    """The refusal of another history: an unclean election cut off one of the two logs."""
    if not view.lineage or not view.segments:
        return None
    if not log.lineage:
        return _refused_unknown(log)
    known = CoveredEpochs(epochs=view.lineage, end_offset=view.next_offset - 1)
    own = CoveredEpochs(epochs=log.lineage, end_offset=max(log.active_start_offset - 1, _last(log)))
    found = disagreement(own, known)
    if found is None:
        return None
    detail = (
        f"at offset {found.offset} the log directory has leader epoch {found.epoch}, and the tier"
        f" {found.other_epoch}"
    )
    if found.epoch < found.other_epoch:
        remedy = (
            "The directory is of a broker that no longer leads the partition, or of an older copy:"
            " upload that of the leader."
        )
    else:
        remedy = (
            "An unclean leader election cut off records that the tier has. Keep the tier as it is,"
            " and upload into another one."
        )
    return Refusal(reason=RefusalReason.LINEAGE_DIVERGED, detail=detail, remedy=remedy)


def _refused_unknown(log: LocalLog) -> Refusal | None:
    """The refusal of segments of which nothing says who led the partition."""
    if not log.rolled:
        return None
    return Refusal(
        reason=RefusalReason.LINEAGE_UNCLEAR,
        detail="the log directory has segments, and its leader-epoch-checkpoint is empty: nothing"
        " shows that they are of the tier's log",
        remedy="Of a copy, copy the folder again; else take the log directory of another replica,"
        " or leave the topic out with --topic.",
    )


def _last(log: LocalLog) -> int:
    """Where the newest leader epoch begins, which may be in the active segment."""
    newest: LeaderEpoch = log.lineage[-1]
    return newest.start_offset


def _refused_gap(log: LocalLog, view: PartitionView) -> Refusal | None:
    if not view.segments or log.start_offset <= view.next_offset:
        return None
    return Refusal(
        reason=RefusalReason.GAP,
        detail=f"the tier ends at offset {view.next_offset - 1}, the log directory begins at"
        f" {log.start_offset}",
        remedy="The records between were deleted before they were uploaded. If another replica or a"
        " copy of the disk still has them, upload that first. Otherwise upload into another tier:"
        " this one stays as it is.",
    )
