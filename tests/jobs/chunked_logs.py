"""Logs as a broker uploads them, drawn by Hypothesis, and runs that cut them into chunks.

Transactions begin in one segment and end in another, or not at all; no index lists some aborts.
Snapshots and indexes are what a broker writes beside such a log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from hypothesis import strategies as st

from tests.jobs.commands import LOCAL_ENGINE, status_of
from tests.jobs.tiers import put_segment
from tests.storage.call_scripts import Script
from tests.storage.live_segments import NOW_MS, data, marker
from tests.storage.scripted_catalog import ScriptedCatalog
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.chunks import UNBOUND, Budget
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.partition_report import PartitionReport
from tierfold.jobs.settings.resolution import Settings, resolve
from tierfold.jobs.verbs.compact import compact
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.segment_reader import read_segment

DAY_MS: Final = 86_400_000
SET: Final = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0", "segment.bytes=2000")
PRODUCERS: Final = (1, 2)


@dataclass(slots=True, kw_only=True)
class Upload:
    """One segment in the making."""

    start_offset: int
    batches: list[BatchDraft] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    producers: tuple[ProducerEntry, ...] = ()


@dataclass(slots=True, kw_only=True)
class Broker:
    """Appends batches, and knows what a broker knows at each segment's end."""

    next_offset: int = 0
    opened: dict[int, int] = field(default_factory=dict)
    last_data: dict[int, int] = field(default_factory=dict)
    uploads: list[Upload] = field(default_factory=list)

    def roll(self) -> None:
        """Begin a segment, where the one before holds anything."""
        if self.uploads and not self.uploads[-1].batches:
            return
        if self.uploads:
            self.uploads[-1].producers = tuple(map(self._entry, sorted(self.last_data)))
        self.uploads.append(Upload(start_offset=self.next_offset))

    def append(self, pairs: Sequence[tuple[bytes | None, bytes | None]], producer: int) -> None:
        """A batch of a transaction, or, by producer −1, of none."""
        self.uploads[-1].batches.append(data(self.next_offset, *pairs, producer_id=producer))
        if producer >= 0:
            self.opened.setdefault(producer, self.next_offset)
            self.last_data[producer] = self.next_offset + len(pairs) - 1
        self.next_offset += len(pairs)

    def end(self, producer: int, kind: ControlType, *, is_listed: bool) -> None:
        """The marker of an open transaction; without one open nothing happens."""
        if producer not in self.opened:
            return
        first = self.opened.pop(producer)
        self.uploads[-1].batches.append(marker(self.next_offset, producer, kind))
        if kind is ControlType.ABORT and is_listed:
            self.uploads[-1].aborted.append(
                AbortedTransaction(
                    producer_id=producer,
                    first_offset=first,
                    last_offset=self.next_offset,
                    last_stable_offset=min(self.opened.values(), default=self.next_offset + 1),
                )
            )
        self.next_offset += 1

    def _entry(self, producer: int) -> ProducerEntry:
        return ProducerEntry(
            producer_id=producer,
            epoch=0,
            last_sequence=self.last_data[producer],
            last_data_offset=self.last_data[producer],
            last_offset_delta=0,
            last_timestamp_ms=NOW_MS,
            coordinator_epoch=0,
            current_txn_first_offset=self.opened.get(producer),
        )


_pair = st.tuples(
    st.sampled_from([b"a", b"b", b"c", b"d", b"e", None]),
    st.none() | st.binary(min_size=1, max_size=20),
)
_pairs = st.lists(_pair, min_size=1, max_size=3)
_step = st.one_of(
    st.tuples(st.just("plain"), _pairs),
    st.tuples(st.just("plain"), _pairs),
    st.tuples(st.sampled_from(PRODUCERS), _pairs),
    st.tuples(st.sampled_from(PRODUCERS), st.sampled_from(ControlType)),
    st.tuples(st.just("roll"), st.none()),
)


@st.composite
def uploads(draw: st.DrawFn) -> tuple[Upload, ...]:
    """Two to some twelve segments of one partition."""
    broker = Broker()
    for _ in range(draw(st.integers(2, 12))):
        broker.roll()
        broker.append(draw(_pairs), -1)
        for kind, what in draw(st.lists(_step, max_size=4)):
            if kind == "roll":
                broker.roll()
            elif isinstance(what, list):
                broker.append(what, -1 if kind == "plain" else int(kind))
            elif what in {ControlType.ABORT, ControlType.COMMIT}:
                broker.end(int(kind), what, is_listed=draw(st.integers(0, 3)) > 0)
    broker.append([(b"last", b"active")], -1)
    broker.roll()
    return tuple(broker.uploads[:-1])


def put_uploads(tier: Path, key: PartitionKey, segments: Sequence[Upload]) -> list[int]:
    """Lays a log into a tier; the bytes of each segment."""
    logs = [
        put_segment(
            tier,
            key,
            upload.batches,
            start_offset=upload.start_offset,
            aborted=upload.aborted,
            producers=upload.producers,
        )
        for upload in segments
    ]
    return [log.stat().st_size for log in logs]


def put_across_chunks(tier: Path, key: PartitionKey, *, is_listed: bool) -> None:
    """A transaction in the first two segments is aborted in the third; a fourth follows."""
    broker = Broker()
    broker.roll()
    broker.append([(b"a", b"old")], -1)
    broker.append([(b"a", b"aborted")], 1)
    broker.roll()
    broker.append([(b"b", b"1")], -1)
    broker.append([(b"b", b"aborted")], 1)
    broker.roll()
    broker.end(1, ControlType.ABORT, is_listed=is_listed)
    broker.append([(b"c", b"1")], -1)
    broker.roll()
    broker.append([(b"d", b"1")], -1)
    broker.roll()
    put_uploads(tier, key, broker.uploads[:-1])


def settings_of(tier: Path, chunk_bytes: Mapping[str, int]) -> Settings:
    """Settings that differ between topics in nothing but `chunk.bytes`; in a file beside `tier`."""
    config = tier.with_name(f"{tier.name}.toml")
    tables = (f'[topics."{t}"]\n"chunk.bytes" = {size}\n' for t, size in chunk_bytes.items())
    config.write_text("\n".join(tables))
    return resolve(SET, config)


def compacted(
    tier: Path,
    chunk_bytes: Mapping[str, int] | None = None,
    *,
    now_ms: int = NOW_MS + 1000,
    budget: Budget = UNBOUND,
    scope: Scope | None = None,
    script: Script | None = None,
) -> dict[str, PartitionReport]:
    """One run over the tier in this process, its catalog under the script; reports by topic."""
    context = run_context(str(tier), None, now_ms)
    catalog = ScriptedCatalog(context.catalog_uri, script or Script())
    context = replace(context, catalog=catalog)
    settings = settings_of(tier, chunk_bytes or {})
    reports = compact(context, settings, scope or Scope(), budget, LOCAL_ENGINE)
    return {report.key.topic: report for report in reports}


def live_records(tier: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every live record, markers included, by topic and in log order."""
    return {
        topic: [
            (r.offset, r.timestamp_ms, r.key, r.value, r.headers, r.control_type)
            for segment in entry["segments"]
            for batch in read_segment(segment["log"]).batches()
            for r in batch.records
        ]
        for (topic, _), entry in status_of(tier).items()
    }
