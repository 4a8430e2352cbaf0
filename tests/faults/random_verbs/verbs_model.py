"""The state machine's model: all logs and uploads that ever existed, without product code.

After a clean election the next leader has the same log. After an unclean one the log is truncated,
and the new leader writes other records at the same offsets. So the model keeps the whole log of
every leader epoch. Logs that share a batch share the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tests.faults.malformed.malformed_reference import whole_batches

REQUIRED: Final = ("log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint")
CHECKPOINT: Final = "leader_epoch_checkpoint"

Key: TypeAlias = bytes
Record: TypeAlias = tuple[int, Key, bytes | None]
"""Offset, key, value."""

Newest: TypeAlias = dict[Key, tuple[int, bytes | None]]
"""Offset and value of the newest record by key, tombstones included."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Records that a leader appended together; batches are compared by identity."""

    base_offset: int
    epoch: int
    at_ms: int
    records: tuple[tuple[Key, bytes | None], ...]

    @property
    def last_offset(self) -> int:
        """Inclusive."""
        return self.base_offset + len(self.records) - 1


@dataclass(slots=True, kw_only=True)
class Log:
    """The whole log of the leader of one epoch, from offset 0."""

    epoch: int
    lineage: tuple[tuple[int, int], ...]
    """Leader epochs and their start offsets."""
    batches: list[Batch] = field(default_factory=list)

    @property
    def next_offset(self) -> int:
        """The offset after its last record."""
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def append(self, records: Sequence[tuple[Key, bytes | None]], at_ms: int) -> None:
        """Append a batch."""
        base = self.next_offset
        batch = Batch(base_offset=base, epoch=self.epoch, at_ms=at_ms, records=tuple(records))
        self.batches.append(batch)

    def successor(self, epoch: int, start_offset: int) -> Log:
        """Return the next leader's log, which lacks batches from `start_offset` on."""
        kept = tuple(
            leader_epoch for leader_epoch in self.lineage if leader_epoch[1] < start_offset
        )
        return Log(
            epoch=epoch,
            lineage=(*kept, (epoch, start_offset)),
            batches=[batch for batch in self.batches if batch.base_offset < start_offset],
        )

    def lineage_to(self, end_offset: int) -> tuple[tuple[int, int], ...]:
        """Return the leader epochs that begin at or below an offset."""
        return tuple(leader_epoch for leader_epoch in self.lineage if leader_epoch[1] <= end_offset)

    def holds(self, batches: Iterable[Batch]) -> bool:
        """Whether it has all these batches."""
        own = set(map(id, self.batches))
        return all(id(batch) in own for batch in batches)

    def agrees_with(self, other: Log, next_offset: int) -> bool:
        """Whether both logs have the same batches below an offset."""
        return self._below(next_offset) == other._below(next_offset)

    def _below(self, next_offset: int) -> list[Batch]:
        return [batch for batch in self.batches if batch.base_offset < next_offset]

    def records(self, start_offset: int, end_offset: int) -> Iterator[Record]:
        """Yield its records from `start_offset` to `end_offset`, both inclusive."""
        for batch in self.batches:
            for offset, (key, value) in enumerate(batch.records, batch.base_offset):
                if start_offset <= offset <= end_offset:
                    yield offset, key, value


def newest(records: Iterable[Record]) -> Newest:
    """Return the last record of each key, tombstones included."""
    return {key: (offset, value) for offset, key, value in records}


@dataclass(slots=True, kw_only=True)
class Upload:
    """A segment that a leader uploads; all, some or none of its objects may be in the tier."""

    segment_id: str
    log: Log
    """The leader's log."""
    batches: tuple[Batch, ...]
    parts: dict[str, bytes]
    """The content of its objects by suffix, in upload order."""

    @property
    def start_offset(self) -> int:
        """The offset of its first batch."""
        return self.batches[0].base_offset

    @property
    def end_offset(self) -> int:
        """Inclusive."""
        return self.batches[-1].last_offset

    @property
    def stem(self) -> str:
        """The common prefix of its objects' names."""
        return f"{self.start_offset:020d}-{self.segment_id}"


class Held(NamedTuple):
    """The part of an upload that is in the tier."""

    upload: Upload
    parts: frozenset[str]
    batches: tuple[Batch, ...]
    """The complete batches of its `.log`."""
    is_torn: bool
    """It has a `.log`, but the last offset of that is unknown."""
    modified_ms: int

    @property
    def has_log(self) -> bool:
        """Whether its `.log` is there."""
        return "log" in self.parts

    @property
    def is_readable(self) -> bool:
        """Whether its last offset is known."""
        return self.has_log and not self.is_torn

    @property
    def is_complete(self) -> bool:
        """Whether all required objects are there, and its `.log` is readable."""
        return self.is_readable and self.parts >= set(REQUIRED)

    @property
    def end_offset(self) -> int:
        """The last readable offset; below its start offset: none is readable."""
        return self.batches[-1].last_offset if self.batches else self.upload.start_offset - 1

    @property
    def checkpoint_epoch(self) -> int:
        """The newest leader epoch of its checkpoint; −1: no checkpoint, or an unreadable `.log`."""
        if not self.is_readable or CHECKPOINT not in self.parts:
            return -1
        return self.upload.log.lineage_to(self.end_offset)[-1][0]

    @property
    def epoch_batches(self) -> tuple[Batch, ...]:
        """Its batches if it has no checkpoint, so that only they show its leader epochs."""
        return self.batches if self.is_readable and CHECKPOINT not in self.parts else ()


@dataclass(slots=True, kw_only=True)
class Partition:
    """A partition of one topic id."""

    topic: str
    number: int
    topic_id: str
    folder: Path
    """The folder of its objects."""
    logs: dict[int, Log] = field(default_factory=dict)
    """By leader epoch, the current one last."""
    uploads: dict[str, Upload] = field(default_factory=dict)
    """All uploads that ever existed, by segment id."""
    next_upload: int = 0
    """The start offset of the current leader's next segment."""
    delayed: list[Upload] = field(default_factory=list)
    """Uploads that arrive later than others with higher offsets."""
    damaged: dict[Path, bytes] = field(default_factory=dict)
    """Damaged objects and their original content."""
    moved_away: dict[Path, bytes] = field(default_factory=dict)
    """Objects that a person moved out of the tier as a refusal asked, and their content."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"

    @property
    def log(self) -> Log:
        """The current leader's log."""
        return self.logs[max(self.logs)]

    def held(self) -> dict[str, Held]:
        """Return the uploads that have an object in the tier, by segment id."""
        parts: dict[str, dict[str, Path]] = {}
        for path in self.folder.glob("0*"):
            stem, _, suffix = path.name.partition(".")
            parts.setdefault(stem[21:], {})[suffix] = path
        return {
            segment_id: self._held(self.uploads[segment_id], found)
            for segment_id, found in parts.items()
            if segment_id in self.uploads
        }

    def _held(self, upload: Upload, found: dict[str, Path]) -> Held:
        batches, is_torn = upload.batches, False
        log = found.get("log")
        if log is not None and log.stat().st_size != len(upload.parts["log"]):
            whole, is_torn = whole_batches(log.read_bytes())
            batches, is_torn = upload.batches[: len(whole)], is_torn or not whole
        return Held(
            upload=upload,
            parts=frozenset(found),
            batches=() if log is None else batches,
            is_torn=is_torn,
            modified_ms=max(path.stat().st_mtime_ns for path in found.values()) // 1_000_000,
        )

    def move_away(self, path: Path) -> None:
        """Move an object out of the tier and keep its content."""
        self.moved_away[path] = path.read_bytes()
        path.unlink()
