"""A model of one partition: what the tier holds, and what follows; shares no code with the product.

    held_in(log, objects)   every `.log` that brokers wrote, batch by batch
    Tier(log, held, row)    which uploads count, how far they reach, what must be refused

The brokers' own list of batches distinguishes the two histories.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.faults.simulation.environment_broker import Attempt, History
from tests.faults.simulation.environment_log import Batch, Branch
from tests.faults.simulation.environment_store import Objects
from tests.faults.simulation.simulation_scheduler import DAY_MS
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.tiers.remote_tier import Part

_HEAD: Final = struct.Struct(">q i i 7x i")
"""Base offset, batch length, leader epoch, last offset delta."""

_LENGTH_COUNTS_FROM: Final = 12

FAR_AHEAD: Final = 2**62
"""Above every offset, leader epoch and time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An upload whose log is in the tier."""

    attempt: Attempt
    batches: tuple[Batch, ...]
    """The complete batches of its `.log`."""
    parts: frozenset[Part]
    modified_ms: int
    """When the newest of its objects was written."""

    @property
    def start_offset(self) -> int:
        """The offset of its first batch."""
        return self.batches[0][0]

    @property
    def next_offset(self) -> int:
        """The offset after its last batch."""
        return self.batches[-1][1] + 1

    @property
    def is_complete(self) -> bool:
        """Whether all required objects are there, and its `.log` is not torn."""
        needed = set(self.attempt.keys) - {Part.TRANSACTION_INDEX}
        return needed <= self.parts and not self.attempt.is_torn


def whole_batches(data: bytes | bytearray) -> Iterator[Batch]:
    """Yield the batches of a log before the first torn one."""
    position = 0
    while position + _HEAD.size <= len(data):
        base, length, epoch, delta = _HEAD.unpack_from(data, position)
        position += length + _LENGTH_COUNTS_FROM
        if position <= len(data):
            yield base, base + delta, epoch


def held_in(log: History, objects: Objects) -> tuple[Held, ...]:
    """Return a partition's uploads in the tier whose `.log` has at least one complete batch."""
    found = []
    for attempt in log.attempts:
        stored = {part: objects.stored.get(key) for part, key in attempt.keys.items()}
        there = {part: entry for part, entry in stored.items() if entry is not None}
        batches = tuple(whole_batches(there[Part.LOG].data)) if Part.LOG in there else ()
        if batches:
            found.append(
                Held(
                    attempt=attempt,
                    batches=batches,
                    parts=frozenset(there),
                    modified_ms=max(entry.modified_ms for entry in there.values()),
                )
            )
    return tuple(found)


