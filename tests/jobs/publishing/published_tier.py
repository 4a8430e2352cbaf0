"""orders-0 in a real tier, and brokers that fold events, as consumers read through them.

    U         0 ─── 9                               uploads, compacted to R
    V                 10 ─── 19
    R         0 ──────────── 19
    W                   14 ──[20 ─── 29]            a new leader's, over the end of R
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Final

import pytest

from tests.brokers.published import added, updated
from tests.compaction.broker_events import FINISHED
from tests.faults.broker_model.consumers import Fetched, fetch, tiered_offsets, what_is_wrong
from tests.faults.broker_model.metadata_cache import CachedSegment, MetadataCache
from tests.faults.broker_model.served_log import LogRecord, ServedLog
from tests.faults.broker_model.tier_contents import PARTS, Content, Kept, TierContents
from tests.jobs.claims import ORDERS, note_served, row_of
from tests.jobs.commands import ALWAYS, CLOCK, tierfold
from tests.jobs.tiers import INDEX_INTERVAL_BYTES, made_tier
from tests.storage.call_scripts import Rule, Script
from tests.storage.live_segments import NOW_MS, data, log_of
from tests.storage.scripted_catalog import ScriptedCatalog
from tests.storage.scripted_store import ScriptedStore
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.epoch_ends import EpochEnd
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.brokers.metadata_fold import MetadataFold, MetadataRecord
from tierfold.compaction.commits.holders import IfHeld
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState, Segment
from tierfold.compaction.publishing.event_check import Checked, checked
from tierfold.compaction.publishing.look import Look, PublishingLimits
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Copy, Done, Merge, Retire, Send, Step
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.known_partition import KnownPartition
from tierfold.jobs.publishing.row_steps import Changed, carried_out, note_published
from tierfold.jobs.publishing.served_partition import ServedPartition
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage

LOG_END: Final = 30
EPOCHS: Final = [(3, 0), (5, 25)]
HOUR_MS: Final = 3_600_000
NOW_SENT_MS: Final = NOW_MS + HOUR_MS
"""When events are sent and looks are taken."""
LIMITS: Final = PublishingLimits(grace_ms=HOUR_MS, upload_wait_ms=HOUR_MS)


def a_log() -> ServedLog:
    """30 records of four keys, some of them tombstones."""
    log = ServedLog(rng=Random(0), lineage=[*EPOCHS])
    for offset in range(LOG_END):
        value = None if offset % 7 == 3 else f"v{offset}"
        record = LogRecord(offset, f"k{offset % 4}", value, NOW_MS + offset)
        log.records.append(record)
        log.newest[record.key] = record
    return log


def compacting(**rules: Any) -> Rules:
    """The topic's settings."""
    return Rules(cleanup_policy=frozenset({"compact"}), **rules)


