"""Brokers of the state machine: they write logs, elect leaders, and upload segments.

The caller's RNG decides everything, segment ids included.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from tests.faults.random_verbs.verbs_model import Batch, Log, Partition, Upload
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.segments.broker_upload import BrokerUpload

KEYS: Final = tuple(f"k{number}".encode() for number in range(7))
TIER_FOLDER: Final = "kafka-tiered-storage"


def kafka_uuid(rng: Random) -> str:
    """Return an id as Kafka prints it; it never starts with `-`, like an option."""
    return "A" + base64.urlsafe_b64encode(rng.randbytes(16)).decode()[1:22]


def new_partition(rng: Random, tier: Path, topic: str, number: int) -> Partition:
    """Create an empty partition of a new topic, led by epoch 0."""
    topic_id = kafka_uuid(rng)
    folder = tier / TIER_FOLDER / f"{topic}-{number}-{topic_id}"
    folder.mkdir()
    found = Partition(topic=topic, number=number, topic_id=topic_id, folder=folder)
    found.logs[0] = Log(epoch=0, lineage=((0, 0),))
    return found


def delete_topic(partition: Partition) -> None:
    """Delete the topic's objects, as brokers do."""
    shutil.rmtree(partition.folder)


def append(rng: Random, partition: Partition, batches: int, now_ms: int) -> None:
    """Append records of a few keys; one in four is a tombstone, and every value is unique."""
    log = partition.log
    for _ in range(batches):
        base = log.next_offset
        log.append(
            [
                (
                    rng.choice(KEYS),
                    None
                    if rng.random() < 0.25
                    else f"epoch {log.epoch}, offset {base + i}, {rng.random()}".encode(),
                )
                for i in range(rng.randint(1, 3))
            ],
            now_ms,
        )


def elect_cleanly(rng: Random, partition: Partition) -> None:
    """Elect a leader that has the whole log; it may upload some segments again."""
    log = partition.log
    partition.logs[log.epoch + 1] = log.successor(log.epoch + 1, log.next_offset)
    _rewind_uploads(rng, partition)


def elect_uncleanly(rng: Random, partition: Partition) -> None:
    """Elect a leader that lacks one to six batches of the log, never all.

    Half of the time it lacks uploaded batches.
    """
    log = partition.log
    uploaded = sum(batch.base_offset < partition.next_upload for batch in log.batches)
    kept = rng.choice((len(log.batches), max(uploaded, 2))) - rng.randint(1, 6)
    end = log.batches[max(kept, 1)].base_offset
    partition.logs[log.epoch + 1] = log.successor(log.epoch + 1, end)
    partition.next_upload = min(partition.next_upload, end)
    _rewind_uploads(rng, partition)


def _rewind_uploads(rng: Random, partition: Partition) -> None:
    """Let the new leader upload some records again."""
    below = [b.base_offset for b in partition.log.batches if b.base_offset <= partition.next_upload]
    partition.next_upload = rng.choice([*below[-6:], partition.next_upload])


def next_segment(rng: Random, partition: Partition) -> Upload | None:
    """Return the leader's next upload; None: everything is uploaded."""
    rest = [b for b in partition.log.batches if b.base_offset >= partition.next_upload]
    batches = rest[: rng.randint(1, 4)]
    if not batches:
        return None
    partition.next_upload = batches[-1].last_offset + 1
    return segment(rng, partition, partition.log, batches)


def late_segment(rng: Random, partition: Partition) -> Upload:
    """Return a segment with new borders from the log of a current or deposed leader."""
    log = partition.logs[rng.choice(sorted(partition.logs)[-3:])]
    first = max(0, len(log.batches) - rng.randint(1, 10))
    batches = log.batches[first : first + rng.randint(1, 5)]
    return segment(rng, partition, log, batches)


def segment(rng: Random, partition: Partition, log: Log, batches: Sequence[Batch]) -> Upload:
    """Return a segment of these batches as a broker with this log would upload it."""
    start, end = batches[0].base_offset, batches[-1].last_offset
    upload = BrokerUpload(
        start_offset=start,
        log=b"".join(write_batch(_draft(batch)) for batch in batches),
        index_interval_bytes=100,
        lineage=tuple(LeaderEpoch(epoch=e, start_offset=s) for e, s in log.lineage_to(end)),
    )
    parts = {part.value: content for part, content in upload.parts().items()}
    found = Upload(segment_id=kafka_uuid(rng), log=log, batches=tuple(batches), parts=parts)
    partition.uploads[found.segment_id] = found
    return found


def _draft(batch: Batch) -> BatchDraft:
    return BatchDraft(
        base_offset=batch.base_offset,
        leader_epoch=batch.epoch,
        records=tuple(
            RecordDraft(offset=offset, timestamp_ms=batch.at_ms, key=key, value=value)
            for offset, (key, value) in enumerate(batch.records, batch.base_offset)
        ),
    )


def put(partition: Partition, upload: Upload, now_ms: int, *, parts: int | None = None) -> None:
    """Write an upload, or only its first `parts` objects; a `.log` without others is torn."""
    names = list(upload.parts)[:parts]
    for name in names:
        content = upload.parts[name]
        is_torn = parts is not None and name == "log" and parts == 1
        path = partition.folder / f"{upload.stem}.{name}"
        path.write_bytes(content[: len(content) * 2 // 3 - 5] if is_torn else content)
        set_modified(path, now_ms)


def set_modified(path: Path, now_ms: int) -> None:
    """Set the object's modification time."""
    os.utime(path, (now_ms / 1000, now_ms / 1000))
