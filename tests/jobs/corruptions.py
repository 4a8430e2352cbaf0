"""Ways to corrupt a segment in the tier, and the words that the verbs print for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tests.jobs.tiers import flip_last_byte
from tierfold.storage.kafka.checksums import crc32c

CRC_AT: Final = 17
CRC_END: Final = 21
CODEC_AT: Final = 22
MAGIC_AT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One corruption, and the words by which a user finds and repairs it."""

    name: str
    corrupt: Callable[[Path], None]
    """Takes the path of the `.log`; the other parts are in the same folder."""
    without_row: tuple[str, ...] | None
    """The words if the catalog does not know the segment; None: the part is not needed either."""
    known: tuple[str, ...] | None
    """The words if the segment is live; None: a round does not need that part, and rebuilds it."""


def _cut(part: str, bytes_left: int) -> Callable[[Path], None]:
    """A negative number is cut from the end."""

    def corrupt(log: Path) -> None:
        path = log.with_suffix(part)
        path.write_bytes(path.read_bytes()[:bytes_left])

    return corrupt


def _remove(part: str) -> Callable[[Path], None]:
    return lambda log: log.with_suffix(part).unlink()


def _unknown_magic(log: Path) -> None:
    content = bytearray(log.read_bytes())
    content[MAGIC_AT] = 3
    log.write_bytes(content)


def _unknown_codec(log: Path) -> None:
    """Codec 5 in the first batch, its checksum renewed: as a future broker might write it."""
    content = bytearray(log.read_bytes())
    batch_bytes = 12 + int.from_bytes(content[8:12])
    content[CODEC_AT] |= 5
    crc = crc32c(np.frombuffer(bytes(content[:batch_bytes]), np.uint8))
    content[CRC_AT:CRC_END] = crc.to_bytes(4)
    log.write_bytes(content)


def _rot(part: str) -> Callable[[Path], None]:
    """Same size, other content."""

    def corrupt(log: Path) -> None:
        path = log.with_suffix(part)
        path.write_bytes(bytes(0xFF ^ byte for byte in path.read_bytes()))

    return corrupt


def _padded(part: str) -> Callable[[Path], None]:
    """As a broker preallocates an index, and never trimmed it (KAFKA-10207)."""

    def corrupt(log: Path) -> None:
        path = log.with_suffix(part)
        path.write_bytes(path.read_bytes() + bytes(2400))

    return corrupt


RESTORE_OBJECTS: Final = "Bring the objects back"
UPLOADING: Final = "Run again once the upload is complete"
CRC: Final = (".log", "at byte", "bad CRC", "has other bytes, put them in", "leave the topic out")
CODEC: Final = (".log", "at byte 0", "codec 5")
OTHER_SIZE: Final = ("the catalog says", RESTORE_OBJECTS)


def _lacks(part: str) -> tuple[tuple[str, ...], ...]:
    return (f"lacks {part}", UPLOADING), (f"lacks {part}", RESTORE_OBJECTS)


DAMAGES: Final = tuple(
    Damage(name=name, corrupt=corrupt, without_row=without_row, known=known)
    for name, corrupt, without_row, known in (
        ("flipped-byte", flip_last_byte, CRC, CRC),
        (
            "torn-tail",
            _cut(".log", -10),
            (".log", "torn", "at position", "has other bytes, put them in its place"),
            ("has a .log of", *OTHER_SIZE),
        ),
        ("truncated-index", _cut(".index", 7), None, None),
        ("truncated-time-index", _cut(".timeindex", 7), None, None),
        ("untrimmed-index", _padded(".index"), None, None),
        ("untrimmed-time-index", _padded(".timeindex"), None, None),
        ("missing-snapshot", _remove(".snapshot"), *_lacks(".snapshot")),
        ("damaged-snapshot", _rot(".snapshot"), (".snapshot", "restore it from a copy"), None),
        (
            "missing-checkpoint",
            _remove(".leader_epoch_checkpoint"),
            *_lacks(".leader_epoch_checkpoint"),
        ),
        (
            "unknown-magic",
            _unknown_magic,
            (".log", "magic 3", "position 0", "leave the topic out"),
            (".log", "at byte 0", "magic 3"),
        ),
        ("unknown-codec", _unknown_codec, CODEC, CODEC),
        (
            "zero-bytes",
            _cut(".log", 0),
            (".log", "the log has 0 bytes, but its indexes have entries", "a backup of"),
            ("has a .log of 0 bytes", *OTHER_SIZE),
        ),
        ("missing-log", _remove(".log"), *_lacks(".log")),
    )
)
