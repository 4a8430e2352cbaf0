"""The payloads of magic 2 batches in one buffer, those that are compressed decompressed."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.units import BATCH_HEADER_BYTES
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.compression import Codec, PlainLimits, bytes_left, decompress
from tierfold.storage.kafka.gzip_members import TooMuch
from tierfold.storage.kafka.native_codecs import Payloads, Progress, decompress_run
from tierfold.storage.kafka.wire import as_kernel_input

BODY_GUESS: Final = 4
"""Uncompressed to stored bytes, to start with: untouched memory is free, and a body may grow."""


class TooMuchTogether(Exception):
    """The payloads before batch `batch` leave too little of `PlainLimits.together_bytes` for it."""

    def __init__(self, batch: int) -> None:
        if batch < 1:  # A run would be empty, and its records lost without a word.
            raise ValueError("there are payloads before it, so it is not the first batch")
        super().__init__(batch)
        self.batch = batch


class Place(NamedTuple):
    """Where batches are, and how large they may become."""

    where: str
    origin: int
    limits: PlainLimits


def batch_at(heads: BatchHeads, i: int, origin: int) -> str:
    """A batch, for a message."""
    return f"the batch at byte {origin + heads.position[i]} (base offset {heads.base_offset[i]})"


def plain_payloads(
    log: NDArray[np.uint8], heads: BatchHeads, place: Place
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The body, and where in it each batch's uncompressed payload starts and ends.

    Raises CorruptLog, and TooMuchTogether.
    """
    start = heads.position + BATCH_HEADER_BYTES
    end = heads.position + heads.size_bytes
    if not heads.codec.any():
        return log, start, end
    body = np.empty(BODY_GUESS * int(heads.size_bytes.sum()), np.uint8)
    payloads = Payloads(
        start=start,
        end=end,
        codec=heads.codec,
        records=heads.count,
        out_bytes=np.zeros(len(heads), np.int64),
    )
    done = Progress(batch=0, at=0, budget_bytes=place.limits.together_bytes)
    while True:
        done = decompress_run(log, payloads, body, done)
        if done.batch == len(heads):
            break
        plain = _plain_payload(log, heads, done, place)
        beyond = done.at + len(plain)
        if beyond > body.size:
            grown = np.empty(2 * beyond, np.uint8)
            grown[: done.at] = body[: done.at]
            body = grown
        body.data[done.at : beyond] = plain
        payloads.out_bytes[done.batch] = len(plain)
        spent_bytes = len(plain) if payloads.codec[done.batch] != Codec.NONE else 0
        left_bytes = bytes_left(done.budget_bytes, spent_bytes)
        done = Progress(done.batch + 1, beyond, left_bytes)
    end = np.cumsum(payloads.out_bytes)
    return as_kernel_input(body[: done.at]), end - payloads.out_bytes, end


def _plain_payload(
    log: NDArray[np.uint8], heads: BatchHeads, done: Progress, place: Place
) -> bytes | memoryview:
    """The next payload, decompressed alone; raises CorruptLog, and TooMuchTogether."""
    i = done.batch
    end = int(heads.position[i] + heads.size_bytes[i])
    stored = log.data[int(heads.position[i]) + BATCH_HEADER_BYTES : end]
    try:
        return decompress(
            int(heads.codec[i]),
            stored,
            where=place.where,
            budget_bytes=place.limits.budget_bytes(done.budget_bytes),
            batch_bytes_max=place.limits.batch_bytes,
        )
    except TooMuch as error:
        raise TooMuchTogether(i) from error
    except CorruptLog as error:
        here = f"{place.where}: {batch_at(heads, i, place.origin)}"
        raise CorruptLog(error.what, where=here, remedy=error.remedy) from error
