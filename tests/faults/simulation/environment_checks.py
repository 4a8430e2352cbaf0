"""Invariants that must hold after every step; their code is independent of the product's.

The product's own invariants check a commit. These compare the bytes of the live objects with what
the brokers wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, pairwise
from typing import Any

from tests.faults.simulation.environment_broker import Attempt, History
from tests.faults.simulation.environment_bucket import Upload
from tests.faults.simulation.environment_log import Record, readable
from tests.faults.simulation.environment_model import Tier, branch_of, held_in
from tests.faults.simulation.environment_store import Objects
from tests.faults.simulation.environment_table import Buckets
from tests.faults.simulation.simulation_scheduler import Actor
from tierfold.compaction.deletion.deletion_plan import GRACE_MS, ORPHAN_AGE_MS
from tierfold.compaction.model.origins import origin_of
from tierfold.compaction.model.outcomes import Committed, Outcome, Unknown
from tierfold.compaction.model.segments import (
    CleanerOffset,
    LeaderEpoch,
    PartitionKey,
    PartitionState,
    RetiredSegment,
    Segment,
)
from tierfold.storage.catalog.schema import bucket_of
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.local_tiered_storage import partition_folder
from tierfold.storage.tiers.remote_tier import Part

ALWAYS: tuple[Part, ...] = tuple(part for part in Part if part is not Part.TRANSACTION_INDEX)
"""The objects that every segment has."""


class Violation(AssertionError):
    """An invariant does not hold."""


def keys_of(key: PartitionKey, segment: Segment) -> tuple[str, ...]:
    """Return the keys of a segment's objects, its log first."""
    stem = f"{partition_folder(key)}/{segment.own_start_offset:020d}-{segment.segment_id}"
    listed = (Part.TRANSACTION_INDEX,) if segment.has_transaction_index else ()
    return tuple(f"{stem}.{part.value}" for part in (*ALWAYS, *listed))


