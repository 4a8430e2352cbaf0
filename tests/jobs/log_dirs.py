"""Log directories of brokers, written without one: valid files, many small segments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.jobs.tiers import segment_parts
from tests.storage.live_segments import EPOCHS, data
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey
from tierfold.compaction.model.units import OFFSET_MAX
from tierfold.storage.indexes.leader_epoch_checkpoint import write_leader_epoch_checkpoint
from tierfold.storage.indexes.producer_snapshot import write_producer_snapshot
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.batch_headers import read_heads
from tierfold.storage.log_dirs.offset_checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
)
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, address_of

_SUFFIXES: Final = {
    Part.LOG: "log",
    Part.OFFSET_INDEX: "index",
    Part.TIME_INDEX: "timeindex",
    Part.TRANSACTION_INDEX: "txnindex",
}


class WrittenLogDir:
    """A log directory that grows segment by segment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        (path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
        (path / CLEANER_OFFSETS).write_bytes(b"")
        self._ends: dict[PartitionKey, int] = {}

    def filled(self, key: PartitionKey, segments: int, start: int = 0) -> WrittenLogDir:
        """Begin a partition, and roll so many segments of ten offsets, each with ten keys."""
        self.begin(key, start=start)
        for number in range(segments):
            self.roll_ten(key, start + 10 * number)
        return self

    def roll_ten(self, key: PartitionKey, start: int) -> None:
        """Roll a segment of ten offsets from there on, with an own value for each of ten keys."""
        pairs = [(f"k{n}".encode(), f"{start + n}".encode()) for n in range(10)]
        self.roll(key, [data(start, *pairs[:5]), data(start + 5, *pairs[5:])], start + 9)

    def folder(self, key: PartitionKey) -> Path:
        return self.path / str(key)

    def begin(
        self, key: PartitionKey, lineage: Sequence[LeaderEpoch] = EPOCHS, start: int = 0
    ) -> None:
        """Make the folder of a partition whose active segment is empty.

        As on a broker, the leader epochs begin at the log start.
        """
        folder = self.folder(key)
        folder.mkdir()
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {key.topic_id}")
        epochs = epochs_in(lineage, start, OFFSET_MAX)
        (folder / "leader-epoch-checkpoint").write_bytes(write_leader_epoch_checkpoint(epochs))
        self._activate(key, start, ())

    def roll(
        self,
        key: PartitionKey,
        batches: Sequence[BatchDraft],
        end: int,
        *,
        aborted: Sequence[AbortedTransaction] = (),
        producers: Sequence[ProducerEntry] = (),
    ) -> None:
        """Fill the active segment and roll it: the next one begins at `end` + 1."""
        start = self._ends[key]
        parts = segment_parts(batches, start_offset=start, aborted=aborted, producers=producers)
        for part, suffix in _SUFFIXES.items():
            if part in parts:
                self.file(key, start, suffix).write_bytes(parts[part])
        self._activate(key, end + 1, producers)
        self.note(RECOVERY_POINTS)
        self.note(HIGH_WATERMARKS)

    def hold(self, key: PartitionKey, tier: RemoteTier) -> WrittenLogDir:
        """Have all segments that the partition has in a tier, as the broker that uploaded them."""
        listing = tier.listing(key)
        self.begin(key, start=listing[0].start_offset)
        for listed in listing:
            start = listed.start_offset
            parts = {part: tier.read_part(address_of(key, listed), part) for part in _SUFFIXES
                     if listed.part_bytes(part) is not None}
            for part, content in parts.items():
                self.file(key, start, _SUFFIXES[part]).write_bytes(content.tobytes())
            heads = read_heads(parts[Part.LOG], where="log")
            self._activate(key, int(heads.last_offset[-1]) + 1, ())
        return self

    def note(self, checkpoint: str, offsets: dict[PartitionKey, int] | None = None) -> None:
        """Write a checkpoint: the active segments' starts, unless others are given."""
        found = self._ends if offsets is None else offsets
        lines = [f"{key.topic} {key.partition} {offset}" for key, offset in found.items()]
        text = "\n".join(["0", str(len(lines)), *lines, ""])
        (self.path / checkpoint).write_text(text)

    def file(self, key: PartitionKey, offset: int, suffix: str) -> Path:
        return self.folder(key) / f"{offset:020d}.{suffix}"

    def _activate(
        self, key: PartitionKey, start: int, producers: Sequence[ProducerEntry]
    ) -> None:
        self._ends[key] = start
        for suffix in ("log", "index", "timeindex"):
            self.file(key, start, suffix).write_bytes(b"")
        self.file(key, start, "snapshot").write_bytes(write_producer_snapshot(producers))


def seen(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """All that a broker could notice of its files, apart from the times of reading them."""
    files = [one for one in folder.rglob("*") if one.is_file()]
    stats = {one: one.stat() for one in files}
    return {
        str(one): (s.st_ino, s.st_mtime_ns, s.st_ctime_ns, one.read_bytes() if s.st_size else b"")
        for one, s in stats.items()
    }
