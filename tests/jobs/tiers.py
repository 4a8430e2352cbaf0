"""Small tiers for the jobs: valid side files, records by few keys, many partitions.

A segment of `put_updates` holds one record of a unique key, and two updates for each of five keys
that all these segments share.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.storage.live_segments import EPOCHS, NOW_MS, a_tier, data, log_of
from tests.storage.new_ids import new_address
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.producers import NO_DATA_OFFSET, ProducerEntry
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, partition_folder
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER, Part
from tierfold.storage.tiers.tier_uris import open_tier

ROOT: Final = Path(__file__).resolve().parents[2]
SAMPLE: Final = ROOT / "sample"
INDEX_INTERVAL_BYTES: Final = 50
"""So small that every second batch has an index entry."""

KEYS: Final = tuple(f"k{i}".encode() for i in range(5))
RECORDS_PER_SEGMENT: Final = 11


def key_of(topic: str, partition: int = 0, *, incarnation: int = 0) -> PartitionKey:
    """A partition of a test topic; a recreated topic has another id."""
    digest = hashlib.sha256(f"{topic} {incarnation}".encode()).digest()[:16]
    topic_id = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return PartitionKey(topic=topic, partition=partition, topic_id=topic_id)


def made_tier(folder: Path) -> Path:
    """Make an empty tier; the folder need not exist."""
    a_tier(folder)
    return folder


def sample_copy(folder: Path) -> Path:
    """Copy the bundled tier, which a broker wrote."""
    shutil.copytree(SAMPLE / TIER_FOLDER, folder / TIER_FOLDER)
    return folder


def segment_parts(
    batches: Sequence[BatchDraft | bytes],
    *,
    start_offset: int,
    aborted: Sequence[AbortedTransaction] = (),
    producers: Sequence[ProducerEntry] = (),
    lineage: tuple[LeaderEpoch, ...] = EPOCHS,
) -> dict[Part, bytes]:
    """The objects of a segment in the order in which a broker uploads them."""
    upload = BrokerUpload(
        start_offset=start_offset,
        log=log_of(batches),
        index_interval_bytes=INDEX_INTERVAL_BYTES,
        lineage=lineage,
        aborted=tuple(aborted),
        producers=tuple(producers),
    )
    return upload.parts()


def an_open_producer(producer_id: int, first_offset: int) -> ProducerEntry:
    """The snapshot entry of a producer whose transaction began at this offset and is open."""
    return ProducerEntry(
        producer_id=producer_id,
        epoch=0,
        last_sequence=0,
        last_data_offset=NO_DATA_OFFSET,
        last_offset_delta=0,
        last_timestamp_ms=NOW_MS,
        coordinator_epoch=0,
        current_txn_first_offset=first_offset,
    )


def put_segment(
    folder: Path,
    key: PartitionKey,
    batches: Sequence[BatchDraft | bytes],
    *,
    start_offset: int,
    aborted: Sequence[AbortedTransaction] = (),
    producers: Sequence[ProducerEntry] = (),
) -> Path:
    """Write a segment as a broker uploads it; return the path of its `.log`."""
    tier = open_tier(str(folder))
    staged = tier.new_segment(new_address(key, start_offset))
    parts = segment_parts(batches, start_offset=start_offset, aborted=aborted, producers=producers)
    for part, content in parts.items():
        staged.put(part, content)
    return Path(tier.uri(staged.address, Part.LOG))


def put_updates(folder: Path, key: PartitionKey, number: int) -> Path:
    """Write the `number`th segment of updates, counted from 0; return the path of its `.log`."""
    start = number * RECORDS_PER_SEGMENT
    batches = [data(start, (f"own {number}".encode(), b"stays"))]
    for base in (start + 1, start + 1 + len(KEYS)):
        updates = [(name, f"{base + i}".encode()) for i, name in enumerate(KEYS)]
        batches.append(data(base, *updates))
    return put_segment(folder, key, batches, start_offset=start)


def updated_tier(folder: Path, keys: Sequence[PartitionKey], segments: int) -> Path:
    """Make a tier whose partitions have this number of segments of updates each."""
    made_tier(folder)
    for key in keys:
        for number in range(segments):
            put_updates(folder, key, number)
    return folder


def flip_last_byte(path: Path) -> None:
    """Change the last byte of a file, so that its last batch has a bad CRC."""
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def copied(build: Callable[[Path], Path]) -> Any:
    """Return a fixture that gives each test a copy of the tier that `build` makes once."""
    once: list[Path] = []

    @pytest.fixture
    def tier(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
        if not once:
            once.append(build(tmp_path_factory.mktemp("once") / "tier"))
        return Path(shutil.copytree(once[0], tmp_path / "copied"))

    return tier


def latest_updates(segments: int) -> dict[bytes, bytes]:
    """The latest value of each key in this number of segments of updates."""
    base = segments * RECORDS_PER_SEGMENT - len(KEYS)
    latest = {name: f"{base + i}".encode() for i, name in enumerate(KEYS)}
    return latest | {f"own {number}".encode(): b"stays" for number in range(segments)}


def records_in(logs: Sequence[str | Path]) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every ordinary record, in log order."""
    return [
        (record.offset, record.key, record.value)
        for log in logs
        for batch in read_segment(log).batches()
        for record in batch.records
        if record.control_type is None
    ]


def live_values(status_entry: dict[str, Any]) -> dict[bytes | None, bytes | None]:
    """Key → value over the live segments that an entry of `status --json` names."""
    logs = [segment["log"] for segment in status_entry["segments"]]
    found = records_in(logs)
    values = {key: value for _, key, value in found}
    assert len(values) == len(found), "a key lives twice"
    return values


def files_below(folder: Path) -> dict[str, str]:
    """Every file's path and digest, to check that nothing was changed.

    The table of runs is left out: a run that changes nothing else adds its rows there.
    """
    found = {
        str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()
    }
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in found.items()
        if not name.startswith(f"{CATALOG_FOLDER}/runs/")
    }


def folder_of(folder: Path, key: PartitionKey) -> Path:
    """The folder of the partition's objects."""
    return folder / partition_folder(key)