@dataclass(slots=True, kw_only=True)
class Watch:
    """Checks every change of the environment."""

    objects: Objects
    histories: dict[PartitionKey, History]
    seen: Callable[[PartitionState | None, PartitionState], None]
    """Called with each row before and after a change."""
    rows: dict[PartitionKey, PartitionState] = field(default_factory=dict)
    """The current rows."""
    took_place: set[tuple[PartitionKey, str]] = field(default_factory=set)
    """Partition and commit id of every claim and commit; a joint claim has one id."""
    retired_at_ms: dict[str, int] = field(default_factory=dict)
    """When each object was retired, by object key."""
    lowest: dict[PartitionKey, int] = field(default_factory=dict)
    """The log start offset of the partition's first row."""
    _records: dict[tuple[str, int], tuple[Record, ...]] = field(default_factory=dict)
    """By segment id and skipped bytes. A segment never changes, but after `tierfold forget` the
    next row may skip more of it."""

    def version(self, written: Buckets) -> None:
        """Check the buckets that a version wrote; raises Violation."""
        for bucket, table in written.items():
            found = {state.key: state for state in map(_state, table.to_pylist())}
            known = {key for key in self.rows if bucket_of(key.topic_id) == bucket}
            if not known <= found.keys():
                raise Violation(f"rows are missing: {known - found.keys()}")
            for key, after in found.items():
                self._row(self.rows.get(key), after)

    def _row(self, before: PartitionState | None, after: PartitionState) -> None:
        if before == after:
            return
        if before is not None and is_forgotten(before, after):
            violations = self._forget_violations(before, after)
        else:
            violations = chain(
                _history_violations(before, after),
                _vector_violations(before, after),
                self._row_violations(after),
            )
        for violation in violations:
            raise Violation(f"{after.key}, epoch {after.epoch} of {after.owner_run}: {violation}")
        self.rows[after.key] = after
        self.took_place.add((after.key, after.commit_id))
        if is_blank(after):
            self._clear(after.key)
        else:
            self.lowest.setdefault(after.key, after.log_start_offset)
        for segment in after.segments:
            for key in keys_of(after.key, segment):
                self.retired_at_ms.pop(key, None)
        for retired_segment in after.retired:
            for key in keys_of(after.key, retired_segment.segment):
                self.retired_at_ms[key] = retired_segment.retired_at_ms
        self.seen(before, after)

    def tier(self, key: PartitionKey) -> Tier:
        """Return the partition's uploads and row."""
        log, row = self.histories[key], self.rows.get(key)
        return Tier(
            log=log,
            held=held_in(log, self.objects),
            row=None if row is None or is_blank(row) else row,
            given_up=frozenset(() if row is None else row.forgotten),
        )

    def deletes(self, key: str) -> None:
        """Check an object before its deletion; raises Violation if it alone has some records."""
        for log in self.histories.values():
            if log.is_deleted or key in log.moved_away or key in self.retired_at_ms:
                continue
            tier = self.tier(log.key)
            for upload in tier.held:
                if key != upload.attempt.keys[Part.LOG] or upload.attempt.is_foreign:
                    continue
                if upload.attempt.is_of_directory and not self._was_complete(upload.attempt):
                    continue
                is_unique = tier.holds_unique_records(upload, self.lowest.get(log.key, 0))
                if is_unique and not tier.may_be_given_up(upload):
                    raise Violation(f"{key} is deleted, but alone has records: {upload}")

    def _was_complete(self, attempt: Attempt) -> bool:
        """Whether all required objects of an upload are there, or were until they were deleted."""
        seen = self.objects.stored.keys() | self.objects.gone
        return all(
            key in seen for part, key in attempt.keys.items() if part is not Part.TRANSACTION_INDEX
        )

    def removed(self, key: str, now_ms: int) -> None:
        """Check what is left after an object's deletion; raises Violation."""
        for state in self.rows.values():
            for violation in self._missing(state):
                raise Violation(f"{state.key}: {violation}")
        retired_at_ms = self.retired_at_ms.get(key, 0)
        is_by_others = any(
            key in log.moved_away or (log.is_deleted and key in log.objects)
            for log in self.histories.values()
        )
        if now_ms - retired_at_ms < GRACE_MS and not is_by_others:
            raise Violation(f"{key} was deleted {now_ms - retired_at_ms} ms after it was retired")

    def aborts(self, upload: Upload, by: Actor, *, is_bound: bool) -> None:
        """Check an upload before an actor aborts it; raises Violation if its writer may be active.

        The age of its last part counts from when the actor listed the parts: S3 cannot abort an
        upload on the condition that no part has arrived since.
        """
        if by is upload.by:
            return
        age_ms = upload.listed_age_ms[by.name]
        if age_ms < ORPHAN_AGE_MS or (upload.is_from_broker and is_bound):
            whose = "a broker's" if upload.is_from_broker else "a run's"
            raise Violation(f"{whose} upload of {upload.key} is aborted at the age of {age_ms} ms")

    def records_of(self, key: PartitionKey, segment: Segment) -> tuple[Record, ...]:
        """Return the records in a segment's `.log`, aborted ones included."""
        place = segment.segment_id, segment.skipped_bytes
        found = self._records.get(place)
        if found is None:
            name = keys_of(key, segment)[0]
            stored = self.objects.stored.get(name)
            # A run may commit a segment that a person has moved away.
            log = self.histories[key].set_aside[name] if stored is None else stored.data
            log = log[segment.skipped_bytes :]
            found = tuple(
                (record.offset, record.key, record.value)
                for batch in read_segment(log).batches()
                for record in batch.records
                if record.control_type is None and record.key is not None
            )
            self._records[place] = found
        return found

    def answer_violation(self, key: PartitionKey, outcome: Outcome, commit_id: str) -> str:
        """Return how the reported outcome of a claim or commit is wrong; empty: it is right."""
        did = (key, commit_id) in self.took_place
        reported = isinstance(outcome, Committed)
        if reported == did or isinstance(outcome, Unknown):
            return ""
        return f"commit {commit_id} {'took place' if did else 'did not take place'}: {outcome}"

    def content_violation(self, state: PartitionState) -> str:
        """Return how the records of the live objects differ from the model; empty: they do not."""
        branch = branch_of(self.histories[state.key], state)
        foreign = {
            attempt.keys[Part.LOG]
            for attempt in self.histories[state.key].attempts
            if attempt.is_foreign
        }
        for segment in state.segments:
            if keys_of(state.key, segment)[0] in foreign:
                return f"segment {segment.segment_id} is live, but is no upload of this log"
        if branch is None:
            return f"no history has the leader epochs {state.lineage}"
        for segment in state.segments:
            for offset, _, _ in self.records_of(state.key, segment):
                if not segment.start_offset <= offset <= segment.end_offset:
                    return f"segment {segment.segment_id} gives offset {offset}, but must not"
        committed = {offset for offset, _, _ in branch.records}
        found = readable(
            record
            for segment in state.segments
            for record in self.records_of(state.key, segment)
            if record[0] in committed
        )
        expected = branch.readable(state.log_start_offset, state.next_offset)
        return "" if found == expected else f"readers get {found}, not {expected}"

    def _row_violations(self, state: PartitionState) -> Iterator[str]:
        yield from _cover_violations(state)
        if not self.histories[state.key].is_deleted:
            missing = tuple(self._missing(state))
            yield from missing
            violation = "" if missing else self.content_violation(state)
            if violation:
                yield violation

    def _forget_violations(self, before: PartitionState, after: PartitionState) -> Iterator[str]:
        """Yield what `tierfold forget` did wrong."""
        log, tier = self.histories[before.key], self.tier(before.key)
        if log.is_deleted:
            return
        if tier.row is not None and not tier.is_truncated:
            yield f"is forgotten, but its log was not truncated: {before}"
        if after.cleaner_offsets:
            yield f"is forgotten, but keeps the cleaner offsets {after.cleaner_offsets}"
        written = [segment for segment in before.segments if segment.written_by_run]
        retired = [retired_segment.segment for retired_segment in before.retired]
        # Once the rewritten segments are moved away, the originals count as uploads.
        obstacles = [
            retired_segment
            for retired_segment in retired
            if retired_segment.written_by_run or not written
        ]
        for segment in (*written, *obstacles):
            if keys_of(before.key, segment)[0] in self.objects.stored:
                yield f"is forgotten, but {segment.segment_id} is still there"
        there = {upload.attempt.segment_id for upload in tier.held}
        wrongly = there & set(after.forgotten) - tier.set_apart
        if wrongly:
            yield f"{wrongly} is given up, but is part of the log"

    def _clear(self, key: PartitionKey) -> None:
        """Drop what is known of a row that is now blank."""
        self.lowest.pop(key, None)
        folder = partition_folder(key)
        for name in [name for name in self.retired_at_ms if name.startswith(f"{folder}/")]:
            del self.retired_at_ms[name]

    def _missing(self, state: PartitionState) -> Iterator[str]:
        log = self.histories[state.key]
        if log.is_deleted:
            return
        for segment in state.segments:
            for key in keys_of(state.key, segment):
                if key in log.moved_away:
                    continue
                stored = self.objects.stored.get(key)
                if stored is None:
                    how = "was deleted" if key in self.objects.gone else "is not there"
                    yield f"live object {key} {how}"
                elif key.endswith(".log") and len(stored.data) != segment.log_bytes:
                    yield f"{key} has {len(stored.data)} bytes, in the row {segment.log_bytes}"


