"""The cost of folding brokers' metadata: time per record, and peak memory.

    python -m tests.bench.metadata_replay --millions 2 --millions 20

A segment takes four records, from its upload to the end of its deletion, or two if it still
exists; `--existing` is the share that does. Records are made in batches, as a reader delivers them;
the time for that is left out. Times are CPU times. Each row has a process of its own.
"""

from __future__ import annotations

import resource
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

import click

from tests.bench.measures import in_new_process
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import SegmentAdded, SegmentState, SegmentUpdated
from tierfold.compaction.brokers.metadata_fold import MetadataFold, MetadataRecord
from tierfold.compaction.brokers.metadata_partitions import metadata_partition
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey

METADATA_PARTITIONS: Final = 50
TOPICS: Final = 50
PARTITIONS: Final = 10
BATCH_RECORDS: Final = 10_000
_ODD: Final = 0x9E3779B97F4A7C15F39CC0605CEDC835
OFFSETS: Final = 1_000_000
"""Of one segment."""
SEGMENTS_PER_LEADER: Final = 100


class Replay(NamedTuple):
    """What folding a topic took."""

    records: int
    segments: int
    """Those that still exist at its end."""
    fold_s: float
    peak_mb: float
    """Peak memory beyond what the process had before."""


def replay(records: int, existing: float) -> Replay:
    """Fold a topic of about that many records; `existing` is the share of the segments left."""
    before_mb = _peak_mb()
    fold, folded, fold_s = MetadataFold(METADATA_PARTITIONS), 0, 0.0
    for batch in _batches(records, existing):
        began_s = time.process_time()
        fold.apply(batch)
        fold_s += time.process_time() - began_s
        folded += len(batch)
    peak_mb = _peak_mb() - before_mb
    segments = sum(len(fold.view(key).segments) for key in fold.partitions())
    return Replay(folded, segments, fold_s, peak_mb)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _batches(records: int, existing: float) -> Iterator[list[MetadataRecord]]:
    batch: list[MetadataRecord] = []
    offsets = [0] * METADATA_PARTITIONS
    for number, (at, value) in enumerate(_values(records, existing)):
        batch.append(MetadataRecord(at, offsets[at], number, value, None))
        offsets[at] += 1
        if len(batch) == BATCH_RECORDS:
            yield batch
            batch = []
    yield batch


def _values(records: int, existing: float) -> Iterator[tuple[int, bytes]]:
    """Uploads by turns to all partitions, and deletions of the oldest; each with where it goes."""
    segments = int(records / (2 + 2 * (1 - existing)))
    left = int(segments * existing)
    for number in range(segments):
        added = _added(number)
        at = _metadata_partition(added.key)
        yield at, encode(added)
        yield at, encode(_finished(added))
        if number >= left:
            oldest = _added(number - left)
            at, finished = _metadata_partition(oldest.key), encode(_finished(oldest))
            for state in (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED):
                yield at, finished[:-2] + bytes((state, 0))


@cache
def _metadata_partition(key: PartitionKey) -> int:
    return metadata_partition(key, METADATA_PARTITIONS)


def _added(number: int) -> SegmentAdded:
    """The segment with that number, of all partitions by turns."""
    place, user_partition = divmod(number, TOPICS * PARTITIONS)
    start = place * OFFSETS
    return SegmentAdded(
        key=_key(*divmod(user_partition, PARTITIONS)),
        segment_id=_id(TOPICS + number),
        start_offset=start,
        end_offset=start + OFFSETS - 1,
        broker_id=number % 3,
        max_timestamp_ms=1_700_000_000_000 + number,
        event_timestamp_ms=1_700_000_000_000 + number,
        leader_epochs=(LeaderEpoch(epoch=place // SEGMENTS_PER_LEADER, start_offset=start),),
        size_bytes=10**9 + number,
        custom_metadata=None,
        is_transaction_index_empty=True,
    )


@cache
def _key(topic: int, partition: int) -> PartitionKey:
    return PartitionKey(topic=f"topic-{topic}", partition=partition, topic_id=_id(topic))


def _finished(event: SegmentAdded) -> SegmentUpdated:
    return SegmentUpdated(
        event.key, event.segment_id, 1, 1_700_000_000_000, None, SegmentState.COPY_FINISHED
    )


def _id(number: int) -> str:
    """An id that looks drawn; another number has another one."""
    id_bytes = (number * _ODD % 2**128).to_bytes(16, "big")
    return urlsafe_b64encode(id_bytes)[:-2].decode()


@click.command()
@click.option("--millions", type=float, multiple=True, default=(2.0,), show_default=True)
@click.option("--existing", type=float, multiple=True, default=(0.05, 1.0), show_default=True)
def main(millions: tuple[float, ...], existing: tuple[float, ...]) -> None:
    """Print a row per number of records and share of segments that exist."""
    click.echo("| records | segments that exist | fold | per record | peak memory |")
    click.echo("|---|---|---|---|---|")
    for count in millions:
        for share in existing:
            took = in_new_process(replay, int(count * 1e6), share)
            per_record_us = 1e6 * took.fold_s / took.records
            click.echo(
                f"| {took.records:,} | {took.segments:,} | {took.fold_s:.1f} s |"
                f" {per_record_us:.1f} µs | {took.peak_mb:.0f} MB |"
            )


if __name__ == "__main__":
    main()