@dataclass(slots=True, kw_only=True)
class PublishedTier:
    """The tier, what its brokers learned, and the log that they wrote."""

    folder: Path
    log: ServedLog = field(default_factory=a_log)
    cache: MetadataCache = field(default_factory=MetadataCache)
    sent: list[tuple[Event, int]] = field(default_factory=list)
    uploads: list[Segment] = field(default_factory=list)
    served: dict[int, CachedSegment] = field(default_factory=dict)
    rules: Rules = field(default_factory=compacting)

    def upload(
        self,
        first: int,
        last: int,
        *,
        batches: Mapping[int, BatchDraft] = MappingProxyType({}),
        aborted: Sequence[AbortedTransaction] = (),
        noted_bytes: int = 0,
    ) -> Segment:
        """Let a leader upload these offsets of the log.

        `batches`: by offset, what the log has there instead; `noted_bytes`: how many bytes more
        brokers note than there are.
        """
        lineage = tuple(
            LeaderEpoch(epoch=epoch, start_offset=start) for epoch, start in EPOCHS if start <= last
        )
        upload = BrokerUpload(
            start_offset=first,
            log=log_of(
                [batches.get(offset) or self._batch(offset) for offset in range(first, last + 1)]
            ),
            index_interval_bytes=INDEX_INTERVAL_BYTES,
            lineage=lineage,
            aborted=tuple(aborted),
        )
        segment = upload.put(run_context(str(self.folder)).tier, ORDERS, last)
        size_bytes = segment.log_bytes + noted_bytes
        self.take(added(ORDERS, segment)._replace(size_bytes=size_bytes))
        # One that ends before others do may hide what they have: the next look mends that.
        self.lose(updated(ORDERS, segment.segment_id, FINISHED))
        self.uploads.append(segment)
        return segment

    def copied(self, folder: Path) -> PublishedTier:
        """Copy the tier, and what brokers learned."""
        shutil.copytree(self.folder, folder)
        copy = PublishedTier(folder=folder, uploads=[*self.uploads])
        for event, at_ms in self.sent:
            copy.lose(event, at_ms=at_ms)
        return copy

    def _batch(self, offset: int) -> BatchDraft:
        record = self.log.records[offset]
        value = None if record.value is None else record.value.encode()
        batch = data(offset, (record.key.encode(), value))
        epoch = max(one for one, start in EPOCHS if start <= offset)
        return replace(batch, leader_epoch=epoch)

    def take(self, *events: Event, at_ms: int = NOW_SENT_MS) -> None:
        """Let brokers take these events, one after the other; consumers lose no offset."""
        for event in events:
            if lost := self.lose(event, at_ms=at_ms):
                raise AssertionError(f"{event} loses {lost}")

    def lose(self, event: Event, *, at_ms: int = NOW_SENT_MS) -> list[int]:
        """Let brokers take an event, and consumers read; return the offsets that are lost."""
        self.sent.append((event, at_ms))
        assert self.cache.apply(event), f"brokers drop {event}"
        before = self.served
        self.served = self.cache.all_found(self.log.lineage, self._tiered)
        self.check()
        return [one for one in before if one not in self.served and one >= self.log.log_start]

    @property
    def _tiered(self) -> range:
        return tiered_offsets(self.cache, self.log)

    def check(self) -> None:
        """Fail if a consumer would end up with a wrong value from any offset on."""
        wrong = what_is_wrong(self.served, self.log, self.contents(), self._tiered.stop)
        assert [*wrong] == []

    def contents(self) -> TierContents:
        """What the tier's whole segments hold."""
        tier = run_context(str(self.folder)).tier
        found = TierContents(removed=lambda _: None)
        for listed in tier.listing(ORDERS):
            if listed.is_complete and listed.segment_id in self.cache.segments:
                segment = self.cache.segments[listed.segment_id].added
                log = self.path_of(listed.segment_id, "log").read_bytes()
                content = Content(
                    listed.segment_id,
                    segment.start_offset,
                    segment.end_offset,
                    segment.leader_epochs,
                    tuple(kept_in(log)),
                )
                for part in PARTS:
                    found.put(content, part, 0)
        return found

    def path_of(self, segment_id: str, suffix: str) -> Path:
        """The path of an object."""
        (path,) = self.folder.glob(f"*/{ORDERS}-*/*-{segment_id}.{suffix}")
        return path

    def read(self, position: int) -> list[Kept]:
        """What a consumer reads from an offset to the tier's end."""
        contents, records = self.contents(), list[Kept]()
        while position < self._tiered.stop:
            found = fetch(self.cache, self.log, contents, self._tiered.stop, position)
            assert isinstance(found, Fetched), found
            records += found.records
            position = found.position
        return records

    def reads(self, expected: Sequence[Kept]) -> None:
        """Assert what consumers read from each offset on."""
        for position in range(self.log.log_start, self._tiered.stop):
            assert self.read(position) == [one for one in expected if one.offset >= position]

    def given(self, segments: Sequence[Segment]) -> list[Kept]:
        """What segments give to the log, record by record."""
        return [
            record
            for segment in segments
            for record in kept_in(self.path_of(segment.segment_id, "log").read_bytes())
            if record.offset >= segment.start_offset
        ]

    @property
    def finished_ids(self) -> set[str]:
        """The ids of what brokers have as whole."""
        return {one.segment_id for one in self.cache.in_state(FINISHED)}

    @property
    def row(self) -> PartitionState:
        """The catalog's row."""
        return row_of(self.folder)

    def held(self, *rules: Rule) -> HeldPartitions:
        """A run that has claimed the partition; its later calls are under a script."""
        context = run_context(str(self.folder), None, NOW_SENT_MS)
        # A run that a test killed may have given a sign of life just now.
        context = replace(context, if_held=IfHeld.TAKE_OVER)
        held = HeldPartitions(context=context, verb="compact")
        assert held.claim([self.row]) == {}
        script = Script(*rules)
        assert isinstance(context.tier, LocalTieredStorage)
        held.context = replace(
            context,
            tier=replace(context.tier, store=ScriptedStore(self.folder, script)),
            catalog=ScriptedCatalog(context.catalog_uri, script),
        )
        return held

    def look(self, held: HeldPartitions, now_ms: int = NOW_SENT_MS) -> ServedPartition:
        """One look at row, listing and brokers."""
        context: RunContext = held.context
        row, listed = self.row, context.tier.listing(ORDERS)
        fold = MetadataFold(1)
        fold.ask(ORDERS, row.named_ids | {one.segment_id for one in listed})
        fold.apply(
            MetadataRecord(0, place, at_ms, encode(event), None)
            for place, (event, at_ms) in enumerate(self.sent)
        )
        offsets = PartitionOffsets(
            log_start=self.log.log_start, high_watermark=1000, last_stable=1000
        )
        brokers = BrokerPartition(
            view=fold.view(ORDERS),
            naming=fold.naming(ORDERS),
            offsets=offsets,
            epoch_answers={epoch: EpochEnd(epoch=epoch, end_offset=10**6) for epoch in range(10)},
            asked_by=context.catalog.fingerprint(),
        )
        look = Look(
            row=row,
            view=brokers.view,
            naming=brokers.naming,
            offsets=offsets,
            lineage=self.log.leader_epochs,
            limits=LIMITS,
            fingerprint=context.catalog.fingerprint(),
            now_ms=now_ms,
            whole=frozenset(one.segment_id for one in listed if one.is_complete),
            present=frozenset(one.segment_id for one in listed),
        )
        known = KnownPartition(key=ORDERS, state=row, refusal=None, listed=listed, brokers=brokers)
        return ServedPartition(known=known, look=look, rules=self.rules)

    def advance(self, held: HeldPartitions) -> Step:
        """Take one look, and do what it says."""
        partition = self.look(held)
        step = next_step(partition.look)
        match step:
            case Send():
                assert isinstance(checked(partition.look, step.events), Checked)
                self.take(*step.events)
            case Merge() | Copy() | Retire():
                outcome = carried_out(held, partition, step)
                assert isinstance(outcome, Changed), outcome
                assert outcome.row == self.row == held.by_key[ORDERS].row
            case Done():
                outcome = note_published(held, [partition.look], NOW_SENT_MS)[ORDERS]
                assert isinstance(outcome, Changed), outcome
                assert outcome.row == self.row == held.by_key[ORDERS].row
            case _:
                raise AssertionError(step)
        return step

    def publish(self, held: HeldPartitions) -> list[str]:
        """Go on until all is done; return the steps, sends by their purpose."""
        steps: list[str] = []
        while not steps or steps[-1] != "Done":
            assert len(steps) < 20, steps
            step = self.advance(held)
            steps.append(str(step.purpose) if isinstance(step, Send) else type(step).__name__)
        return steps


def kept_in(log: bytes) -> list[Kept]:
    """The records of a `.log`."""
    return [
        Kept(
            record.offset,
            (record.key or b"").decode(),
            None if record.value is None else record.value.decode(),
            record.timestamp_ms,
        )
        for batch in read_segment(log).batches()
        for record in batch.records
    ]


def compacted(folder: Path) -> PublishedTier:
    """U and V, compacted to R, and the row names a cluster; brokers have not learned of R."""
    tier = PublishedTier(folder=made_tier(folder))
    tier.upload(0, 9)
    tier.upload(10, 19)
    assert tierfold("compact", folder, *ALWAYS, CLOCK, str(NOW_MS)).code == 0
    note_served(folder)
    return tier


def compacted_once() -> Any:
    """A fixture: each test gets a copy of the same compacted tier."""
    once: list[PublishedTier] = []

    @pytest.fixture
    def tier(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> PublishedTier:
        if not once:
            once.append(compacted(tmp_path_factory.mktemp("once") / "tier"))
        (first,) = once
        return first.copied(tmp_path / "copied")

    return tier
