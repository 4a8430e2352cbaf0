"""Peak memory of a worker that scans, rewrites and checks one large segment of a bucket.

    python -m tests.bench.memory --megabytes 2047 --distinct 0.1 --distinct 1
    python -m tests.bench.memory --megabytes 2047 --distinct 0.1 --aiven zstd --aiven encrypted

The store copies every range into a fresh array, as a bucket's store does, and maps none. A worker
first handles a small segment, which loads kernels and libraries. Each step's row has the most by
which the worker's anonymous memory (RssAnon) then grows. No JVM runs. `--aiven` stores the segment
in the layout of Aiven's plugin, in chunks of 4 MiB.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import click
import numpy as np
from numpy.typing import NDArray

from tests.bench.measures import in_new_process, peak_of_this_process
from tests.compaction.hash_keys import HASH_KEY
from tests.jobs.commands import ROOT
from tests.storage.deleted_segments import delete_segment
from tests.storage.live_segments import KEY, a_check_order, a_group_task, put_segment
from tests.storage.new_ids import new_address
from tests.storage.tiers.aiven_samples import KEY_FILE
from tierfold.compaction.model.segments import Segment
from tierfold.jobs.engines.rewrite import RewriteStage
from tierfold.jobs.engines.rows import Row, RowKind, Worker, pickled, unpickled
from tierfold.jobs.engines.scan import ScanStage, ScanTask
from tierfold.storage.indexes.index_builder import build_indexes
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.batch_headers import BatchHeads, joined_heads, read_heads
from tierfold.storage.kafka.batch_layout import CRC, CRC_AT
from tierfold.storage.kafka.checksums import crc32c
from tierfold.storage.key_indexes.index_folder import KeyIndexes
from tierfold.storage.segments.segment_check import read_and_check
from tierfold.storage.segments.segment_scan import ScanOrder
from tierfold.storage.tiers.aiven.aiven_tier import AivenTier
from tierfold.storage.tiers.layout_options import KeyFile, Layout, LayoutOptions
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, address_of

KEY_BYTES: Final = 24
VALUE_BYTES: Final = 1024
BATCH_RECORDS: Final = 16
_INTERVAL_BYTES: Final = 4096
_BUCKETS: Final = 8
_FPP: Final = 0.01
_WARM_BATCHES: Final = 500


class CopyingStore(LocalStore):
    """A folder whose ranges are read into fresh arrays, as those of a bucket are."""

    def range_mapper(self, _: str) -> None:
        """See `ObjectStore.range_mapper`."""

    def read_range(self, key: str, start: int, length: int) -> NDArray[np.uint8]:
        """See `ObjectStore.read_range`."""
        return np.fromfile(self.uri(key), np.uint8, count=length, offset=start)


def _batches(count: int, distinct: float) -> Iterator[bytes]:
    """Batches of 16 records; `distinct`: distinct keys as a share of the records."""
    rng = np.random.default_rng(16)
    keys = max(1, int(count * BATCH_RECORDS * distinct))
    numbers = rng.permutation(count * BATCH_RECORDS) % keys
    value = rng.integers(0, 256, VALUE_BYTES, np.uint8).tobytes()
    keys_of_template = [f"{i:0{KEY_BYTES}d}".encode() for i in range(BATCH_RECORDS)]
    drafts = tuple(
        RecordDraft(offset=i, timestamp_ms=1_700_000_000_000, key=key, value=value)
        for i, key in enumerate(keys_of_template)
    )
    template = write_batch(BatchDraft(base_offset=0, records=drafts, leader_epoch=3))
    places = [template.index(key) for key in keys_of_template]
    batch = bytearray(template)
    for number in range(count):
        base = number * BATCH_RECORDS
        batch[:8] = base.to_bytes(8)
        for i, place in enumerate(places):
            batch[place : place + KEY_BYTES] = f"{numbers[base + i]:0{KEY_BYTES}d}".encode()
        CRC.pack_into(batch, CRC_AT, crc32c(np.frombuffer(batch, np.uint8)))
        yield bytes(batch)


def put_large(tier: RemoteTier, count: int, distinct: float) -> Segment:
    """Write a segment of `count` batches, one by one; small files come from a small segment."""
    first = put_segment(tier, [next(_batches(1, 1))], offsets=(0, BATCH_RECORDS - 1))
    staged = tier.new_segment(new_address(KEY, 0))
    heads: list[BatchHeads] = []
    with staged.open_log() as log:
        for batch in _batches(count, distinct):
            log.write(batch)
            heads.append(read_heads(np.frombuffer(batch, np.uint8), where="a batch"))
            if len(heads) == 10_000:
                heads = [joined_heads(heads)]
        size_bytes = log.size_bytes
    indexes = build_indexes(
        joined_heads(heads), start_offset=0, index_interval_bytes=_INTERVAL_BYTES
    )
    staged.put(Part.OFFSET_INDEX, indexes[0])
    staged.put(Part.TIME_INDEX, indexes[1])
    for part in (Part.SNAPSHOT, Part.LEADER_EPOCH_CHECKPOINT):
        staged.put(part, tier.read_part(address_of(KEY, first), part))
    delete_segment(tier, address_of(KEY, first))
    segment = replace(
        first,
        segment_id=staged.address.segment_id,
        end_offset=count * BATCH_RECORDS - 1,
        size_bytes=size_bytes,
        offset_index_bytes=len(indexes[0]),
        time_index_bytes=len(indexes[1]),
    )
    return staged.finish(segment)


def _row(kind: RowKind, payload: object) -> Row:
    return Row(
        task=0, partition_index=0, segment_index=0, kind=kind, payload=pickled(payload)
    )


def _steps(worker: Worker, segment: Segment) -> Iterator[tuple[str, Callable[[], object]]]:
    """A worker's steps on one segment; the rewrite takes the superseded bits of the scan."""
    bits: list[Row] = []

    def scan(fpp: float | None = None) -> None:
        stage = ScanStage(first_bucket_task={0: 0})
        order = ScanOrder(hash_key=HASH_KEY, first_dirty=0, buckets=_BUCKETS, fpp=fpp)
        task = ScanTask(key=KEY, segment=segment, aborted=(), order=order)
        bits.clear()
        for row in stage(worker, [_row(RowKind.SCAN, task)]):
            if row.kind is RowKind.FAILED:
                raise RuntimeError(unpickled(row.payload))
            if row.kind is RowKind.OWN_SUPERSEDED:
                bits.append(row)

    def rewrite() -> None:
        group = a_group_task([segment], index_interval_bytes=_INTERVAL_BYTES, fpp=_FPP)
        (row,) = RewriteStage()(worker, [*bits, _row(RowKind.REWRITE, group)])
        if row.kind is RowKind.FAILED:
            raise RuntimeError(unpickled(row.payload))

    def check() -> None:
        wanted = a_check_order(segment, buckets=_BUCKETS, index_interval_bytes=_INTERVAL_BYTES)
        read = read_and_check(worker.tier, replace(wanted, aborted_now=()))
        if read.checked.corruptions:
            raise RuntimeError(read.checked.corruptions[0])

    yield "scan", scan
    yield "scan, with a key index", partial(scan, _FPP)
    yield "rewrite", rewrite
    yield "verify", check


