"""Small factories, so that a test states only what matters to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from tests.compaction.hash_keys import FINGERPRINT
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.checkpoint_chains import with_older_epochs
from tierfold.compaction.discovery.draft import PartitionDraft, drafted
from tierfold.compaction.discovery.drafted_view import view_of
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.listing import ListedSegment, classify
from tierfold.compaction.discovery.overlaps import Cut, OverlapProof
from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.bindings import UNDECLARED, Detached, ServedBy
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segment_ids import maker_of
from tierfold.compaction.model.segments import (
    CleanerOffset,
    LeaderEpoch,
    PartitionKey,
    PartitionState,
    RetiredSegment,
    Segment,
)
from tierfold.compaction.model.serving import Consent, ConsentKind, ServingCluster
from tierfold.storage.tiers.local_tiered_storage import REQUIRED_PARTS

KEY: Final = PartitionKey(topic="orders", partition=3, topic_id="T" * 21 + "A")
LINEAGE: Final = (LeaderEpoch(epoch=0, start_offset=0),)

CLUSTER: Final = ServingCluster(
    cluster_id="5L6g3nShT-eMCtK--X86sw",
    metadata_topic_id="m" * 21 + "A",
    metadata_partitions=50,
    place="s3://bucket/tier",
)
BINDINGS: Final = (Detached(), Detached(is_insisted=True), UNDECLARED, ServedBy(CLUSTER))


def segment_id(name: object) -> str:
    """22 characters that begin with `name`."""
    return f"{name}".ljust(21, "_") + "A"


def a_segment(start_offset: int, end_offset: int, **fields: Any) -> Segment:
    """A segment of epoch 0 and 1000 bytes, named after its start offset."""
    defaults = Segment(
        segment_id=segment_id(start_offset),
        start_offset=start_offset,
        end_offset=end_offset,
        size_bytes=1000,
        offset_index_bytes=8,
        time_index_bytes=12,
        max_timestamp_ms=1_000_000,
        leader_epochs=(LeaderEpoch(epoch=0, start_offset=start_offset),),
        has_transaction_index=False,
        first_timestamp_ms=1_000_000,
    )
    return replace(defaults, **fields)


def a_chain(*lengths: int, start_offset: int = 0, **fields: Any) -> tuple[Segment, ...]:
    """Contiguous segments with these numbers of offsets."""
    starts = list(accumulate(lengths, initial=start_offset))
    return tuple(
        a_segment(start, start + length - 1, **fields)
        for start, length in zip(starts, lengths, strict=False)
    )


def a_state(segments: Sequence[Segment], **fields: Any) -> PartitionState:
    """A row of epoch 0 with the live `segments`."""
    defaults = PartitionState(
        key=KEY,
        epoch=0,
        owner_run="",
        cleaner_offsets=(),
        log_start_offset=segments[0].start_offset if segments else 0,
        segments=tuple(segments),
        lineage=LINEAGE,
    )
    return replace(defaults, **fields)


def leave_alone(*ids: str) -> Consent:
    """A person's consent that leaves these segments alone."""
    return Consent(kind=ConsentKind.LEFT_ALONE, given_at_ms=5, run="mine", segment_ids=ids)


def cleaned_to(offset: int, *, epoch: int = 1) -> tuple[CleanerOffset, ...]:
    """The cleaner offset vector after one round."""
    return (CleanerOffset(epoch=epoch, offset=offset),)


def epochs(*pairs: tuple[int, int]) -> tuple[LeaderEpoch, ...]:
    """One leader epoch per (epoch, first offset)."""
    return tuple(LeaderEpoch(epoch=epoch, start_offset=start) for epoch, start in pairs)


def a_producer(producer_id: int, open_from: int | None = None, **fields: Any) -> ProducerEntry:
    """A snapshot's entry; `open_from`: the first offset of its open transaction."""
    defaults = ProducerEntry(
        producer_id=producer_id,
        epoch=0,
        last_sequence=0,
        last_data_offset=0,
        last_offset_delta=0,
        last_timestamp_ms=0,
        coordinator_epoch=0,
        current_txn_first_offset=open_from,
    )
    return replace(defaults, **fields)