def is_blank(state: PartitionState) -> bool:
    """Whether a row has no segments, no leader epochs and no log start offset."""
    return not (state.segments or state.retired or state.lineage or state.log_start_offset)


def is_forgotten(before: PartitionState, after: PartitionState) -> bool:
    """Whether this change emptied the row or accepted a loss."""
    gives_up = before.forgotten != after.forgotten
    return is_blank(after) and (gives_up or not is_blank(before))


def _state(row: Mapping[str, Any]) -> PartitionState:
    """Parse a row of the table without the product's reader."""
    key = {name: row[name] for name in ("topic", "partition", "topic_id")}
    values = {field.name: row[field.name] for field in fields(PartitionState) if field.name in row}
    values["cleaner_offsets"] = tuple(CleanerOffset(**offset) for offset in row["cleaner_offsets"])
    values["lineage"] = tuple(LeaderEpoch(**leader_epoch) for leader_epoch in row["lineage"])
    values["segments"] = tuple(map(_segment, row["segments"]))
    values["retired"] = tuple(
        RetiredSegment(**{**retired, "segment": _segment(retired["segment"])})
        for retired in row["retired"]
    )
    values |= {name: tuple(row[name]) for name in ("strategies", "forgotten")}
    return PartitionState(key=PartitionKey(**key), **values)


