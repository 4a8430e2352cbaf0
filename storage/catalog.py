"""The catalog: which segments live, and who may say so. One row per partition, in Delta.

A claim opens the next compaction epoch; a commit swaps segments under it. Both are one conditional
update of all partitions of a run, decided by the row's commit id, epoch and owner. An update whose
condition fails writes no row and raises nothing, so the rows written are counted, every time, and
where they are fewer than proposed the rows themselves say who won.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Protocol

import pyarrow as pa

from compaction.commit import CommitProposal, applied, claimed, lost, verdict
from compaction.errors import CorruptLog, UnreadableObject
from compaction.invariants import CLAIM_INVARIANTS, COMMIT_INVARIANTS, ensure
from compaction.outcomes import Committed, LostRace, Outcome, Unknown
from compaction.segments import PartitionKey, PartitionState
from storage.catalog_rows import states_of, table_of
from storage.catalog_schema import EXPECTED, PARTITION_COLUMNS, PARTITIONS
from storage.delta_tables import Condition, DeltaFolder, TableLayout, any_of, sql_text

ATTEMPTS: Final = 5
"""How often one call writes: a conflict on one partition refuses the whole commit, and the others
go again without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """How the claim of one partition ended."""

    outcome: Outcome
    state: PartitionState
    """The claimed state; the catalog holds it if `outcome` is `Committed`."""


class Catalog:
    """The `partitions` table of the catalog at a folder or object store URI.

    Raises, from every method:
        UnreadableObject: the catalog exists and cannot be read.
        CorruptLog: its log or a row contradicts itself.
        BadSettings: a newer tierfold made it.
    """

    def __init__(
        self, uri: str, open_table: Callable[[str, TableLayout], DeltaFolder] = DeltaFolder
    ) -> None:
        layout = TableLayout(schema=PARTITIONS, partition_by=PARTITION_COLUMNS)
        self._table = open_table(f"{uri.rstrip('/')}/partitions", layout)

    def read(
        self, keys: Iterable[PartitionKey] | None = None
    ) -> dict[PartitionKey, PartitionState]:
        """The rows of the partitions named, or of all; a partition never claimed has none.

        Reading makes nothing: a tier without a catalog has no rows, and still no catalog.
        """
        if keys is None:
            return {state.key: state for state in self._states(None)}
        # Not by name: whether a topic of another name has its id is for the caller to see.
        named = {(key.topic_id, key.partition) for key in keys}
        if not named:
            return {}
        # A flat list: over thousands of topics, each a clause of its own, delta-rs plans for half a
        # minute. What the list lets in beyond those named is the topics' other partitions.
        topics = ", ".join(sql_text(topic_id) for topic_id in sorted({each[0] for each in named}))
        return {
            state.key: state
            for state in self._states(f"topic_id IN ({topics})")
            if (state.key.topic_id, state.key.partition) in named
        }

    def _states(self, predicate: str | None) -> Sequence[PartitionState]:
        return states_of(self._table.read(predicate), where=self._table.uri)

    def claim(
        self, states: Sequence[PartitionState], run: str, *, at_ms: int
    ) -> dict[PartitionKey, Claim]:
        """Open the next compaction epoch of all partitions in one commit.

        Args:
            states: rows as read, with newly seen segments adopted, or fresh ones of epoch 0 for
                partitions never claimed. A row that has changed since is not claimed.
            run: the run that takes them over.
            at_ms: the time of the claim, epoch milliseconds.

        Raises:
            InvariantBroken: a state breaks a law; nothing was written.
        """
        commit_id = new_commit_id()
        attempts = [
            _ClaimAttempt(
                read=state, after=claimed(state, run=run, commit_id=commit_id, at_ms=at_ms)
            )
            for state in states
        ]
        outcomes = self._settle(attempts, {state.key: state for state in states})
        return {
            attempt.key: Claim(outcome=outcomes[attempt.key], state=attempt.after)
            for attempt in attempts
        }

    def commit(self, proposals: Sequence[CommitProposal]) -> dict[PartitionKey, Outcome]:
        """Write all proposals whose requirements hold, in one commit; the others are told why.

        A proposal that had been written before is recognised and is `Committed` again.

        Raises:
            InvariantBroken: a proposal breaks a law; nothing was written.
        """
        attempts = [_CommitAttempt(proposal=proposal) for proposal in proposals]
        return self._settle(attempts, self.read(attempt.key for attempt in attempts))

    def resolve(self, proposal: CommitProposal) -> Outcome:
        """How a commit that ended `Unknown` has really ended, by reading back.

        A proposal that the row shows no trace of is a lost race: plan again from a fresh view.
        """
        row = self.read([proposal.key]).get(proposal.key)
        if row is None:
            return LostRace(found_commit_id="")
        return verdict(proposal, row) or lost(proposal.epoch, row)

    def _settle(
        self,
        attempts: Sequence[_Attempt],
        rows: Mapping[PartitionKey, PartitionState],
    ) -> dict[PartitionKey, Outcome]:
        """Write what the rows allow until each attempt has ended; `rows` may be stale."""
        pending = {attempt.key: attempt for attempt in attempts}
        if len(pending) < len(attempts):
            raise ValueError("one call writes a partition once")
        ended: dict[PartitionKey, Outcome] = {}
        for _ in range(ATTEMPTS):
            ended |= _judged(pending.values(), rows)
            pending = {key: each for key, each in pending.items() if key not in ended}
            if not pending:
                return ended
            swap = _swap_of([(each, rows.get(key)) for key, each in pending.items()])
            try:
                written = self._table.swap(swap, _condition(pending))
            except (UnreadableObject, CorruptLog) as error:
                return ended | self._read_back(pending, cause=str(error))
            if written == len(pending):
                return ended | {key: each.success for key, each in pending.items()}
            rows = self.read(pending)
        return ended | _refused(pending.values(), rows)

    def _read_back(
        self, pending: Mapping[PartitionKey, _Attempt], *, cause: str
    ) -> dict[PartitionKey, Outcome]:
        """After a write without an answer: the rows may tell, else nobody knows."""
        unknown: dict[PartitionKey, Outcome] = {
            key: Unknown(commit_id=each.success.commit_id, cause=cause)
            for key, each in pending.items()
        }
        try:
            rows = self.read(pending)
        except (UnreadableObject, CorruptLog):
            return unknown
        return unknown | _judged(pending.values(), rows)


