"""The catalog: one Delta row per partition: its live segments, and which run may change them.

A claim opens the next compaction epoch; a commit swaps segments under it. Each is one Delta commit
for all partitions of a run: the rows of their buckets are read at one version of the table, and
each row's commit id, epoch and owner decide whether it may be replaced. The write counts only if no
other commit has touched these buckets since. Otherwise the rows are read and judged again, so a
conflict on another row of the bucket refuses no attempt.
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
"""How often one call tries to write. Each conflict means that another run's commit succeeded; this
many in a row mean far more concurrent runs than intended."""


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
        """Whether a run has claimed anything here; reading creates no catalog."""
        return self._table.exists()

    def read(
        self, keys: Iterable[PartitionKey] | None = None
    ) -> dict[PartitionKey, PartitionState]:
        """The rows as `look` returns them; raises CorruptLog if one of them is refused."""
        return self.look(keys).trusted().by_key

    def look(self, keys: Iterable[PartitionKey] | None = None) -> RowsRead:
        """The rows of the given partitions, or of all; a partition never claimed has none.

        A row that cannot be true is among the refused and blocks its own partition only; do not
        take that partition for one that was never claimed.
        Reading creates nothing: a tier without a catalog has no rows, and still no catalog.
        """
        if keys is None:
            return rows_read(self._table.read(), where=self._table.uri)
        # Not by name: the caller checks whether a topic of another name has this id.
        named = {row_id_of(key) for key in keys}
        if not named:
            return RowsRead(states=(), refused={})
        rows = rows_as_promised(self._table.read(_buckets_of(named)), where=self._table.uri)
        return rows_judged(_rows_of(rows, named), where=self._table.uri)

    def history(self, key: PartitionKey) -> Iterator[PartitionState]:
        """The partition's rows, newest first, as far back as the table's versions go; lazily.

        Each claim and commit left one. The oldest is the partition's first claim, or the first
        since a person removed its row; what came before belongs to another row. The history ends
        at an older row that cannot be trusted.
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
        """Delete the files of rows superseded for thirty days; returns how many.

        Every run rewrites all its rows, so without this the catalog only grows. `history` ends
        where the files are gone.
        """
        return self._table.clean_up(is_dry_run=is_dry_run)

    def _states(self, rows: pa.Table) -> dict[PartitionKey, PartitionState]:
        return rows_judged(rows, where=self._table.uri).trusted().by_key

    def claim(
        self, states: Sequence[PartitionState], run: str, *, at_ms: int
    ) -> dict[PartitionKey, Claim]:
        """Open the next compaction epoch of all partitions in one commit.

        Args:
            states: rows as read, with newly discovered segments adopted, or new ones of epoch 0 for
                partitions never claimed. A row that has changed since is not claimed.
            run: the run that takes them over.
            at_ms: the time of the claim, epoch milliseconds.

        Raises:
            InvariantBroken: a state violates an invariant; nothing was written.
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
        """Write all proposals whose requirements hold, in one commit; the others get the reason.

        A proposal that was already written is recognised and `Committed` again.

        Raises:
            InvariantBroken: a proposal violates an invariant; nothing was written.
        """
        return self._settle([CommitAttempt(proposal=proposal) for proposal in proposals])

    def resolve(
        self, proposals: Sequence[CommitProposal]
    ) -> dict[PartitionKey, Outcome | None]:
        """The true outcomes of commits that ended `Unknown`, by reading back; nothing is written.

        None: the row is still the one that the proposal is based on. The write may yet arrive late;
        a claim, which opens a newer epoch, prevents that. `Unknown`: it took place and cannot be
        made durable, or the table no longer has the versions that would show whether it did.
        """
        attempts = {
            row_id_of(proposal.key): CommitAttempt(proposal=proposal) for proposal in proposals
        }
        ended = self._ended(attempts)
        return {proposal.key: ended.get(proposal.key) for proposal in proposals}

    def _settle(self, attempts: Sequence[Attempt]) -> dict[PartitionKey, Outcome]:
        """Write what the rows allow until every attempt has an outcome."""
        pending = {row_id_of(attempt.key): attempt for attempt in attempts}
        if len(pending) < len(attempts):
            raise ValueError("one call writes a partition once")
        ended: dict[PartitionKey, Outcome] = {}
        for number in range(ATTEMPTS):
            if not pending:
                return ended
            ended |= self._tried(pending, is_again=number > 0)
            pending = _without(pending, ended)
        return ended | self._outrun(pending)

    def _tried(
        self, pending: Mapping[RowId, Attempt], *, is_again: bool
    ) -> dict[PartitionKey, Outcome]:
        """One write of all that the rows allow; attempts missing in the result met a conflict.

        An attempt may conflict with itself: a store client that repeats a write after losing the
        answer is refused the second time. So a repeated attempt that seems lost is looked up in
        the table's older versions, too.
        """
        version = self._table.newest()
        rows = rows_as_promised(version.read(_buckets_of(pending)), where=self._table.uri)
        found = by_row_id(self._states(_rows_of(rows, pending)).values())
        ended = outcomes_of(pending, found)
        if is_again:
            ended |= self._found_in_history(overlaid(pending, ended))
        ended = self._durable(ended)
        free = _without(pending, ended)
        if not free:
            return ended
        rows = _with_next(rows, free, found)
        try:
            is_written = version.replace(_buckets_of(free), rows)
        except (UnreadableObject, CorruptLog) as error:
            return ended | self._read_back(free, cause=str(error))
        return ended | {attempt.key: attempt.success for attempt in free.values() if is_written}

    def _outrun(self, pending: Mapping[RowId, Attempt]) -> dict[PartitionKey, Outcome]:
        """Outcomes after `ATTEMPTS` conflicts, all with commits on other rows of the buckets."""
        rows = by_row_id(self.read(attempt.key for attempt in pending.values()).values())
        found = {attempt.key: rows.get(row_id) for row_id, attempt in pending.items()}
        return {
            key: LostRace(found_commit_id="" if row is None else row.commit_id)
            for key, row in found.items()
        }

    def _read_back(
        self, pending: Mapping[RowId, Attempt], *, cause: str
    ) -> dict[PartitionKey, Outcome]:
        """Outcomes after a write without an answer: by the rows, else `Unknown`."""
        unknown = {
            attempt.key: Unknown(commit_id=attempt.success.commit_id, cause=cause)
            for attempt in pending.values()
        }
        try:
            ended = self._ended(pending)
        except (UnreadableObject, CorruptLog):
            return {**unknown}
        untraced = {key: replace(outcome, is_untraced=True) for key, outcome in unknown.items()}
        return untraced | ended

    def _ended(self, attempts: Mapping[RowId, Attempt]) -> dict[PartitionKey, Outcome]:
        """The outcomes, after a write, that the rows or the table's older versions decide."""
        rows = by_row_id(self.read(attempt.key for attempt in attempts.values()).values())
        ended = outcomes_of(attempts, rows)
        return self._durable(ended | self._found_in_history(overlaid(attempts, ended)))

    def _durable(self, ended: dict[PartitionKey, Outcome]) -> dict[PartitionKey, Outcome]:
        """What took place stays `Committed` if the table can be made durable, else `Unknown`."""
        took_place = {
            key: outcome for key, outcome in ended.items() if isinstance(outcome, Committed)
        }
        if not took_place:
            return ended
        try:
            self._table.sync()
        except (UnreadableObject, CorruptLog) as error:
            return ended | {
                key: Unknown(commit_id=outcome.commit_id, cause=str(error))
                for key, outcome in took_place.items()
            }
        return ended

    def _found_in_history(self, lost: Mapping[RowId, Attempt]) -> dict[PartitionKey, Outcome]:
        """The lost attempts that did take place, by the table's older versions.

        `Unknown`: the versions that can still be read do not show whether it took place.
        """
        sought = dict(lost)
        found: dict[PartitionKey, Outcome] = {}
        versions = self._table.past(_buckets_of(lost)) if lost else ()
        for past in versions:
            rows = rows_as_promised(past, where=self._table.uri)
            commit_ids = dict(zip(_ids_of(rows), rows["commit_id"].to_pylist(), strict=True))
            for row_id, attempt in tuple(sought.items()):
                commit_id = commit_ids.get(row_id, "")
                if commit_id == attempt.success.commit_id:
                    found[attempt.key] = attempt.success
                if commit_id in {attempt.success.commit_id, attempt.made_on, ""}:
                    del sought[row_id]
            if not sought:
                break
        return found | {
            attempt.key: Unknown(commit_id=attempt.success.commit_id, cause=self._forgotten)
            for attempt in sought.values()
        }

    @property
    def _forgotten(self) -> str:
        return f"{self._table.uri}: the table has forgotten the version that it was made on"


