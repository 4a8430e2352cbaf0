"""What must hold after every step, judged by the model and by plain reads of the tier's files.

    the row     its history is one that a leader had; readers of its segments get each key's newest
                record, no deleted key, and nothing from another history; its objects are there
    the view    `status` refuses what it must, and nothing else; what can be taken is shown as taken
    the tier    no upload is gone unless the row's segments give all of it, and its time had come
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

from deltalake import DeltaTable

from tests.faults.verbs_model import REQUIRED, Held, Log, Partition, newest
from tests.faults.verbs_reader import FoundBatch, whole_batches

Entry: TypeAlias = dict[str, Any]
"""A row of the catalog, or an entry of `status --json`."""

STALL_MS: Final = 24 * 3_600_000


class Broken(AssertionError):
    """A law does not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What a step may delete; any other step may delete nothing."""

    now_ms: int
    grace_ms: int
    orphan_age_ms: int
    is_detached: bool


def rows_of(tier: Path) -> dict[str, Entry]:
    """The catalog's rows by topic id, read without the product; empty where there is none."""
    folder = tier / "_tierfold" / "partitions"
    if not (folder / "_delta_log").exists():
        return {}
    found = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return {each["topic_id"]: each for each in found}


def epoch_of(row: Entry | None) -> int:
    """The newest leader epoch that the row knows; −1: none."""
    return max((each["epoch"] for each in (row or {}).get("lineage", ())), default=-1)


def end_of(segments: Sequence[Entry]) -> int:
    """The last live offset; −1: nothing lives."""
    return int(segments[-1]["end_offset"]) if segments else -1


