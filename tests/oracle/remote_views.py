"""Copies between a local log folder and a LocalTieredStorage folder, in both directions.

`to_remote` copies a log that Kafka wrote to a tier, as a broker uploads it. `to_local` copies live
remote segments to their local names, so that Kafka's own classes can open them.
"""

from __future__ import annotations

import base64
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

TIER_FOLDER: Final = "kafka-tiered-storage"
_COPIED: Final = ("log", "index", "timeindex", "txnindex")
_UUID_LENGTH: Final = 22
_OFFSET_LENGTH: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """A live segment of a tier: its offsets (the last one inclusive) and its `.log`."""

    start_offset: int
    end_offset: int
    log: Path

    def part(self, suffix: str) -> Path:
        """The path of another of its objects."""
        return self.log.with_name(self.log.name.removesuffix(".log") + "." + suffix)

    def content(self) -> dict[str, bytes]:
        """The bytes of each of its objects, by suffix."""
        found = self.log.parent.glob(f"{self.log.stem}.*")
        return {path.suffix.removeprefix("."): path.read_bytes() for path in found}


def to_remote(src_dir: Path, root: Path, seed: int, below: int | None = None) -> Path:
    """Copy each closed segment of the log `src_dir` (named like `topic-0`) to a tier at `root`.

    The seed determines the ids. Segments that end above `below` are not copied: a broker uploads
    only below its last stable offset. Returns the partition's folder.
    """
    ids = random.Random(seed)
    folder = partition_folder(root, src_dir.name, ids)
    starts = sorted(int(log.stem) for log in src_dir.glob("*.log"))
    for start, end in pairwise(starts):
        if below is not None and end > below:
            break
        upload(src_dir, folder, ids, (start, end))
    return folder


def partition_folder(root: Path, name: str, ids: random.Random) -> Path:
    """Make the folder of the partition `name` (like `topic-0`); `ids` draws its topic id."""
    folder = root / TIER_FOLDER / f"{name}-{_kafka_uuid(ids)}"
    folder.mkdir(parents=True)
    return folder


def upload(src_dir: Path, folder: Path, ids: random.Random, span: tuple[int, int]) -> Path:
    """Copy a closed segment of the log `src_dir` to a partition's folder; returns its `.log`.

    `span`: the base offsets of the segment and of the next one.
    """
    start, end = span
    stem = folder / f"{start:020d}-{_kafka_uuid(ids)}"
    for suffix in _COPIED:
        part = src_dir / f"{start:020d}.{suffix}"
        # A broker does not upload an empty transaction index.
        if suffix != "txnindex" or (part.exists() and part.stat().st_size):
            shutil.copy2(part, f"{stem}.{suffix}")
    shutil.copy2(src_dir / f"{end:020d}.snapshot", f"{stem}.snapshot")
    checkpoint = (src_dir / "leader-epoch-checkpoint").read_text()
    Path(f"{stem}.leader_epoch_checkpoint").write_text(epochs_until(checkpoint, end))
    return Path(f"{stem}.log")


def to_local(segments: Sequence[RemoteSegment], out_dir: Path) -> Path:
    """Copy live segments (in offset order) to local names in the new folder `out_dir`.

    An empty active segment follows, as in a log that is uploaded completely. Returns `out_dir`,
    which must be named like `topic-0`.
    """
    out_dir.mkdir(parents=True)
    for segment in segments:
        stem = f"{segment.start_offset:020d}"
        for suffix in _COPIED:
            if segment.part(suffix).exists():
                shutil.copy2(segment.part(suffix), out_dir / f"{stem}.{suffix}")
        snapshot = f"{segment.end_offset + 1:020d}.snapshot"
        shutil.copy2(segment.part("snapshot"), out_dir / snapshot)
    if segments:
        checkpoint = segments[-1].part("leader_epoch_checkpoint")
        shutil.copy2(checkpoint, out_dir / "leader-epoch-checkpoint")
    _add_active(out_dir, segments[-1].end_offset + 1 if segments else 0)
    return out_dir


def _add_active(folder: Path, start: int) -> None:
    """Add an empty active segment to a local log."""
    for suffix in ("log", "index", "timeindex"):
        (folder / f"{start:020d}.{suffix}").touch()


def continued_log(before: Path | None, source: Path, borders: Sequence[int], out: Path) -> Path:
    """Copy the log `before`, then segments of the log `source`, to the new folder `out`.

    `before`: None: an empty log. `borders`: the base offsets of the added segments, and the end of
    the last one. Returns `out`.
    """
    if before is None:
        out.mkdir(parents=True)
    else:
        shutil.copytree(before, out)
    copy_segments(source, borders, out)
    _add_active(out, borders[-1])
    checkpoint = (source / "leader-epoch-checkpoint").read_text()
    (out / "leader-epoch-checkpoint").write_text(epochs_until(checkpoint, borders[-1]))
    return out


def copy_segments(source: Path, borders: Sequence[int], out: Path) -> None:
    """Copy segments of the local log `source` to the folder `out`.

    `borders`: their base offsets, and the end of the last one.
    """
    for start, end in pairwise(borders):
        for part in source.glob(f"{start:020d}.*"):
            shutil.copy2(part, out / part.name)
        shutil.copy2(source / f"{end:020d}.snapshot", out)


def all_segments(folder: Path, end_offset: int) -> list[RemoteSegment]:
    """All segments of a folder as live segments; the last one ends at `end_offset`."""
    logs = sorted(folder.glob("*.log"))
    starts = [int(log.name[:_OFFSET_LENGTH]) for log in logs]
    ends = [start - 1 for start in starts[1:]] + [end_offset]
    return [
        RemoteSegment(start_offset=start, end_offset=end, log=log)
        for start, end, log in zip(starts, ends, logs, strict=True)
    ]


def live_segments(status: Mapping[str, Any]) -> tuple[RemoteSegment, ...]:
    """The live segments that an entry of `tierfold status --json` names, in offset order."""
    return tuple(
        RemoteSegment(
            start_offset=segment["start_offset"],
            end_offset=segment["end_offset"],
            log=Path(segment["log"]),
        )
        for segment in status["segments"]
    )


def topic_id_of(folder: Path) -> str:
    """The topic id in a partition folder's name: its last 22 characters, as ids may contain `-`."""
    return folder.name[-_UUID_LENGTH:]


def _kafka_uuid(ids: random.Random) -> str:
    """Draw a `Uuid` as Kafka prints it: 22 characters, never with a leading `-`."""
    while True:
        text = base64.urlsafe_b64encode(ids.randbytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def epochs_until(checkpoint: str, end: int) -> str:
    """The leader epoch checkpoint without the epochs that start at or after offset `end`."""
    rows = [row for row in checkpoint.splitlines()[2:] if row and int(row.split()[1]) < end]
    return "\n".join(["0", str(len(rows)), *rows]) + "\n"
