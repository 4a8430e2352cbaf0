"""A drawn log that brokers serve: passes, their publication, local copies, and readers between.

The row, the plans, the rounds and the commits are the product's. Played are the brokers, and what
they serve: an offset that is still local as it was uploaded, any other as it was last published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.compaction.beside_brokers import CATALOG
from tests.compaction.builders import CLUSTER
from tests.compaction.hash_keys import HASH_KEY
from tests.pictures.cleaning import round_done
from tests.pictures.log_pictures import KEY, Log, batches_of
from tierfold.compaction.brokers.broker_view import BrokerSegment, BrokerView, Reference
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import SegmentAdded, SegmentState
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.commit import NotePublished, proposed
from tierfold.compaction.commits.invariants import ensure
from tierfold.compaction.commits.round_commit import proposal_of
from tierfold.compaction.commits.row_changes import applied, claimed
from tierfold.compaction.commits.served_rows import SERVED_INVARIANTS
from tierfold.compaction.discovery.view import PartitionView, state_with_new
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.compaction.planning.chunks import RemainingBudget, next_wave, rest_of_plan
from tierfold.compaction.planning.partition_plan import partition_plan
from tierfold.compaction.publishing.steps import Done, Step, Wait
from tierfold.storage.segments.segment_metadata import read_aborted, read_snapshot

HOUR_MS: Final = 3_600_000
UNPUBLISHED: Final = Wait(until_ms=None, why="a pass is not published")


@dataclass
class ServedLog:
    """A partition that brokers serve while a run compacts it."""

    originals: Log
    """All segments as they are uploaded, one after the other."""
    rules: Rules
    key: PartitionKey = KEY
    local_ms: int = HOUR_MS
    """`local.retention.ms`."""
    now_ms: int = 0
    uploaded: int = 0
    """How many segments are in the tier."""
    finished_ms: list[int] = field(default_factory=list)
    """When each was uploaded."""
    row: PartitionState = field(init=False)
    published: tuple[Segment, ...] = ()
    """What brokers read from the tier, in offset order."""
    local_start: int = 0
    """The first offset that is still local."""
    fell_ms: int = -HOUR_MS
    """When `local.retention.ms` fell last."""

    def __post_init__(self) -> None:
        self.row = PartitionState(
            key=self.key,
            epoch=0,
            owner_run="",
            cleaner_offsets=(),
            log_start_offset=self.originals.segments[0].start_offset,
            segments=(),
            lineage=self.originals.lineage,
            served_by=(CLUSTER,),
        )

    # What happens.

    def pass_time(self, time_ms: int) -> None:
        """Time passes, and local copies end."""
        self.now_ms += time_ms
        self.local_start = max(self.local_start, self._local_start())

    def keep_locally(self, local_ms: int) -> None:
        """`local.retention.ms` changes; what is gone does not come back."""
        if local_ms < self.local_ms:
            self.fell_ms = self.now_ms
        self.local_ms = local_ms

    def upload(self) -> None:
        """The next segment is uploaded; brokers read it at once."""
        if self.uploaded < len(self.originals.segments):
            self.published += (self.originals.segments[self.uploaded],)
            self.finished_ms.append(self.now_ms)
            self.uploaded += 1

    def compact(self, chunks_max: int = 99, first_dirty: int | None = None) -> None:
        """One run: it plans, and does as many chunks as it may; `first_dirty`: `--first-dirty`."""
        view = self._view()
        if not view.segments:
            return
        producers = read_snapshot(self.originals.tier, self.key, view.segments[-1])
        plan = partition_plan(
            view,
            producers,
            self.rules,
            self.now_ms,
            first_dirty=first_dirty,
            step=self._step(),
        )
        if not plan.is_due:
            return
        run = f"run-{self.row.epoch + 1}"
        self.row = claimed(state_with_new(view), run=run, commit_id=run, at_ms=self.now_ms)
        for number in range(chunks_max):
            (chunk,) = next_wave([plan], RemainingBudget()).chunks
            aborted = [
                entry
                for one in self.row.segments
                for entry in read_aborted(self.originals.tier, self.key, one)
            ]
            work = Round(
                index=0,
                state=self.row,
                plan=chunk,
                now_ms=self.now_ms,
                hash_key=HASH_KEY,
                fingerprint=CATALOG,
                aborted=tuple(aborted),
            )
            self._commit(work, f"{run}-{number}")
            if chunk.compact.is_last:
                return
            plan = rest_of_plan(plan, chunk.compact.next_offset, self.row)

    def publish(self) -> None:
        """Brokers read what the row says; that is read back, and noted."""
        live = self.row.segments
        end = live[-1].next_offset if live else 0
        later = [one for one in self.published if one.start_offset >= end]
        is_open = self._step() is UNPUBLISHED
        self.published = (*live, *later)
        if is_open:
            note = NotePublished(at_ms=self.now_ms)
            self._change(applied(
                proposed(self.row, note, commit_id=f"p-{self.now_ms}", at_ms=self.now_ms), self.row
            ))

    def read(self, start: int, count: int) -> Iterator[tuple[bytes, bytes | None]]:
        """The keys and values of some offsets, as brokers serve them now."""
        border = self.local_start
        yield from self._records(self.published, start, min(start + count, border))
        yield from self._records(self.originals.segments, max(start, border), start + count)

    # What brokers have.

    def _local_start(self) -> int:
        """The first offset that some broker still has locally: it keeps it as long as it may.

        A local segment may hold the next range, too, so the last upload never goes.
        """
        newest_ms = until_ms = -1
        for place in range(self.uploaded - 1):
            pair = self.originals.segments[place : place + 2]
            newest_ms = max(newest_ms, *(one.max_timestamp_ms for one in pair))
            own_ms = max(newest_ms + self.local_ms, self.finished_ms[place], self.fell_ms)
            until_ms = max(until_ms, own_ms + HOUR_MS)
            if until_ms > self.now_ms:
                return pair[0].start_offset
        last = max(self.uploaded - 1, 0)
        return self.originals.segments[last].start_offset

    def _records(
        self, segments: tuple[Segment, ...], start: int, end: int
    ) -> Iterator[tuple[bytes, bytes | None]]:
        for segment in segments:
            if segment.next_offset <= start or segment.start_offset >= end:
                continue
            for batch in batches_of(self.originals, segment):
                for record in () if batch.is_control else batch.records:
                    if start <= record.offset < end and record.key is not None:
                        yield record.key, record.value

    def _brokers(self) -> BrokerPartition:
        uploads = zip(self.originals.segments, self.finished_ms, strict=False)
        segments = {one.segment_id: _finished(one, at_ms) for one, at_ms in uploads}
        end = self.originals.segments[-1].next_offset
        references = tuple(
            Reference(one.added.start_offset, name) for name, one in segments.items()
        )
        return BrokerPartition(
            view=BrokerView(
                key=self.key,
                segments=segments,
                references={0: references},
                unreferenced={},
                highest_offsets={},
                last_offset=None,
                last_timestamp_ms=None,
                read_only=(),
            ),
            naming={},
            offsets=PartitionOffsets(log_start=0, high_watermark=end, last_stable=end),
            asked_by=CATALOG,
            local_retention_ms=self.local_ms,
        )

    # What the run does.

    def _view(self) -> PartitionView:
        new = self.originals.segments[: self.uploaded]
        reached = self.row.next_offset
        segments = (*self.row.segments, *(one for one in new if one.start_offset >= reached))
        return PartitionView(
            key=self.key,
            state=self.row,
            segments=segments,
            orphans=(),
            set_apart=(),
            waiting=(),
            stalled_since_ms=None,
            retired=(),
            lineage=self.row.lineage,
            log_start_offset=self.row.log_start_offset,
            brokers=self._brokers(),
        )

    def _step(self) -> Step:
        is_open = any(one.published_at_ms is None for one in self.row.passes)
        return UNPUBLISHED if is_open else Done()

    def _commit(self, work: Round, commit_id: str) -> None:
        done = round_done(self.originals.tier, work)
        proposal = proposal_of(done.round, done.receipts, commit_id, self.now_ms, {})
        self._change(applied(proposal, self.row))

    def _change(self, after: PartitionState) -> None:
        ensure(self.row, after, SERVED_INVARIANTS)
        self.row = after


def _finished(segment: Segment, at_ms: int) -> BrokerSegment:
    added = SegmentAdded(
        key=KEY,
        segment_id=segment.segment_id,
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        broker_id=1,
        max_timestamp_ms=segment.max_timestamp_ms,
        event_timestamp_ms=at_ms,
        leader_epochs=segment.leader_epochs,
        size_bytes=segment.size_bytes,
        custom_metadata=None,
        is_transaction_index_empty=True,
    )
    return BrokerSegment(added, SegmentState.COPY_FINISHED, None, at_ms)
