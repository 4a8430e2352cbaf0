"""Invariants that must hold after every step, checked with the model and the tier's files.

    the row     its history is that of a leader; its objects exist; readers of its segments get each
                key's newest record, no deleted key, and no record of another history
    the view    `status` refuses what it must, and nothing else; uploads that fit are live
    the tier    an upload is deleted only if the row's segments have all its records, and only after
                its grace period
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

from deltalake import DeltaTable

from tests.faults.malformed.malformed_reference import PlainBatch, whole_batches
from tests.faults.random_verbs.verbs_expected import (
    Entry,
    effective_row,
    end_of,
    epoch_of,
    forget_violations,
    gives,
    is_emptied,
    is_set_apart,
    log_in_view,
    log_path,
    needed_violations,
    reached_by,
    refusals,
    retired_entry,
    retired_of,
    unknown_to,
)
from tests.faults.random_verbs.verbs_model import REQUIRED, Held, Log, Partition, newest


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What a step may delete; other steps may delete nothing."""

    now_ms: int
    grace_ms: int
    orphan_age_ms: int
    is_detached: bool
    takes_set_apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """The topic whose row a step may empty; other steps may empty none."""

    topic_id: str


Allowed: TypeAlias = Deletion | Forgetting | None


def rows_of(tier: Path) -> dict[str, Entry]:
    """Read the catalog's rows by topic id without the product; none if there is no catalog."""
    folder = tier / "_tierfold" / "partitions"
    if not (folder / "_delta_log").exists():
        return {}
    found = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return {row["topic_id"]: row for row in found}


