"""Builds corrupt bytes."""

from __future__ import annotations

import struct

import google_crc32c

from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch


def batch(base_offset: int, *, records: int = 1) -> bytes:
    """A small sound batch."""
    drafts = tuple(
        RecordDraft(offset=base_offset + i, timestamp_ms=1000 + i, key=b"key", value=b"value")
        for i in range(records)
    )
    return write_batch(BatchDraft(base_offset=base_offset, records=drafts))


def patched(log: bytes, at: int, form: str, value: int) -> bytes:
    """The bytes with one number of that struct form changed, no checksum renewed."""
    size = struct.calcsize(f">{form}")
    return log[:at] + struct.pack(f">{form}", value) + log[at + size :]


def summed(one_batch: bytes) -> bytes:
    """The batch with its checksum renewed, so that only the other corruption is found."""
    return patched(one_batch, 17, "I", google_crc32c.value(one_batch[21:]))


def batch_around(
    payload: bytes, *, count: int, codec: int = 0, last_offset_delta: int = 9
) -> bytes:
    """A batch of base offset 50 with any payload under a sound header."""
    made = write_batch(BatchDraft(base_offset=50)) + payload
    made = patched(made, 8, "i", len(made) - 12)
    made = patched(made, 21, "h", codec)
    made = patched(made, 23, "i", last_offset_delta)
    return summed(patched(made, 57, "i", count))