@dataclass(slots=True, kw_only=True)
class Judge:
    """Compares a partition with what it was before the step."""

    row: dict[str, Entry] = field(default_factory=dict)
    """As of the last look, by topic id; likewise the next."""
    held: dict[str, dict[str, Held]] = field(default_factory=dict)
    met: dict[str, set[str]] = field(default_factory=dict)
    """What the steps led to, and the ids of the segments or topics it happened to."""
    _read: dict[tuple[Path, int, int], list[FoundBatch]] = field(default_factory=dict)

    def noticed(self, partition: Partition) -> None:
        """Somebody else changed its objects: that is no step of the product's."""
        self.held[partition.topic_id] = partition.held()

    def forget(self, topic_id: str) -> None:
        """The topic is no more."""
        self.row.pop(topic_id, None)
        self.held.pop(topic_id, None)

    def judge(
        self,
        partition: Partition,
        row: Entry | None,
        entry: Entry,
        deletion: Deletion | None = None,
    ) -> None:
        """Raises Broken; otherwise what is found now is what the next step is compared with."""
        held = partition.held()
        topic_id = partition.topic_id
        before, held_before = self.row.get(topic_id), self.held.get(topic_id, {})
        faults = [
            *_row_faults(partition, before, row),
            *self._content_faults(partition, row),
            *self._view_faults(partition, row, entry, held),
            *(
                fault
                for each in held_before.values()
                if _is_gone(each, held)
                for fault in _gone_faults(partition, row, before, each, deletion)
            ),
        ]
        if faults:
            raise Broken(f"{partition}: {'; '.join(faults)}")
        self._note(partition, row, entry, held_before.keys() - held.keys())
        if row is not None:
            self.row[topic_id] = row
        self.held[topic_id] = held

    def _note(
        self, partition: Partition, row: Entry | None, entry: Entry, gone: Iterable[str]
    ) -> None:
        named = [*row["segments"], *_retired(row)] if row is not None else []
        met = {
            "an overlapping upload was taken": [
                each["segment_id"] for each in named if each["skipped_offsets"]
            ],
            "a segment was compacted": [
                each["segment_id"] for each in named if each["written_by_run"]
            ],
            "an upload was set apart": entry["out_of_lineage"],
            "an upload was an orphan": partition.uploads.keys() & set(entry["orphans"]),
            "an upload was deleted": gone,
            "a partition was refused": [partition.topic_id] if entry["problem"] else [],
            "a partition diverged": [partition.topic_id] if "forget" in entry["problem"] else [],
        }
        for what, ids in met.items():
            self.met.setdefault(what, set()).update(ids)

    def _content_faults(self, partition: Partition, row: Entry | None) -> Iterator[str]:
        if row is None or not row["segments"]:
            return
        log = partition.logs[epoch_of(row)]
        end = end_of(row["segments"])
        said = tuple((each["epoch"], each["start_offset"]) for each in row["lineage"])
        if said != log.lineage_to(end):
            yield f"the row's lineage is {said}, the leader's {log.lineage_to(end)}"
        named = [(each, _log_path(partition, each)) for each in row["segments"]]
        yield from self._records_faults(partition, named, log)

    def _records_faults(
        self, partition: Partition, named: Sequence[tuple[Entry, Path]], log: Log
    ) -> Iterator[str]:
        """How what these segments give differs from the log's records."""
        start, end = named[0][0]["start_offset"], named[-1][0]["end_offset"]
        truth = {each[0]: each for each in log.records(start, end)}
        found = []
        for segment, path in named:
            for record in self._records(partition, segment, path):
                if truth.get(record[0]) != record:
                    yield f"{record} lives in {path.name}, {truth.get(record[0])} was written"
                found.append(record)
        lives = newest((offset, key or b"", value) for offset, key, value in found)
        expected = newest(truth.values())
        for key, record in expected.items():
            if record[1] is None and key not in lives:
                continue  # Its tombstone is gone, too.
            if lives.get(key) != record:
                yield f"key {key!r} is {lives.get(key)}, its newest record is {record}"

    def _records(
        self, partition: Partition, segment: Entry, path: Path
    ) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Those from the segment's effective start on; a batch that straddles it is Broken."""
        start = segment["start_offset"]
        if path in partition.damaged:
            batches, _ = whole_batches(partition.damaged[path])
        elif not path.exists():
            raise Broken(f"{partition}: live object {path.name} is gone")
        else:
            seen = path.stat()
            place = (path, seen.st_ino, seen.st_size)
            if place not in self._read:
                self._read[place] = whole_batches(path.read_bytes())[0]
            batches = self._read[place]
        for batch in batches:
            if batch.base_offset < start <= batch.last_offset:
                raise Broken(f"{partition}: a batch of {path.name} straddles offset {start}")
            if batch.base_offset >= start:
                yield from batch.records

    def _view_faults(
        self, partition: Partition, row: Entry | None, entry: Entry, held: Mapping[str, Held]
    ) -> Iterator[str]:
        if partition.damaged:
            return
        named = [*(row or {}).get("segments", ()), *_retired(row)]
        known = {each["segment_id"] for each in named}
        unknown = [each for name, each in held.items() if name not in known]
        why = list(refusals(partition, row, unknown))
        if entry["problem"]:
            if not why:
                yield f"status refuses what is sound: {entry['problem']}"
            return
        must = [each for each in why if each.is_hard]
        if must:
            yield f"status accepts it, though {must[0].what}"
            return
        log = partition.logs[_epoch_in_view(row, unknown)]
        segments = entry["segments"]
        if segments:
            yield from self._records_faults(
                partition, [(each, Path(each["log"])) for each in segments], log
            )
        reached = _reached(row, unknown, log)
        if end_of(segments) != reached:
            yield f"the view ends at {end_of(segments)}, uploads reach {reached}"
        yield from _listed_faults(partition, row, entry, held, log)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a partition may be refused."""

    what: str
    is_hard: bool = True
    """It must be: what would be served, or taken, is not the log."""


def refusals(
    partition: Partition, row: Entry | None, unknown: Sequence[Held]
) -> Iterator[Reason]:
    """All reasons to refuse a partition that nobody has harmed."""
    log = partition.logs[_epoch_in_view(row, unknown)]
    if row is not None:
        lives = partition.logs[epoch_of(row)] if row["segments"] else log
        if not log.agrees_with(lives, end_of(row["segments"]) + 1):
            yield Reason(what=f"epoch {log.epoch} has other records at live offsets")
        return
    if any(not each.is_complete for each in unknown):
        yield Reason(what="an upload is incomplete on first sight")
    reached = _reached(None, unknown, log)
    complete = [each for each in unknown if each.is_complete]
    if any(each.end_offset > reached and log.holds(each.batches) for each in complete):
        yield Reason(what="offsets are missing on first sight")
    start = min((h.upload.start_offset for h in complete if log.holds(h.batches)), default=0)
    for each in complete:
        is_alone = each.upload.start_offset < start or each.end_offset > reached
        if is_alone and not log.holds(each.batches):
            yield Reason(what="what another history alone holds is there on first sight")


def stalled(
    partition: Partition, row: Entry | None, entry: Entry, held: Mapping[str, Held], now_ms: int
) -> list[str]:
    """Uploads that have waited for more than a day for what is missing below them."""
    known = {each["segment_id"] for each in (*(row or {}).get("segments", ()), *_retired(row))}
    unknown = [each for name, each in held.items() if name not in known and each.has_log]
    log = partition.logs[_epoch_in_view(row, unknown)]
    end = end_of(entry["segments"])
    return [
        f"{each.upload.stem} ({each.upload.start_offset} to {each.end_offset})"
        for each in unknown
        if now_ms - each.modified_ms >= STALL_MS
        and log.holds(each.batches)
        and max(each.end_offset, each.upload.start_offset if each.is_torn else -1) > end
    ]


def _epoch_in_view(row: Entry | None, unknown: Sequence[Held]) -> int:
    """The highest epoch that anything tells of decides."""
    told = (each.evidence for each in unknown)
    return max(epoch_of(row), *(each for each in told if each is not None), 0)


def _reached(row: Entry | None, unknown: Sequence[Held], log: Log) -> int:
    """How far complete uploads of this log reach from the live end on without a gap."""
    own = [each for each in unknown if each.is_complete and log.holds(each.batches)]
    reached = (
        min((each.upload.start_offset for each in own), default=0) - 1
        if row is None
        else end_of(row["segments"])
    )
    for each in sorted(own, key=lambda one: one.upload.start_offset):
        if each.upload.start_offset <= reached + 1:
            reached = max(reached, each.end_offset)
    return reached


def _row_faults(
    partition: Partition, before: Entry | None, row: Entry | None
) -> Iterator[str]:
    if row is None:
        if before is not None:
            yield "its row is gone"
        return
    if before is not None:
        if row["epoch"] < before["epoch"]:
            yield f"the epoch fell from {before['epoch']} to {row['epoch']}"
        if row["log_start_offset"] != before["log_start_offset"]:
            yield f"the log started at {before['log_start_offset']}, now {row['log_start_offset']}"
        if end_of(row["segments"]) < end_of(before["segments"]):
            yield f"the live end fell to {end_of(row['segments'])}"
    segments = row["segments"]
    if segments and segments[0]["start_offset"] != row["log_start_offset"]:
        yield "the first segment is not where the log starts"
    for left, right in pairwise(segments):
        if right["start_offset"] != left["end_offset"] + 1:
            yield f"offset {left['end_offset']} is followed by {right['start_offset']}"
    for each in segments:
        for suffix in REQUIRED:
            path = _log_path(partition, each).with_suffix(f".{suffix}")
            if not path.exists() and path not in partition.damaged:
                yield f"live object {path.name} is gone"


def _listed_faults(
    partition: Partition, row: Entry | None, entry: Entry, held: Mapping[str, Held], log: Log
) -> Iterator[str]:
    """What status calls an orphan holds nothing of its own; what is set apart is not the log's."""
    end = end_of((row or {}).get("segments", ()))
    for name in set(entry["orphans"]) & held.keys():
        if held[name].has_log and not _gives(partition, row, held[name]):
            yield f"{held[name].upload.stem} is called an orphan, the log lives to {end}"
    for name in set(entry["out_of_lineage"]) & held.keys():
        if log.holds(held[name].batches):
            yield f"{held[name].upload.stem} is set apart, and is the log's"