@dataclass(slots=True, kw_only=True)
class Checker:
    """Compares each partition with its state before the step."""

    row: dict[str, Entry] = field(default_factory=dict)
    """The row after the last step, by topic id."""
    held: dict[str, dict[str, Held]] = field(default_factory=dict)
    """The uploads after the last step, by topic id and segment id."""
    events: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """What has happened so far, each with the ids of its segments or topics."""
    _read: dict[tuple[Path, int, int], list[PlainBatch]] = field(default_factory=dict)

    def accept_changes(self, partition: Partition) -> None:
        """Accept that others than tierfold changed its objects."""
        self.held[partition.topic_id] = partition.held()

    def drop_topic(self, topic_id: str) -> None:
        """Drop a deleted topic."""
        self.row.pop(topic_id, None)
        self.held.pop(topic_id, None)

    def check(
        self, partition: Partition, row: Entry | None, entry: Entry, allowed: Allowed = None
    ) -> None:
        """Compare with the state before the step, then store the new one; raises Violation."""
        held = partition.held()
        topic_id = partition.topic_id
        before, held_before = self.row.get(topic_id), self.held.get(topic_id, {})
        deletion = allowed if isinstance(allowed, Deletion) else None
        is_forgotten = row is not None and is_emptied(before, row)
        if is_forgotten:
            violations = [*forget_violations(partition, before, row, held_before)]
            if allowed != Forgetting(topic_id=topic_id):
                violations.append("a step that must not forget it has emptied its row")
        else:
            violations = [*_row_violations(partition, effective_row(before), row)]
        violations += [
            *_fence_violations(before, row),
            *self._content_violations(partition, row),
            *self._view_violations(partition, row, entry, held),
            *(
                violation
                for upload in held_before.values()
                if _is_gone(upload, held)
                for violation in (
                    *_gone_violations(_Gone(partition, before, held_before, upload), row, deletion),
                    *needed_violations(partition, before, held_before, upload),
                )
            ),
        ]
        if violations:
            raise Violation(f"{partition}: {'; '.join(violations)}")
        self._note(partition, row, entry, held_before.keys() - held.keys())
        if is_forgotten:
            self.events["a row was forgotten"].add(f"{topic_id} {row['epoch']}")
        if before is not None and effective_row(before) is None and effective_row(row) is not None:
            self.events["a forgotten partition continued"].add(f"{topic_id} {before['epoch']}")
        if row is not None:
            self.row[topic_id] = row
        self.held[topic_id] = held

    def _note(
        self, partition: Partition, row: Entry | None, entry: Entry, gone: Iterable[str]
    ) -> None:
        named = [*row["segments"], *retired_of(row)] if row is not None else []
        events = {
            "an overlapping upload was taken": [
                segment["segment_id"] for segment in named if segment["skipped_offsets"]
            ],
            "a segment was compacted": [
                segment["segment_id"] for segment in named if segment["written_by_run"]
            ],
            "an upload was set apart": entry["out_of_lineage"],
            "an upload was an orphan": partition.uploads.keys() & set(entry["orphans"]),
            "an upload was deleted": gone,
            "a partition was refused": [partition.topic_id] if entry["reason"] else [],
            "a partition diverged": [partition.topic_id] if "forget" in entry["reason"] else [],
        }
        for what, ids in events.items():
            self.events[what].update(ids)

    def _content_violations(self, partition: Partition, row: Entry | None) -> Iterator[str]:
        if row is None or not row["segments"]:
            return
        log = partition.logs[epoch_of(row)]
        end = end_of(row["segments"])
        lineage = tuple(
            (leader_epoch["epoch"], leader_epoch["start_offset"]) for leader_epoch in row["lineage"]
        )
        if lineage != log.lineage_to(end):
            yield f"the row's lineage is {lineage}, the leader's is {log.lineage_to(end)}"
        named = [(segment, log_path(partition, segment)) for segment in row["segments"]]
        yield from self._records_violations(partition, named, log)

    def _records_violations(
        self, partition: Partition, named: Sequence[tuple[Entry, Path]], log: Log
    ) -> Iterator[str]:
        """Yield how the records of these segments differ from those of the log."""
        start, end = named[0][0]["start_offset"], named[-1][0]["end_offset"]
        truth = {record[0]: record for record in log.records(start, end)}
        found = []
        for segment, path in named:
            for record in self._records(partition, segment, path):
                written = truth.get(record[0])
                if written != record:
                    yield f"{record} is live in {path.name}, but {written} was written"
                found.append(record)
        live = newest((offset, key or b"", value) for offset, key, value in found)
        expected = newest(truth.values())
        for key, record in expected.items():
            if record[1] is None and key not in live:
                continue  # Its tombstone was removed too.
            if live.get(key) != record:
                yield f"key {key!r} is {live.get(key)}, but its newest record is {record}"

    def _records(
        self, partition: Partition, segment: Entry, path: Path
    ) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Yield records from the effective start on; raises Violation if a batch straddles it."""
        start = segment["start_offset"]
        missed = partition.damaged | partition.moved_away
        if path in missed:
            batches, _ = whole_batches(missed[path])
        elif not path.exists():
            raise Violation(f"{partition}: live object {path.name} is gone")
        else:
            seen = path.stat()
            place = (path, seen.st_ino, seen.st_size)
            if place not in self._read:
                self._read[place] = whole_batches(path.read_bytes())[0]
            batches = self._read[place]
        for batch in batches:
            if batch.base_offset < start <= batch.last_offset:
                raise Violation(f"{partition}: a batch of {path.name} straddles offset {start}")
            if batch.base_offset >= start:
                yield from ((record.offset, record.key, record.value) for record in batch.records)

    def _view_violations(
        self, partition: Partition, row: Entry | None, entry: Entry, held: Mapping[str, Held]
    ) -> Iterator[str]:
        if partition.damaged:
            return
        unknown = unknown_to(row, held)
        why = list(refusals(partition, row, unknown))
        if entry["reason"]:
            if not why:
                yield f"status refuses a sound partition: {entry['reason']}"
            return
        must = [refusal for refusal in why if refusal.is_hard]
        if must:
            yield f"status accepts it, although {must[0].what}"
            return
        log = log_in_view(partition, row, unknown)
        segments = entry["segments"]
        if segments:
            yield from self._records_violations(
                partition, [(segment, Path(segment["log"])) for segment in segments], log
            )
        reached = reached_by(partition, row, unknown, log)
        if end_of(segments) != reached:
            yield f"the view ends at {end_of(segments)}, but uploads reach {reached}"
        yield from _listed_violations(partition, row, entry, held, log)


def _fence_violations(before: Entry | None, row: Entry | None) -> Iterator[str]:
    """Yield violations that apply to forgotten rows as well."""
    if before is not None and row is None:
        yield "its row is gone"
    elif before is not None and row is not None and row["epoch"] < before["epoch"]:
        yield f"the epoch fell from {before['epoch']} to {row['epoch']}"


def _row_violations(
    partition: Partition, before: Entry | None, row: Entry | None
) -> Iterator[str]:
    if row is None:
        return
    if before is not None:
        if row["log_start_offset"] != before["log_start_offset"]:
            moved = f"{before['log_start_offset']} to {row['log_start_offset']}"
            yield f"the log start moved from {moved}"
        if end_of(row["segments"]) < end_of(before["segments"]):
            yield f"the live end offset fell to {end_of(row['segments'])}"
    segments = row["segments"]
    if segments and segments[0]["start_offset"] != row["log_start_offset"]:
        yield "the first segment does not start at the log start"
    for left, right in pairwise(segments):
        if right["start_offset"] != left["end_offset"] + 1:
            yield f"offset {left['end_offset']} is followed by {right['start_offset']}"
    for segment in segments:
        for suffix in REQUIRED:
            path = log_path(partition, segment).with_suffix(f".{suffix}")
            if not path.exists() and path not in partition.damaged | partition.moved_away:
                yield f"live object {path.name} is gone"


def _listed_violations(
    partition: Partition, row: Entry | None, entry: Entry, held: Mapping[str, Held], log: Log
) -> Iterator[str]:
    """Yield orphans that alone have records, and uploads of the log that are set apart."""
    end = end_of((row or {}).get("segments", ()))
    for name in set(entry["orphans"]) & held.keys():
        if held[name].has_log and not gives(partition, row, held[name]):
            yield f"{held[name].upload.stem} is listed as an orphan, but the live log ends at {end}"
    for name in set(entry["out_of_lineage"]) & held.keys():
        if log.holds(held[name].batches):
            yield f"{held[name].upload.stem} is set apart, but is part of the log"


def _is_gone(held: Held, now: Mapping[str, Held]) -> bool:
    still = now.get(held.upload.segment_id)
    return held.has_log and (still is None or not still.has_log)


class _Gone(NamedTuple):
    """An upload whose `.log` is gone, and the partition's state before that."""

    partition: Partition
    row: Entry | None
    held: Mapping[str, Held]
    lost: Held


def _gone_violations(gone: _Gone, row: Entry | None, deletion: Deletion | None) -> Iterator[str]:
    """Yield why an upload's `.log` must not be gone; `row` is the current one."""
    upload, stem = gone.lost, gone.lost.upload.stem
    retired = retired_entry(gone.row, upload)
    if deletion is None:
        yield f"{stem} is gone"
    elif not gives(gone.partition, row, upload) and not (
        deletion.takes_set_apart and is_set_apart(*gone)
    ):
        yield f"{stem} is gone, but no live segment gives its records"
    elif retired is None or retired["deletion_started_at_ms"] is None:
        if retired is None and deletion.now_ms - upload.modified_ms < deletion.orphan_age_ms:
            yield f"{stem} is gone, but is too young for an orphan"
        if retired and deletion.now_ms - retired["retired_at_ms"] < deletion.grace_ms:
            yield f"{stem} is gone within its grace period"
        if not deletion.is_detached:
            yield f"{stem} is gone, but a broker may name it"