def _segment(values: Mapping[str, Any]) -> Segment:
    epochs, offsets = values["leader_epochs"], values["cleaner_offsets"]
    parsed = {
        "leader_epochs": tuple(LeaderEpoch(**epoch) for epoch in epochs),
        "cleaner_offsets": tuple(CleanerOffset(**offset) for offset in offsets),
        "leader_cleaner_offsets": tuple(
            CleanerOffset(**offset) for offset in values["leader_cleaner_offsets"] or ()
        ),
        "agrees_with": tuple(values["agrees_with"]),
        "origin": origin_of(values["written_by_run"], values["copy_of"], values["copied_upload"]),
    }
    plain = {field.name: values[field.name] for field in fields(Segment) if field.name in values}
    return Segment(**{**plain, **parsed})


def _cover_violations(state: PartitionState) -> Iterator[str]:
    if state.segments and state.segments[0].start_offset != state.log_start_offset:
        yield f"the first segment does not start at the log start, {state.log_start_offset}"
    for left, right in pairwise(state.segments):
        if right.start_offset != left.end_offset + 1:
            yield f"offset {left.end_offset} is followed by {right.start_offset}"


def _history_violations(before: PartitionState | None, after: PartitionState) -> Iterator[str]:
    """Yield violations: epochs only rise, and cleaner offsets of earlier epochs never change."""
    if before is None:
        return
    if after.epoch < before.epoch:
        yield f"the epoch fell from {before.epoch}"
    if after.epoch == before.epoch and after.owner_run not in {before.owner_run, ""}:
        yield f"the epoch belonged to {before.owner_run}"
    if after.next_offset < before.next_offset:
        yield f"the next offset fell from {before.next_offset} to {after.next_offset}"
    earlier = _below(before.cleaner_offsets, after.epoch)
    if earlier != _below(after.cleaner_offsets, after.epoch):
        yield f"cleaner offsets of earlier epochs, {earlier}, became {after.cleaner_offsets}"


def _vector_violations(before: PartitionState | None, after: PartitionState) -> Iterator[str]:
    """Yield violations: a new segment's entries by leader epoch rise to the cleaner offset."""
    known = frozenset() if before is None else before.named_ids
    epochs = {entry.epoch for entry in after.lineage}
    for segment in after.segments:
        entries = segment.leader_cleaner_offsets
        if segment.segment_id in known or not entries:
            continue
        is_rising = all(
            one.epoch < other.epoch and one.offset <= other.offset
            for one, other in pairwise(entries)
        )
        is_known = {entry.epoch for entry in entries} <= epochs
        if not (is_rising and is_known and entries[-1].offset == after.cleaner_offset):
            yield f"segment {segment.segment_id} has the cleaner offsets {entries}"


def _below(offsets: Sequence[object], epoch: int) -> list[object]:
    return [entry for entry in offsets if entry.epoch < epoch]
