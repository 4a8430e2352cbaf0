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
from typing import Final

import pyarrow as pa

from tierfold.compaction.commits.commit import CommitProposal, claimed
from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    InvariantBroken,
    UnreadableObject,
)
from tierfold.compaction.model.outcomes import Committed, LostRace, Outcome, Unknown
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.storage.catalog.attempts import (
    Attempt,
    ClaimAttempt,
    CommitAttempt,
    RowId,
    by_row_id,
    outcomes_of,
    overlaid,
    row_id_of,
)
from tierfold.storage.catalog.cells import impossible_cells
from tierfold.storage.catalog.delta_tables import DeltaFolder, TableLayout
from tierfold.storage.catalog.rows import (
    RowsRead,
    rows_as_promised,
    rows_judged,
    rows_read,
    table_of,
)
from tierfold.storage.catalog.schema import PARTITION_COLUMNS, PARTITIONS, bucket_of

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

    def exists(self) -> bool:
        """A run has claimed something here; reading makes no catalog."""
        return self._table.exists()

    def read(
        self, keys: Iterable[PartitionKey] | None = None
    ) -> dict[PartitionKey, PartitionState]:
        """The rows as `look` has them; raises CorruptLog where one of them is refused."""
        return self.look(keys).trusted().by_key

    def look(self, keys: Iterable[PartitionKey] | None = None) -> RowsRead:
        """The rows of the partitions named, or of all; a partition never claimed has none.

        A row that cannot be true is among the refused, and is its partition's trouble alone: one
        must not take such a partition for one that was never claimed.
        Reading makes nothing: a tier without a catalog has no rows, and still no catalog.
        """
        if keys is None:
            return rows_read(self._table.read(), where=self._table.uri)
        # Not by name: whether a topic of another name has its id is for the caller to see.
        named = {row_id_of(key) for key in keys}
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
        row_id = row_id_of(key)
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

    def clean_up(self, *, is_dry_run: bool = False) -> int:
        """Delete the files of rows superseded for thirty days; how many there were.

        Every run writes all its rows anew, so that without it the catalog only grows. `history`
        ends where they are gone.
        """
        return self._table.clean_up(is_dry_run=is_dry_run)

    def _states(self, rows: pa.Table) -> dict[PartitionKey, PartitionState]:
        return rows_judged(rows, where=self._table.uri).trusted().by_key

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
            ClaimAttempt(
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
        return self._settle([CommitAttempt(proposal=proposal) for proposal in proposals])

    def resolve(
        self, proposals: Sequence[CommitProposal]
    ) -> dict[PartitionKey, Outcome | None]:
        """How commits that ended `Unknown` have really ended, by reading back; nothing is written.

        None: the row is still the one proposed on. That settles nothing, for the write may arrive
        late; a claim, which opens a newer epoch, shuts it out. `Unknown`: it took place and cannot
        be made durable, or took place so long ago, if at all, that the table has forgotten.
        """
        attempts = {row_id_of(each.key): CommitAttempt(proposal=each) for each in proposals}
        ended = self._ended(attempts)
        return {proposal.key: ended.get(proposal.key) for proposal in proposals}

    def _settle(self, attempts: Sequence[Attempt]) -> dict[PartitionKey, Outcome]:
        """Write what the rows allow until each attempt has ended."""
        pending = {row_id_of(attempt.key): attempt for attempt in attempts}
        if len(pending) < len(attempts):
            raise ValueError("one call writes a partition once")
        ended: dict[PartitionKey, Outcome] = {}
        for number in range(ATTEMPTS):
            if not pending:
                return ended
            ended |= self._tried(pending, is_again=number > 0)
            pending = {each: of for each, of in pending.items() if of.key not in ended}
        return ended | self._outrun(pending)

    def _tried(
        self, pending: Mapping[RowId, Attempt], *, is_again: bool
    ) -> dict[PartitionKey, Outcome]:
        """One write of all that the rows allow; what is missing in the answer met a conflict.

        That may be a conflict with itself: a store's client that repeats a write whose answer it
        has lost is refused the second time. So who tries again and seems lost asks the past, too.
        """
        version = self._table.newest()
        rows = rows_as_promised(version.read(_buckets_of(pending)), where=self._table.uri)
        found = by_row_id(self._states(_rows_of(rows, pending)).values())
        ended = outcomes_of(pending, found)
        if is_again:
            ended |= self._told_by_the_past(overlaid(pending, ended))
        ended = self._durable(ended)
        free = {each: of for each, of in pending.items() if of.key not in ended}
        if not free:
            return ended
        rows = _with_next(rows, free, found)
        try:
            is_written = version.replace(_buckets_of(free), rows)
        except (UnreadableObject, CorruptLog) as error:
            return ended | self._read_back(free, cause=str(error))
        return ended | {each.key: each.success for each in free.values() if is_written}

    def _outrun(self, pending: Mapping[RowId, Attempt]) -> dict[PartitionKey, Outcome]:
        """Others were faster every time, though not on these rows, or `_tried` had said so."""
        rows = by_row_id(self.read(partition.key for partition in pending.values()).values())
        found = {each.key: rows.get(row_id) for row_id, each in pending.items()}
        return {
            key: LostRace(found_commit_id="" if row is None else row.commit_id)
            for key, row in found.items()
        }

    def _read_back(
        self, pending: Mapping[RowId, Attempt], *, cause: str
    ) -> dict[PartitionKey, Outcome]:
        """After a write without an answer: the rows may tell, else nobody knows."""
        unknown = {
            partition.key: Unknown(commit_id=partition.success.commit_id, cause=cause)
            for partition in pending.values()
        }
        try:
            ended = self._ended(pending)
        except (UnreadableObject, CorruptLog):
            return {**unknown}
        untraced = {key: replace(each, is_untraced=True) for key, each in unknown.items()}
        return untraced | ended

    def _ended(self, attempts: Mapping[RowId, Attempt]) -> dict[PartitionKey, Outcome]:
        """How those have ended, after a write, that the rows end or the past beneath them."""
        rows = by_row_id(self.read(attempt.key for attempt in attempts.values()).values())
        ended = outcomes_of(attempts, rows)
        return self._durable(ended | self._told_by_the_past(overlaid(attempts, ended)))

    def _durable(self, ended: dict[PartitionKey, Outcome]) -> dict[PartitionKey, Outcome]:
        """What took place by what was read is `Committed` once that is durable, else `Unknown`."""
        took_place = {key: each for key, each in ended.items() if isinstance(each, Committed)}
        if not took_place:
            return ended
        try:
            self._table.sync()
        except (UnreadableObject, CorruptLog) as error:
            return ended | {
                key: Unknown(commit_id=each.commit_id, cause=str(error))
                for key, each in took_place.items()
            }
        return ended

    def _told_by_the_past(self, lost: Mapping[RowId, Attempt]) -> dict[PartitionKey, Outcome]:
        """Those of the attempts that took place all the same, by the table's versions.

        `Unknown` are those that the versions that can still be read say nothing about.
        """
        sought = dict(lost)
        found: dict[PartitionKey, Outcome] = {}
        versions = self._table.past(_buckets_of(lost)) if lost else ()
        for past in versions:
            rows = rows_as_promised(past, where=self._table.uri)
            commit_ids = dict(zip(_ids_of(rows), rows["commit_id"].to_pylist(), strict=True))
            for row_id, each in tuple(sought.items()):
                commit_id = commit_ids.get(row_id, "")
                if commit_id == each.success.commit_id:
                    found[each.key] = each.success
                if commit_id in {each.success.commit_id, each.made_on, ""}:
                    del sought[row_id]
            if not sought:
                break
        return found | {
            each.key: Unknown(commit_id=each.success.commit_id, cause=self._forgotten)
            for each in sought.values()
        }

    @property
    def _forgotten(self) -> str:
        return f"{self._table.uri}: the table has forgotten the version that it was made on"


def new_commit_id() -> str:
    """An id for a claim or a commit; never made twice."""
    return str(uuid.uuid4())


def _with_next(
    rows: pa.Table, pending: Mapping[RowId, Attempt], found: Mapping[RowId, PartitionState]
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


def _rows_of(rows: pa.Table, ids: Container[RowId]) -> pa.Table:
    return rows.filter(pa.array([each in ids for each in _ids_of(rows)], pa.bool_()))


def _ids_of(rows: pa.Table) -> Iterator[RowId]:
    return zip(rows["topic_id"].to_pylist(), rows["partition"].to_pylist(), strict=True)


def _buckets_of(ids: Iterable[RowId]) -> str:
    """The predicate of a few literals that names their buckets, whatever the number of rows."""
    buckets = sorted({bucket_of(topic_id) for topic_id, _ in ids})
    return f"bucket IN ({', '.join(map(str, buckets))})"
