"""The catalog: which segments live, and who may say so. One row per partition, in Delta.

A claim opens the next compaction epoch; a commit swaps segments under it. Both are one Delta commit
for all partitions of a run: the rows of their buckets are read at one version of the table, each
row's commit id, epoch and owner decide whether it may be replaced, and what is written counts only
if no other commit has touched these buckets since. Else the rows are read and judged anew: a
conflict on a neighbour's row refuses nobody.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

from compaction.commit import CommitProposal, applied, claimed, lost, verdict
from compaction.errors import BadSettings, CorruptLog, InvariantBroken, UnreadableObject
from compaction.invariants import (
    CLAIM_INVARIANTS,
    COMMIT_INVARIANTS,
    RESTORE_INVARIANTS,
    ensure,
)
from compaction.outcomes import Committed, LostRace, Outcome, Unknown
from compaction.segments import PartitionKey, PartitionState
from storage.catalog_cells import impossible_cells
from storage.catalog_rows import RowsRead, rows_as_promised, rows_judged, rows_read, table_of
from storage.catalog_schema import PARTITION_COLUMNS, PARTITIONS, bucket_of
from storage.delta_tables import DeltaFolder, TableLayout

ATTEMPTS: Final = 100
"""How often one call writes. Each conflict means that another run's commit got through; so many in
a row that this run sees none of its own is a queue longer than any that was meant."""


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
        """The rows as `look` has them; raises CorruptLog where one of them is refused."""
        return self.look(keys).believed().by_key

    def look(self, keys: Iterable[PartitionKey] | None = None) -> RowsRead:
        """The rows of the partitions named, or of all; a partition never claimed has none.

        A row that cannot be true is among the refused, and is its partition's trouble alone: one
        must not take such a partition for one that was never claimed.
        Reading makes nothing: a tier without a catalog has no rows, and still no catalog.
        """
        if keys is None:
            return rows_read(self._table.read(), where=self._table.uri)
        # Not by name: whether a topic of another name has its id is for the caller to see.
        named = {_id_of(key) for key in keys}
        if not named:
            return RowsRead(states=(), refused={})
        rows = rows_as_promised(self._table.read(_buckets_of(named)), where=self._table.uri)
        return rows_judged(_rows_of(rows, named), where=self._table.uri)

    def history(self, key: PartitionKey) -> Iterator[PartitionState]:
        """The partition's rows, the newest first, as far back as the table remembers; lazily.

        Each claim and commit left one. The first row of all is the partition's first claim, or the
        first since a person removed its row: what was before then is another row's past. It ends
        at an older row that cannot be believed.
        """
        last_id = None
        row_id = _id_of(key)
        for past in self._table.past(_buckets_of([row_id])):
            try:
                rows = rows_as_promised(past, where=self._table.uri)
                found = self._states(_rows_of(rows, [row_id])).get(key)
            except (CorruptLog, BadSettings):
                if last_id is None:
                    raise
                return
            if found is None:
                return
            if found.commit_id != last_id:
                last_id = found.commit_id
                yield found

    def vacuum(self, *, is_dry_run: bool = False) -> int:
        """Delete the files of rows superseded for thirty days; how many there were.

        Every run writes all its rows anew, so that without it the catalog only grows. `history`
        ends where they are gone.
        """
        return self._table.vacuum(is_dry_run=is_dry_run)

    def _states(self, rows: pa.Table) -> dict[PartitionKey, PartitionState]:
        return rows_judged(rows, where=self._table.uri).believed().by_key

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
        outcomes = self._settle(attempts)
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
        return self._settle([_CommitAttempt(proposal=proposal) for proposal in proposals])

    def resolve(
        self, proposals: Sequence[CommitProposal]
    ) -> dict[PartitionKey, Outcome | None]:
        """How commits that ended `Unknown` have really ended, by reading back; nothing is written.

        None: the row is still the one proposed on. That settles nothing, for the write may arrive
        late; a claim, which opens a newer epoch, shuts it out.
        """
        rows = _by_id(self.read(each.key for each in proposals).values())
        attempts = [_CommitAttempt(proposal=each) for each in proposals]
        return {each.key: each.verdict(rows.get(_id_of(each.key))) for each in attempts}

    def _settle(self, attempts: Sequence[_Attempt]) -> dict[PartitionKey, Outcome]:
        """Write what the rows allow until each attempt has ended."""
        pending = {_id_of(attempt.key): attempt for attempt in attempts}
        if len(pending) < len(attempts):
            raise ValueError("one call writes a partition once")
        ended: dict[PartitionKey, Outcome] = {}
        for _ in range(ATTEMPTS):
            if not pending:
                return ended
            ended |= self._tried(pending)
            pending = {each: of for each, of in pending.items() if of.key not in ended}
        return ended | self._outrun(pending)

    def _tried(self, pending: Mapping[_Id, _Attempt]) -> dict[PartitionKey, Outcome]:
        """One write of all that the rows allow; what is missing in the answer met a conflict."""
        version = self._table.newest()
        rows = rows_as_promised(version.read(_buckets_of(pending)), where=self._table.uri)
        found = _by_id(self._states(_rows_of(rows, pending)).values())
        ended = _judged(pending, found)
        free = {each: of for each, of in pending.items() if of.key not in ended}
        if not free:
            return ended
        rows = _with_next(rows, free, found)
        try:
            is_written = version.replace(_buckets_of(free), rows)
        except (UnreadableObject, CorruptLog) as error:
            return ended | self._read_back(free, cause=str(error))
        return ended | {each.key: each.success for each in free.values() if is_written}

    def _outrun(self, pending: Mapping[_Id, _Attempt]) -> dict[PartitionKey, Outcome]:
        """Others were faster every time, though not on these rows, or `_tried` had said so."""
        rows = _by_id(self.read(each.key for each in pending.values()).values())
        found = {each.key: rows.get(row_id) for row_id, each in pending.items()}
        return {
            key: LostRace(found_commit_id="" if row is None else row.commit_id)
            for key, row in found.items()
        }

    def _read_back(
        self, pending: Mapping[_Id, _Attempt], *, cause: str
    ) -> dict[PartitionKey, Outcome]:
        """After a write without an answer: the rows may tell, else nobody knows."""
        unknown = {
            each.key: Unknown(commit_id=each.success.commit_id, cause=cause)
            for each in pending.values()
        }
        try:
            found = self.read(each.key for each in pending.values())
        except (UnreadableObject, CorruptLog):
            return {**unknown}
        untraced = {key: replace(each, is_untraced=True) for key, each in unknown.items()}
        return untraced | _judged(pending, _by_id(found.values()))


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
        laws = RESTORE_INVARIANTS if self.proposal.is_restore else COMMIT_INVARIANTS
        ensure(row, after, laws)
        return after


_Id: TypeAlias = tuple[str, int]
"""Topic id and partition: which row, whatever the topic's name."""