def new_commit_id() -> str:
    """A new unique id for a claim or a commit."""
    return str(uuid.uuid4())


def _without(
    pending: Mapping[RowId, Attempt], ended: Container[PartitionKey]
) -> dict[RowId, Attempt]:
    return {row_id: attempt for row_id, attempt in pending.items() if attempt.key not in ended}


def _with_next(
    rows: pa.Table, pending: Mapping[RowId, Attempt], found: Mapping[RowId, PartitionState]
) -> pa.Table:
    """All rows of the written buckets: the pending ones' successors, the others as read.

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
    successors = [attempt.next_row(found.get(row_id)) for row_id, attempt in pending.items()]
    written = table_of(successors)
    _ensure_readable(written)
    return pa.concat_tables([rows.filter(pa.array(stay, pa.bool_())), written])


def _ensure_readable(rows: pa.Table) -> None:
    """Refuse to write a row that reading would refuse: it would block its partition for good."""
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    for row, found in impossible_cells(columns).items():
        raise InvariantBroken(
            found,
            where=f"{rows['topic'][row]}-{rows['partition'][row]}",
            remedy="Nothing was written. This is a bug in tierfold; please report it.",
        )


def _rows_of(rows: pa.Table, ids: Container[RowId]) -> pa.Table:
    return rows.filter(pa.array([row_id in ids for row_id in _ids_of(rows)], pa.bool_()))


def _ids_of(rows: pa.Table) -> Iterator[RowId]:
    return zip(rows["topic_id"].to_pylist(), rows["partition"].to_pylist(), strict=True)


def _buckets_of(ids: Iterable[RowId]) -> str:
    """A predicate over their buckets; it stays short, whatever the number of rows."""
    buckets = sorted({bucket_of(topic_id) for topic_id, _ in ids})
    return f"bucket IN ({', '.join(map(str, buckets))})"