def branch_of(log: History, state: PartitionState) -> Branch | None:
    """Return the history that has the row's leader epochs; None: neither has."""
    for branch in (log.written.log, log.written.lost):
        if branch is not None and branch.lineage_below(state.next_offset) == state.lineage:
            return branch
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A partition at one time: its uploads and its row."""

    log: History
    held: tuple[Held, ...]
    row: PartitionState | None
    """None: there is none, or it is blank."""
    given_up: frozenset[str] = frozenset()
    """Ids of the segments whose loss a person has accepted with `tierfold forget`."""

    @property
    def is_diverged(self) -> bool:
        """Whether the log was truncated, and no person has accepted the loss."""
        return self.is_truncated if self.row is not None else any(self._only_copies())

    @property
    def set_apart(self) -> frozenset[str]:
        """Ids of the uploads with batches that an unclean election truncated."""
        return frozenset(
            upload.attempt.segment_id
            for upload in self.held
            if not self.log.written.log.batches.issuperset(upload.batches)
        )

    @property
    def is_truncated(self) -> bool:
        """Whether the row has truncated offsets, and the tier shows the newer history."""
        row, lost = self.row, self.log.written.lost
        if row is None or lost is None or branch_of(self.log, row) is not lost:
            return False
        return row.next_offset > max(self.log.written.fork_offset, self._newer_log_start)

    @property
    def branch(self) -> Branch:
        """The current history, as far as the tier shows it."""
        log, lost = self.log.written.log, self.log.written.lost
        if lost is None:
            return log
        if self.row is not None and self.row.next_offset > self.log.written.fork_offset:
            return branch_of(self.log, self.row) or log
        return log if self._newer_log_start == self.log.written.fork_offset else lost

    @property
    def reach(self) -> int:
        """The next offset after all complete uploads without a gap."""
        return self.reach_through(self.whole)

    @property
    def whole(self) -> tuple[Held, ...]:
        """The complete uploads of the current history."""
        return tuple(u for u in self.held if u.is_complete and self._counts(u))

    def reach_through(self, whole: Sequence[Held]) -> int:
        """The next offset after these complete uploads without a gap."""
        reach = min((upload.start_offset for upload in whole), default=0)
        if self.row is not None:
            reach = self.row.next_offset
        while True:
            ends = [h.next_offset for h in whole if h.start_offset <= reach < h.next_offset]
            if not ends:
                return reach
            reach = max(ends)

    def waits_since(self, before_ms: int) -> bool:
        """Whether an upload that counts has waited beyond the reach since `before_ms`."""
        reach = self.reach
        return any(
            upload.next_offset > reach and upload.modified_ms <= before_ms
            for upload in self.held
            if self._counts(upload) and not upload.attempt.is_torn
            if upload.is_complete or not upload.attempt.is_of_directory
        )

    def is_stalled(self, now_ms: int) -> bool:
        """Whether an upload has waited for a day; a broker fills a gap sooner."""
        return self.waits_since(now_ms - DAY_MS)

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open at the reach."""
        ended = [upload for upload in self.branch.uploads if upload.start_offset < self.reach]
        return any(
            entry.current_txn_first_offset is not None
            for upload in ended[-1:]
            for entry in upload.producers
        )

    @property
    def is_refused_without_row(self) -> bool:
        """Whether it must be refused without a row: a gap, an incomplete upload, a lost history."""
        is_whole = all(upload.is_complete for upload in self.held)
        return self.waits_since(FAR_AHEAD) or not is_whole or any(self._only_copies())

    @property
    def may_be_forgotten(self) -> bool:
        """Whether no refusal remains if the row is emptied and truncated uploads are given up."""
        ids = frozenset(upload.attempt.segment_id for upload in self.held)
        bare = replace(self, row=None, given_up=ids)
        return bool(self.held) and not bare.is_refused_without_row

    def holds_unique_records(self, held: Held, lowest: int) -> bool:
        """Whether an upload that the row does not name may hold records that its segments lack.

        A torn one may. `lowest` is the log start offset of the first row.
        """
        branch = None if self.row is None else branch_of(self.log, self.row)
        if self.row is None or branch is None or held.attempt.is_torn:
            return True
        if not branch.batches.issuperset(held.batches):
            return True
        return held.start_offset < lowest or held.next_offset > self.row.next_offset

    def may_be_given_up(self, held: Held) -> bool:
        """Whether a person gave up this upload, and it is set apart without a refusal."""
        is_other = not self.branch.batches.issuperset(held.batches)
        return self.log.is_given_up and is_other and not (self.is_truncated or held.attempt.is_torn)

    def _only_copies(self) -> Iterator[Held]:
        """Yield uploads outside the current history that alone have some offsets."""
        start = min((h.start_offset for h in self.held if self._counts(h)), default=0)
        for upload in self.held:
            is_beyond = upload.next_offset > self.reach or upload.start_offset < start
            is_given_up = upload.attempt.segment_id in self.given_up
            if is_beyond and not self._counts(upload) and not is_given_up:
                yield upload

    def _counts(self, held: Held) -> bool:
        is_known = self.branch.batches.issuperset(held.batches)
        is_lost = self.branch is self.log.written.lost and held.next_offset > self._newer_log_start
        return is_known and not is_lost and not held.attempt.is_foreign

    @property
    def _newer_log_start(self) -> int:
        """The offset from which the tier shows a newer history; `FAR_AHEAD`: it shows none.

        A checkpoint shows where it begins; a batch shows only that it has begun.
        """
        fork, log = self.log.written.fork_offset, self.log.written.log
        epoch = next((e.epoch for e in log.lineage if e.start_offset >= fork), FAR_AHEAD)
        found = FAR_AHEAD
        for upload in self.held:
            newer = [base for base, _, written in upload.batches if written >= epoch]
            if not newer or upload.attempt.is_torn:
                continue
            if Part.LEADER_EPOCH_CHECKPOINT in upload.parts:
                return fork
            # Without a row, an upload without a checkpoint is refused whatever its batches are.
            found = min(found, *newer) if self.row is not None else found
        return found