def _id_of(key: PartitionKey) -> _Id:
    return key.topic_id, key.partition


def _by_id(states: Iterable[PartitionState]) -> dict[_Id, PartitionState]:
    return {_id_of(state.key): state for state in states}


def _judged(
    attempts: Mapping[_Id, _Attempt], rows: Mapping[_Id, PartitionState]
) -> dict[PartitionKey, Outcome]:
    verdicts = {each.key: each.verdict(rows.get(row_id)) for row_id, each in attempts.items()}
    return {key: outcome for key, outcome in verdicts.items() if outcome is not None}


def _with_next(
    rows: pa.Table, pending: Mapping[_Id, _Attempt], found: Mapping[_Id, PartitionState]
) -> pa.Table:
    """All rows of the buckets that are written: the pending ones' successors, the others as read.

    Args:
        rows: of these buckets, and of more.
        pending: what may be written, judged by `found`.
        found: the rows that `pending` replaces.
    """
    buckets = {bucket_of(topic_id) for topic_id, _ in pending}
    stay = [
        bucket in buckets and row_id not in pending
        for bucket, row_id in zip(rows["bucket"].to_pylist(), _ids_of(rows), strict=True)
    ]
    successors = [each.next_row(found.get(row_id)) for row_id, each in pending.items()]
    written = table_of(successors)
    _ensure_readable(written)
    return pa.concat_tables([rows.filter(pa.array(stay, pa.bool_())), written])


def _ensure_readable(rows: pa.Table) -> None:
    """Refuse to write what reading would refuse: such a row would stop its partition for ever."""
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    for row, found in impossible_cells(columns).items():
        raise InvariantBroken(
            found,
            where=f"{rows['topic'][row]}-{rows['partition'][row]}",
            remedy="Nothing was written. This is a bug in tierfold; please report it.",
        )


def _rows_of(rows: pa.Table, ids: Container[_Id]) -> pa.Table:
    return rows.filter(pa.array([each in ids for each in _ids_of(rows)], pa.bool_()))


def _ids_of(rows: pa.Table) -> Iterator[_Id]:
    return zip(rows["topic_id"].to_pylist(), rows["partition"].to_pylist(), strict=True)


def _buckets_of(ids: Iterable[_Id]) -> str:
    """The predicate of a few literals that names their buckets, whatever the number of rows."""
    buckets = sorted({bucket_of(topic_id) for topic_id, _ in ids})
    return f"bucket IN ({', '.join(map(str, buckets))})"