def tier_in(folder: Path, aiven: tuple[str, ...] | None) -> RemoteTier:
    """A tier in a folder. `aiven`: how Aiven's layout stores chunks; None: LocalTieredStorage."""
    if aiven is None:
        return LocalTieredStorage(CopyingStore(folder))
    key = KeyFile(key_id="key-1", path=str(KEY_FILE))
    options = LayoutOptions(
        layout=Layout.AIVEN,
        key_files=(key,),
        is_compressed="zstd" in aiven,
        is_encrypted="encrypted" in aiven,
    )
    return AivenTier(CopyingStore(folder), options)


def _measured(
    tier: RemoteTier, folder: Path, small: Segment, large: Segment
) -> list[tuple[str, float, float]]:
    """In a worker process: (step, MiB above the warm worker, elapsed seconds)."""
    indexes = KeyIndexes(CopyingStore(folder))
    worker = Worker(tier=tier, advance=lambda _: None, key_indexes=indexes)
    for _, step in _steps(worker, small):
        step()
    found = []
    for name, step in _steps(worker, large):
        with peak_of_this_process() as peak:
            began_s = time.perf_counter()
            step()
            elapsed_s = time.perf_counter() - began_s
        if not peak.start_bytes:
            raise RuntimeError("/proc/self/status has no RssAnon")
        found.append((name, (peak.peak_bytes - peak.start_bytes) / 2**20, elapsed_s))
    return found


def rows_for(
    folder: Path, megabytes: int, distinct: float, aiven: tuple[str, ...] | None = None
) -> list[str]:
    """One row of the table per step, for a segment of this size."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / TIER_FOLDER).mkdir(parents=True)
    tier = tier_in(folder, aiven)
    small = put_large(tier, _WARM_BATCHES, distinct)
    batch_bytes = small.size_bytes // _WARM_BATCHES
    large = put_large(tier, megabytes * 2**20 // batch_bytes, distinct)
    measured = in_new_process(_measured, tier, folder, small, large)
    shutil.rmtree(folder)
    records = large.end_offset + 1
    return [
        f"| {megabytes} | {records:,} | {100 * distinct:.0f} % | {name} | {mib:.0f} |"
        f" {mib * 2**20 / records:.0f} | {elapsed_s:.1f} |"
        for name, mib, elapsed_s in measured
    ]


@click.command()
@click.option("--megabytes", multiple=True, default=(256, 2047), show_default=True)
@click.option("--distinct", multiple=True, default=(0.1, 1.0), show_default=True)
@click.option("--aiven", multiple=True, type=click.Choice(["plain", "zstd", "encrypted"]))
def main(
    megabytes: tuple[int, ...], distinct: tuple[float, ...], aiven: tuple[str, ...]
) -> None:
    """Print the table of docs/performance.md, "Memory"."""
    click.echo(
        "| MiB | records | distinct keys | step | MiB above the warm worker |"
        " bytes per record | s |"
    )
    click.echo("|---|---|---|---|---|---|---|")
    for size in megabytes:
        for share in distinct:
            folder = ROOT / "build" / "bench" / f"memory-{os.getpid()}"
            for row in rows_for(folder, size, share, aiven or None):
                click.echo(row)


if __name__ == "__main__":
    main()