def new_commit_id() -> str:
    """An id for a claim or a commit; never made twice."""
    return str(uuid.uuid4())


class _Attempt(Protocol):
    """Something that wants to replace one row."""

    @property
    def key(self) -> PartitionKey: ...

    @property
    def success(self) -> Committed: ...

    def verdict(self, row: PartitionState | None) -> Outcome | None:
        """How it has ended, judged by the row; None: it may be written."""

    def next_row(self, row: PartitionState | None) -> PartitionState: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClaimAttempt:
    read: PartitionState
    after: PartitionState

    @property
    def key(self) -> PartitionKey:
        return self.read.key

    @property
    def success(self) -> Committed:
        return Committed(epoch=self.after.epoch, commit_id=self.after.commit_id)

    def verdict(self, row: PartitionState | None) -> Outcome | None:
        found = "" if row is None else row.commit_id
        if found == self.after.commit_id:
            return self.success
        if found == self.read.commit_id:
            return None
        return LostRace(found_commit_id="") if row is None else lost(self.after.epoch, row)

    def next_row(self, row: PartitionState | None) -> PartitionState:
        ensure(self.read if row is None else row, self.after, CLAIM_INVARIANTS)
        return self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommitAttempt:
    proposal: CommitProposal

    @property
    def key(self) -> PartitionKey:
        return self.proposal.key

    @property
    def success(self) -> Committed:
        return Committed(epoch=self.proposal.epoch, commit_id=self.proposal.commit_id)

    def verdict(self, row: PartitionState | None) -> Outcome | None:
        if row is None:
            return LostRace(found_commit_id="")
        return verdict(self.proposal, row)

    def next_row(self, row: PartitionState | None) -> PartitionState:
        if row is None:
            raise ValueError(f"{self.key} was never claimed")
        after = applied(self.proposal, row)
        ensure(row, after, COMMIT_INVARIANTS)
        return after


def _judged(
    attempts: Iterable[_Attempt], rows: Mapping[PartitionKey, PartitionState]
) -> dict[PartitionKey, Outcome]:
    verdicts = {attempt.key: attempt.verdict(rows.get(attempt.key)) for attempt in attempts}
    return {key: outcome for key, outcome in verdicts.items() if outcome is not None}


def _refused(
    attempts: Iterable[_Attempt], rows: Mapping[PartitionKey, PartitionState]
) -> dict[PartitionKey, Outcome]:
    """Nothing was written in so many attempts, and no row says who was faster."""
    return {
        attempt.key: attempt.verdict(row)
        or LostRace(found_commit_id="" if row is None else row.commit_id)
        for attempt in attempts
        for row in (rows.get(attempt.key),)
    }


def _swap_of(pending: Sequence[tuple[_Attempt, PartitionState | None]]) -> pa.Table:
    """The rows to write, each beside what the row it replaces must say."""
    rows = table_of([attempt.next_row(row) for attempt, row in pending])
    before = [row for _, row in pending]
    expected = (
        [row.commit_id if row else "" for row in before],
        [row.epoch if row else 0 for row in before],
        [row.owner_run if row else "" for row in before],
    )
    for field, values in zip(EXPECTED, expected, strict=True):
        rows = rows.append_column(field, pa.array(values, field.type))
    return rows


def _condition(keys: Iterable[PartitionKey]) -> Condition:
    return Condition(
        same_row=" AND ".join(f"target.{each} = source.{each}" for each in PARTITION_COLUMNS),
        only_in=_target_rows_of(keys),
        may_replace=" AND ".join(
            f"target.{field.name.removeprefix('expected_')} = source.{field.name}"
            for field in EXPECTED
        ),
        may_insert="source.expected_commit_id = ''",
    )


def _target_rows_of(keys: Iterable[PartitionKey]) -> str:
    """The rows of some partitions, in literals over the partition columns.

    No other rows: a commit on a partition that is not named must not conflict.
    """
    by_topic = groupby(sorted(keys, key=lambda key: key.topic_id), key=lambda key: key.topic_id)
    return any_of(
        [
            f"target.topic_id = {sql_text(topic_id)}"
            f" AND target.partition IN ({', '.join(str(key.partition) for key in topic)})"
            for topic_id, topic in by_topic
        ]
    )