def _gives(partition: Partition, row: Entry | None, each: Held) -> bool:
    """The row's segments give every record that an upload holds, or a newer one of its key."""
    if row is None or not row["segments"] or each.is_torn:
        return False
    is_within = each.end_offset <= end_of(row["segments"])
    return is_within and partition.logs[epoch_of(row)].holds(each.batches)


def _is_gone(each: Held, now: Mapping[str, Held]) -> bool:
    still = now.get(each.upload.segment_id)
    return each.has_log and (still is None or not still.has_log)


def _gone_faults(
    partition: Partition,
    row: Entry | None,
    before: Entry | None,
    each: Held,
    deletion: Deletion | None,
) -> Iterator[str]:
    """What is wrong with an upload's `.log` being gone."""
    stem, name = each.upload.stem, each.upload.segment_id
    retired = {one["segment_id"]: one for one in _retired(before)}.get(name)
    if deletion is None:
        yield f"{stem} is gone"
    elif not _gives(partition, row, each):
        yield f"{stem} is gone, with records that no live segment gives"
    elif retired is None:
        if deletion.now_ms - each.modified_ms < deletion.orphan_age_ms:
            yield f"{stem} is gone, and is too young for an orphan"
        if not deletion.is_detached:
            yield f"{stem} is gone, and a broker may name it"
    elif retired["deletion_started_at_ms"] is None:
        if deletion.now_ms - retired["retired_at_ms"] < deletion.grace_ms:
            yield f"{stem} is gone within its grace period"
        if not deletion.is_detached:
            yield f"{stem} is gone, and a broker may name it"


def _retired(row: Entry | None) -> list[Entry]:
    """The retired segments, each with when that was."""
    return [
        {**each["segment"], **{k: v for k, v in each.items() if k != "segment"}}
        for each in (row or {}).get("retired", ())
    ]


def _log_path(partition: Partition, segment: Entry) -> Path:
    own_start = segment["start_offset"] - (segment["skipped_offsets"] or 0)
    return partition.folder / f"{own_start:020d}-{segment['segment_id']}.log"
