"""Ways to corrupt a segment in the tier, and what the verbs must say of each."""

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
    """One way, and the words that a person needs to find and to mend it."""

    name: str
    corrupt: Callable[[Path], None]
    """Takes the `.log`'s path; the other parts lie beside."""
    without_row: tuple[str, ...]
    """Said where no run has seen the segment whole."""
    known: tuple[str, ...] | None
    """Said where it lives by the catalog; None: a round needs no such part, and makes it anew."""


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


DAMAGES: Final = (
    Damage(
        name="flipped-byte",
        corrupt=flip_last_byte,
        without_row=(".log", "at byte", "bad CRC", "nothing of this partition was changed"),
        known=(".log", "at byte", "bad CRC", "nothing of this partition was changed"),
    ),
    Damage(
        name="torn-tail",
        corrupt=_cut(".log", -10),
        without_row=(".log", "torn", "at position", "Restore"),
        known=("has a .log of", "the catalog says", "Bring the objects back"),
    ),
    Damage(
        name="truncated-index",
        corrupt=_cut(".index", 7),
        without_row=(".index", "7 bytes is torn"),
        known=None,
    ),
    Damage(
        name="truncated-time-index",
        corrupt=_cut(".timeindex", 7),
        without_row=(".timeindex", "7 bytes is torn"),
        known=None,
    ),
    Damage(
        name="missing-snapshot",
        corrupt=_remove(".snapshot"),
        without_row=("lacks .snapshot", "Run again once the upload is complete"),
        known=("lacks .snapshot", "Bring the objects back"),
    ),
    Damage(
        name="damaged-snapshot",
        corrupt=_rot(".snapshot"),
        without_row=(".snapshot", "Restore"),
        known=None,
    ),
    Damage(
        name="missing-checkpoint",
        corrupt=_remove(".leader_epoch_checkpoint"),
        without_row=("lacks .leader_epoch_checkpoint", "Run again once the upload is complete"),
        known=("lacks .leader_epoch_checkpoint", "Bring the objects back"),
    ),
    Damage(
        name="unknown-magic",
        corrupt=_unknown_magic,
        without_row=(".log", "magic 3", "position 0"),
        known=(".log", "at byte 0", "magic 3"),
    ),
    Damage(
        name="unknown-codec",
        corrupt=_unknown_codec,
        without_row=(".log", "at byte 0", "codec 5"),
        known=(".log", "at byte 0", "codec 5"),
    ),
    Damage(
        name="zero-bytes",
        corrupt=_cut(".log", 0),
        without_row=(".log", "the segment has 0 bytes", "Restore"),
        known=("has a .log of 0 bytes", "the catalog says", "Bring the objects back"),
    ),
    Damage(
        name="missing-log",
        corrupt=_remove(".log"),
        without_row=("lacks .log", "Run again once the upload is complete"),
        known=("lacks .log", "Bring the objects back"),
    ),
)