def retired(segment: Segment, **fields: Any) -> RetiredSegment:
    """`segment`, replaced by run `earlier` under epoch 1 at time 5."""
    defaults = RetiredSegment(
        segment=segment, retired_at_ms=5, retired_by_epoch=1, retired_by_run="earlier"
    )
    return replace(defaults, **fields)


def listed(segment: Segment, *, lacking: Sequence[str] = ()) -> ListedSegment:
    """The listing of `segment`, without the parts in `lacking`."""
    sizes = dict.fromkeys(REQUIRED_PARTS, 10) | {
        "log": segment.log_bytes,
        "index": segment.offset_index_bytes,
        "timeindex": segment.time_index_bytes,
    }
    if segment.has_transaction_index:
        sizes["txnindex"] = 34
    return ListedSegment(
        segment_id=segment.segment_id,
        start_offset=segment.own_start_offset,
        parts=tuple(sorted((part, size) for part, size in sizes.items() if part not in lacking)),
        missing_parts=tuple(part for part in REQUIRED_PARTS if part in lacking),
        modified_ms=1_000_000,
    )


def unknown(
    segment: Segment, *, lacking: Sequence[str] = (), **fields: Any
) -> Candidate:
    """`segment`, inspected and in no row; `fields` are those of the inspection.

    Its checkpoint is `LINEAGE` and its own epochs, unless `lacking` or `fields` say otherwise.
    """
    is_complete = not lacking
    has_checkpoint = "leader_epoch_checkpoint" not in lacking
    defaults = Candidate(
        listed=listed(segment, lacking=lacking),
        segment=segment if is_complete else None,
        end_offset=None if "log" in lacking else segment.end_offset,
        checkpoint=with_older_epochs(segment.leader_epochs, LINEAGE) if has_checkpoint else (),
        maker=maker_of(segment.segment_id, FINGERPRINT),
    )
    return replace(defaults, **fields)


def facts(
    state: PartitionState | None, found: Sequence[Candidate] = ()
) -> PartitionFacts:
    """A tier with every segment of the row, and with `found`."""
    known = () if state is None else state.named_segments
    listing = [*map(listed, known), *(inspected.listed for inspected in found)]
    return PartitionFacts(
        key=KEY,
        state=state,
        classified=classify(listing, state),
        candidates=tuple(found),
        fingerprint=FINGERPRINT,
    )


def agreeing(draft: PartitionDraft) -> OverlapProof:
    """The proof that all overlaps agree; it skips one byte per offset."""
    cut = [segment for segment in draft.chain.taken if segment.skipped_offsets]
    return OverlapProof(
        cuts={
            segment.segment_id: Cut(
                skipped_bytes=segment.skipped_offsets, first_timestamp_ms=1_000_000
            )
            for segment in cut
        }
    )


def discovered(
    state: PartitionState | None, found: Sequence[Candidate] = ()
) -> PartitionView | Refusal:
    """The view or refusal of the tier of `facts`, in which all overlaps agree."""
    draft = drafted(facts(state, found))
    return draft if isinstance(draft, Refusal) else view_of(draft, agreeing(draft))


def seen(
    state: PartitionState | None, found: Sequence[Candidate] = ()
) -> PartitionView:
    """The view of such a tier, which is not refused."""
    view = discovered(state, found)
    assert isinstance(view, PartitionView), view
    return view


def a_view(segments: Sequence[Segment], **fields: Any) -> PartitionView:
    """A partition whose row names `segments`; `fields` are the row's."""
    return seen(a_state(segments, **fields))


def new_ids(view: PartitionView) -> tuple[str, ...]:
    """The live segments that the catalog's row does not name yet."""
    named = () if view.state is None else view.state.live_ids
    return tuple(s.segment_id for s in view.segments if s.segment_id not in named)
