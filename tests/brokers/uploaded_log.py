"""What consumers should read of a compacted topic: Kafka's own cleaner, on all that was uploaded.

    log = UploadedLog(topic.folder(), lab, folder)
    log.collect()                          # after each fill, while the uploads' objects exist
    log.expected(cleaned_below=next_offset, passes_ms=(now_ms,))

Nothing here looks at what tierfold wrote, except for the offset below which it says it cleaned.
"""

from __future__ import annotations

import shutil
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.brokers.consumer_reads import Isolation, SeenRecord, seen_of_log
from tests.oracle.kafka_lab import Batch, KafkaLab, Option, is_aborted
from tests.oracle.remote_views import topic_id_of
from tierfold.compaction.model.segment_ids import is_own_id

_LENGTH_AT: Final = 8
"""Of a batch, behind its base offset: the bytes that follow the length."""
_DELTA_AT: Final = 23
"""Of a batch: its last offset, relative to the base offset."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """The position of a batch in a `.log`, and the offset after it."""

    position: int
    base_offset: int
    next_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What brokers should serve."""

    log_start: int
    end: int
    """The offset after the last one."""
    borders: tuple[int, ...]
    """Where uploads begin."""
    records: Mapping[Isolation, tuple[SeenRecord, ...]]
    stamps: tuple[tuple[int, int], ...]
    """Offset and timestamp of all records, those of control batches included."""

    @property
    def is_whole(self) -> bool:
        """Whether the log start is where a segment begins."""
        return self.log_start in self.borders

    def seen_from(self, start: int, isolation: Isolation) -> tuple[SeenRecord, ...]:
        """The records that a consumer sees that begins at an offset."""
        records = self.records[isolation]
        return records[bisect_left(records, start, key=lambda record: record.offset) :]

    def offset_for_time(self, at_ms: int) -> int | None:
        """The first offset whose record is not older; None: there is none."""
        return next((offset for offset, stamp_ms in self.stamps if stamp_ms >= at_ms), None)

    def from_log_start(self, offset: int) -> Expected:
        """The same after the records below an offset were deleted."""
        records = {isolation: self.seen_from(offset, isolation) for isolation in self.records}
        stamps = tuple(stamp for stamp in self.stamps if stamp[0] >= offset)
        return replace(self, log_start=offset, records=records, stamps=stamps)


class UploadedLog:
    """All segments that brokers uploaded of a partition, kept in a folder.

    `objects` is where LocalTieredStorage keeps them.
    """

    def __init__(self, objects: Path, lab: KafkaLab, folder: Path) -> None:
        self._objects, self._lab, self._folder = objects, lab, folder
        self._kept = folder / "uploads"
        self._kept.mkdir(parents=True)
        self._made = 0

    def collect(self) -> None:
        """Keep the uploads that are in the tier now."""
        for path in self._objects.glob("*.l*"):  # The log, and its leader epochs.
            segment_id = path.name[21:43]
            kept = self._kept / path.name
            if not is_own_id(segment_id) and not kept.exists():
                shutil.copy2(path, kept)

    def expected(
        self,
        *,
        cleaned_below: int = 0,
        passes_ms: Sequence[int] = (),
        **options: Option,
    ) -> Expected:
        """What is left once Kafka's cleaner has gone over everything below an offset.

        `passes_ms`: the clock of each of its passes; later ones let tombstones go. `options`: its
        topic settings, see `tests/oracle/README.md`.
        """
        self._made += 1
        name = self._objects.name.removesuffix(f"-{topic_id_of(self._objects)}")
        folder = self._folder / f"expected-{self._made}"
        log = folder / "uploaded" / name
        *starts, end = self._joined(folder / "joined", log)
        assert cleaned_below in {0, *starts, end}, f"{cleaned_below} is within an upload: {starts}"
        for number, now_ms in enumerate(passes_ms if cleaned_below else ()):
            cleaned = folder / f"pass-{number}" / name
            self._lab.clean(
                log, cleaned, now_ms=now_ms, below=cleaned_below, first_dirty=0, **options
            )
            log = cleaned
        batches = self._lab.batches(log)
        aborted = self._lab.side_files(log)["txnindex"]
        committed = [batch for batch in batches if not is_aborted(batch, aborted)]
        records = [record for batch in batches for record in batch["records"]]
        return Expected(
            log_start=starts[0],
            end=end,
            borders=tuple(starts),
            records={
                Isolation.READ_UNCOMMITTED: _seen(batches),
                Isolation.READ_COMMITTED: _seen(committed),
            },
            stamps=tuple((record["offset"], record["timestamp"]) for record in records),
        )

    def _joined(self, folder: Path, out: Path) -> list[int]:
        """Write the uploads as one log, and return where each begins in it, and its end.

        Of uploads that overlap, as after a change of leader, a later one has what lies beyond.
        """
        folder.mkdir(parents=True)
        borders: list[int] = []
        uploads = [(log, _batches(log.read_bytes())) for log in self._kept.glob("*.log")]
        for log, batches in sorted(uploads, key=_place):
            reached = borders[-1] if borders else batches[0].base_offset
            beyond = [batch for batch in batches if batch.next_offset > reached]
            if not beyond:
                continue
            assert beyond[0].base_offset == reached, f"{log.name} does not begin at {reached}"
            borders = [*(borders or [reached]), beyond[-1].next_offset]
            cut = log.read_bytes()[beyond[0].position :]
            (folder / f"{reached:020d}.log").write_bytes(cut)
            epochs = log.with_suffix(".leader_epoch_checkpoint")
            shutil.copy2(epochs, folder / "leader-epoch-checkpoint")
        self._lab.replicate(folder, out, roll_at=borders)
        return borders


def _place(upload: tuple[Path, Sequence[_Batch]]) -> tuple[int, int]:
    """The order of uploads: of those with the same start, the longest first."""
    _, batches = upload
    return batches[0].base_offset, -batches[-1].next_offset


def _batches(data: bytes) -> list[_Batch]:
    found, at = [], 0
    while at < len(data):
        base_offset = int.from_bytes(data[at : at + _LENGTH_AT])
        delta = int.from_bytes(data[at + _DELTA_AT : at + _DELTA_AT + 4])
        found.append(_Batch(at, base_offset, base_offset + delta + 1))
        at += _LENGTH_AT + 4 + int.from_bytes(data[at + _LENGTH_AT : at + _LENGTH_AT + 4])
    return found


def _seen(batches: Sequence[Batch]) -> tuple[SeenRecord, ...]:
    data = (batch for batch in batches if not batch["isControl"])
    return tuple(seen_of_log(record) for batch in data for record in batch["records"])
