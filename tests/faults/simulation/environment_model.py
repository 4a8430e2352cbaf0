"""What a partition's tier holds, by its bytes, and what must come of it: no code of the product's.

    held_in(log, objects)   every `.log` that brokers wrote, batch by batch
    Tier(log, held, row)    what of it counts, how far it reaches, what must be refused

Two histories are told apart by what the brokers' own list of batches says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tests.faults.simulation.environment_broker import Attempt, History
from tests.faults.simulation.environment_log import Batch, Branch
from tests.faults.simulation.environment_store import Objects
from tests.faults.simulation.simulation_scheduler import DAY_MS
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.tiers.local_tiered_storage import Part

_HEAD: Final = struct.Struct(">q i i 7x i")
"""Base offset, length of what follows it, leader epoch; last offset delta."""

_LENGTH_COUNTS_FROM: Final = 12

FAR_AHEAD_MS: Final = 2**62
"""Whatever lies there was written before."""

FAR_AHEAD: Final = 2**62
"""An offset that no log reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A log that a broker wrote, as it lies in the tier."""

    attempt: Attempt
    batches: tuple[Batch, ...]
    """Those that are whole."""
    parts: frozenset[Part]
    modified_ms: int
    """When the newest of its objects was written."""

    @property
    def start_offset(self) -> int:
        """Its first."""
        return self.batches[0][0]

    @property
    def next_offset(self) -> int:
        """Beyond its last."""
        return self.batches[-1][1] + 1

    @property
    def is_complete(self) -> bool:
        """All is there, and whole."""
        needed = set(self.attempt.keys) - {Part.TRANSACTION_INDEX}
        return needed <= self.parts and not self.attempt.is_torn


def whole_batches(data: bytes | bytearray) -> Iterator[Batch]:
    """The batches of a log, up to the first that is torn."""
    position = 0
    while position + _HEAD.size <= len(data):
        base, length, epoch, delta = _HEAD.unpack_from(data, position)
        position += length + _LENGTH_COUNTS_FROM
        if position <= len(data):
            yield base, base + delta, epoch


def held_in(log: History, objects: Objects) -> tuple[Held, ...]:
    """What brokers wrote of a partition and is there; of a log of which no batch is whole, none."""
    found = []
    for attempt in log.attempts:
        stored = {part: objects.stored.get(key) for part, key in attempt.keys.items()}
        there = {part: each for part, each in stored.items() if each is not None}
        batches = tuple(whole_batches(there[Part.LOG].data)) if Part.LOG in there else ()
        if batches:
            found.append(
                Held(
                    attempt=attempt,
                    batches=batches,
                    parts=frozenset(there),
                    modified_ms=max(each.modified_ms for each in there.values()),
                )
            )
    return tuple(found)


def branch_of(log: History, state: PartitionState) -> Branch | None:
    """The history whose leader epochs a row names up to its end; None: there is none such."""
    for branch in (log.written.log, log.written.lost):
        if branch is not None and branch.lineage_below(state.next_offset) == state.lineage:
            return branch
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A partition at one moment: what brokers uploaded of it, and its row."""

    log: History
    held: tuple[Held, ...]
    row: PartitionState | None
    """None: there is none, or it says nothing any more."""
    given_up: frozenset[str] = frozenset()
    """Ids of the segments whose loss a person has accepted with `tierfold forget`."""

    @property
    def is_diverged(self) -> bool:
        """An unclean election cut the log off, and nobody has said yet what is to become of it."""
        return self.is_cut_off if self.row is not None else any(self._alone())

    @property
    def apart(self) -> frozenset[str]:
        """Ids of what the election cut off, wholly or in part."""
        return frozenset(
            upload.attempt.segment_id
            for upload in self.held
            if not self.log.written.log.batches.issuperset(upload.batches)
        )

    @property
    def is_cut_off(self) -> bool:
        """The row goes on where an unclean election cut the log off, and the tier shows it."""
        is_below = self.row is not None and self._told_from < self.row.next_offset
        return self._is_on_the_lost_one and is_below

    @property
    def branch(self) -> Branch:
        """The history that counts, as far as the tier shows it."""
        log, lost = self.log.written.log, self.log.written.lost
        if lost is None:
            return log
        if self.row is not None and self.row.next_offset > self.log.written.fork_offset:
            return branch_of(self.log, self.row) or log
        return log if self._told_from == self.log.written.fork_offset else lost

    @property
    def reach(self) -> int:
        """Beyond the last offset that complete uploads give without a gap."""
        whole = [upload for upload in self.held if upload.is_complete and self._counts(upload)]
        reach = min((upload.start_offset for upload in whole), default=0)
        if self.row is not None:
            reach = self.row.next_offset
        while True:
            ends = [h.next_offset for h in whole if h.start_offset <= reach < h.next_offset]
            if not ends:
                return reach
            reach = max(ends)

    def waits_since(self, before_ms: int) -> bool:
        """Whether something that counts has lain beyond the reach since then."""
        reach = self.reach
        return any(
            upload.next_offset > reach and upload.modified_ms <= before_ms
            for upload in self.held
            if self._counts(upload) and not upload.attempt.is_torn
        )

    def has_stood_still(self, now_ms: int) -> bool:
        """Something has waited for longer than a broker takes to bring what is missing."""
        return self.waits_since(now_ms - DAY_MS)

    @property
    def is_open(self) -> bool:
        """Transactions that began below the reach end beyond it, or never."""
        ended = [upload for upload in self.branch.uploads if upload.start_offset < self.reach]
        return any(
            entry.current_txn_first_offset is not None
            for upload in ended[-1:]
            for entry in upload.producers
        )

    @property
    def is_refused_on_first_sight(self) -> bool:
        """Without a row: something is missing, cut short, or only of the history that was lost."""
        is_whole = all(upload.is_complete for upload in self.held)
        return self.waits_since(FAR_AHEAD_MS) or not is_whole or any(self._alone())

    @property
    def may_be_forgotten(self) -> bool:
        """Nothing but what was cut off would refuse what is left without the row."""
        ids = frozenset(upload.attempt.segment_id for upload in self.held)
        bare = replace(self, row=None, given_up=ids)
        return bool(self.held) and not bare.is_refused_on_first_sight

    def holds_its_own(self, held: Held, lowest: int) -> bool:
        """Whether an upload that no row names has something that the row's segments do not give.

        What cannot be read to its end may. `lowest` is the first offset that any row gave.
        """
        branch = None if self.row is None else branch_of(self.log, self.row)
        if self.row is None or branch is None or held.attempt.is_torn:
            return True
        if not branch.batches.issuperset(held.batches):
            return True
        return held.start_offset < lowest or held.next_offset > self.row.next_offset

    def may_be_given_up(self, held: Held) -> bool:
        """Whether a person who gives up what is set apart gives up this: the log goes on."""
        is_other = not self.branch.batches.issuperset(held.batches)
        return self.log.is_given_up and is_other and not (self.is_cut_off or held.attempt.is_torn)

    def _alone(self) -> Iterator[Held]:
        """What is no part of the history that counts, and has offsets that nothing of it has."""
        start = min((h.start_offset for h in self.held if self._counts(h)), default=0)
        for upload in self.held:
            is_beyond = upload.next_offset > self.reach or upload.start_offset < start
            is_given_up = upload.attempt.segment_id in self.given_up
            if is_beyond and not self._counts(upload) and not is_given_up:
                yield upload

    @property
    def _is_on_the_lost_one(self) -> bool:
        if self.row is None or self.log.written.lost is None:
            return False
        is_beyond = self.row.next_offset > self.log.written.fork_offset
        return is_beyond and branch_of(self.log, self.row) is self.log.written.lost

    def _counts(self, held: Held) -> bool:
        is_known = self.branch.batches.issuperset(held.batches)
        is_lost = self.branch is self.log.written.lost and held.next_offset > self._told_from
        return is_known and not is_lost and not held.attempt.is_foreign

    @property
    def _told_from(self) -> int:
        """From here on everybody can know that there is a newer history; `FAR_AHEAD`: nobody can.

        A checkpoint tells where it begins; without one, batches tell that it has begun.
        """
        fork, log = self.log.written.fork_offset, self.log.written.log
        epoch = next((e.epoch for e in log.lineage if e.start_offset >= fork), FAR_AHEAD)
        told = FAR_AHEAD
        for upload in self.held:
            of_it = [base for base, _, written in upload.batches if written >= epoch]
            if not of_it or upload.attempt.is_torn:
                continue
            if Part.LEADER_EPOCH_CHECKPOINT in upload.parts:
                return fork
            # On first sight one without is refused, whatever its batches say.
            told = min(told, *of_it) if self.row is not None else told
        return told
