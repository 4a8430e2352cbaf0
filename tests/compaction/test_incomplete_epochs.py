"""An upload cut short has no checkpoint; its batches tell of a new leader all the same."""

from __future__ import annotations

from compaction.discovery import PartitionFacts, drafted, row_view, view_of
from compaction.histories import EpochStretch, InspectedSegment, decided_history
from compaction.listing import Classified, ListedSegment
from compaction.overlaps import OverlapProof
from compaction.segments import LeaderEpoch, PartitionKey, PartitionState, Segment
from compaction.view import PartitionView, Refusal, RefusalReason

KEY = PartitionKey(topic="orders", partition=0, topic_id="EnvZlVwBRBCOjS6Uhrdc6w")
OLD = LeaderEpoch(epoch=3, start_offset=0)
LIVE_END = 10


def segment(name: str, start: int, end: int, *epochs: LeaderEpoch) -> Segment:
    return Segment(
        segment_id=name,
        start_offset=start,
        end_offset=end,
        size_bytes=100,
        offset_index_bytes=8,
        time_index_bytes=12,
        max_timestamp_ms=1,
        leader_epochs=epochs,
        has_transaction_index=False,
        first_timestamp_ms=1,
    )


ROW = PartitionState(
    key=KEY,
    epoch=1,
    owner_run="",
    cleaner_offsets=(),
    log_start_offset=0,
    segments=(segment("live", 0, LIVE_END, OLD),),
    lineage=(OLD,),
)


def cut_short(name: str, *stretches: tuple[int, int, int]) -> InspectedSegment:
    """An upload of these batches, of which only the `.log` came through."""
    start, end = stretches[0][1], stretches[-1][2]
    return InspectedSegment(
        listed=ListedSegment(
            segment_id=name, start_offset=start, parts=(("log", 100),), modified_ms=1
        ),
        end_offset=end,
        stretches=tuple(
            EpochStretch(epoch=epoch, first_offset=first, last_offset=last)
            for epoch, first, last in stretches
        ),
    )


def complete(name: str, start: int, end: int, *lineage: LeaderEpoch) -> InspectedSegment:
    parts = ("index", "leader_epoch_checkpoint", "log", "snapshot", "timeindex")
    return InspectedSegment(
        listed=ListedSegment(
            segment_id=name,
            start_offset=start,
            parts=tuple((part, 100) for part in parts),
            modified_ms=1,
        ),
        segment=segment(name, start, end, *lineage),
        end_offset=end,
        checkpoint=lineage,
    )


def facts(*inspected: InspectedSegment) -> PartitionFacts:
    classified = Classified(known=(), retired=(), unknown=(), problems=())
    return PartitionFacts(key=KEY, state=ROW, classified=classified, inspected=inspected)


def viewed(*inspected: InspectedSegment) -> PartitionView:
    draft = drafted(facts(*inspected))
    assert not isinstance(draft, Refusal), draft
    view = view_of(draft, OverlapProof(cuts={}))
    assert isinstance(view, PartitionView)
    return view


def test_the_next_leaders_first_upload_cut_short_waits_and_is_not_set_apart() -> None:
    view = viewed(cut_short("new", (4, 11, 15)))
    assert view.set_apart == ()
    assert [each.segment_id for each in view.waiting] == ["new"]
    assert view.stalled_since_ms == 1


def test_an_epoch_within_an_upload_cut_short_extends_the_lineage() -> None:
    inspected = [cut_short("new", (3, 8, 12), (4, 13, 14), (5, 15, 16))]
    lineage = decided_history(inspected, ROW).lineage
    assert [(each.epoch, each.start_offset) for each in lineage] == [(3, 0), (4, 13), (5, 15)]


def test_of_two_uploads_cut_short_the_lowest_batch_of_an_epoch_counts() -> None:
    inspected = [cut_short("a", (4, 14, 15)), cut_short("b", (4, 11, 13))]
    lineage = decided_history(inspected, ROW).lineage
    assert lineage == (OLD, LeaderEpoch(epoch=4, start_offset=11))


def test_a_deposed_leaders_tail_is_not_taken_where_batches_tell_of_the_next_leader() -> None:
    view = viewed(complete("tail", 11, 12, OLD), cut_short("new", (4, 11, 15)))
    assert view.new_ids == ()
    assert [each.segment_id for each in view.set_apart] == ["tail"]


def test_a_later_leaders_batches_cut_off_epochs_that_only_checkpoints_tell_of() -> None:
    tail = complete("tail", 11, 20, OLD, LeaderEpoch(epoch=4, start_offset=14))
    history = decided_history([tail, cut_short("new", (5, 12, 13))], ROW)
    assert history.lineage == (OLD, LeaderEpoch(epoch=5, start_offset=12))
    assert [each.listed.segment_id for each in history.apart] == ["tail"]


def test_what_is_cut_short_and_of_the_history_that_refuses_the_partition_is_not_given_up() -> None:
    found = facts(cut_short("new", (4, 6, 9)))
    refusal = drafted(found)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.LINEAGE_DIVERGED
    view = row_view(found, refusal)
    assert view is not None
    assert view.set_apart == ()
