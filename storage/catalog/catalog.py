"""The catalog: one row per partition, with its live segments and the run that may change them.

A claim opens the next compaction epoch; a commit swaps segments under it. Either is one Delta
commit for all partitions of a run. It reads the rows of their buckets at one version of the table;
each row's commit id, epoch and owner decide whether it may be replaced. The write succeeds only if
no other commit has touched these buckets since. Otherwise the rows are read and judged again, so
that a conflict on another row of the bucket fails no attempt.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from tierfold.compaction.commits.commit import CommitProposal
from tierfold.compaction.commits.held_partition import HeldPartition
from tierfold.compaction.commits.row_changes import claimed
from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    InvariantBroken,
    UnreadableObject,
)
from tierfold.compaction.model.outcomes import Committed, LostRace, Outcome, Unknown
from tierfold.compaction.model.segment_ids import FINGERPRINT_BITS
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.storage.catalog.attempts import (
    Attempt,
    RowId,
    by_row_id,
    claim_attempt,
    commit_attempt,
    outcomes_of,
    overlaid,
    row_id_of,
)
from tierfold.storage.catalog.delta_tables import DeltaFolder, TableLayout
from tierfold.storage.catalog.rows import (
    NO_ROWS,
    RowsRead,
    impossible_rows,
    rows_as_promised,
    rows_judged,
    rows_read,
    table_of,
)
from tierfold.storage.catalog.schema import PARTITION_COLUMNS, PARTITIONS, bucket_of
from tierfold.storage.tiers.locations import Location
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

ATTEMPTS: Final = 100
"""How often one call tries to write. A conflict means that another run's commit succeeded; so many
conflicts in a row mean far more concurrent runs than intended."""

_NO_STATISTICS: Final = {"delta.dataSkippingNumIndexedCols": "0"}
"""Rows are found by their bucket alone, so statistics would only make commits longer."""


class Catalog:
    """The `partitions` table of the catalog at a path or URI, in a folder or an object store.

    Every method raises:
        UnreadableObject: the catalog exists and cannot be read.
        CorruptLog: its log or a row contradicts itself.
        BadSettings: a newer tierfold wrote it.
    """

    def __init__(
        self,
        place: Location | str,
        options: StoreOptions = ENVIRONMENT,
        *,
        open_table: Callable[[str, TableLayout], DeltaFolder] | None = None,
    ) -> None:
        layout = TableLayout(
            schema=PARTITIONS, partition_by=PARTITION_COLUMNS, properties=_NO_STATISTICS
        )
        opened = open_table or partial(DeltaFolder, options=options)
        self._table = opened(f"{str(place).rstrip('/')}/partitions", layout)

    def exists(self) -> bool:
        """Whether the table exists; the first claim creates it, reading does not."""
        return self._table.exists()

    def fingerprint(self) -> int:
        """40 bits that tell this catalog from all others; the ids of new segments bear them.

        They are the first bits of the id that Delta drew at random when the table was made, and
        keeps with it. The table must exist: a first claim has been committed.
        """
        return uuid.UUID(self._table.table_id()).int >> (128 - FINGERPRINT_BITS)

    def read(
        self, keys: Iterable[PartitionKey] | None = None
    ) -> dict[PartitionKey, PartitionState]:
        """The rows that `look` returns; raises CorruptLog if one of them is refused."""
        return self.look(keys).trusted().by_key

    def look(self, keys: Iterable[PartitionKey] | None = None) -> RowsRead:
        """The rows of the given partitions, or of all; a partition never claimed has none.

        An impossible row is among the refused, and blocks only its own partition. Do not treat that
        partition as never claimed.
        """
        if keys is None:
            return rows_read(self._table.read(), where=self._table.uri)
        # The name is ignored: the caller checks whether a topic of another name has this id.
        named = {row_id_of(key) for key in keys}
        if not named:
            return NO_ROWS
        rows = rows_as_promised(self._table.read(_buckets_of(named)), where=self._table.uri)
        return rows_judged(_rows_of(rows, named), where=self._table.uri)

    def history(self, key: PartitionKey) -> Iterator[PartitionState]:
        """Yield the partition's rows, newest first, as far back as the table's versions go.

        Each claim and commit left one. The oldest is the partition's first claim, or the first
        since a person removed its row. The history ends at an older row that is refused.
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
        """Delete the files of rows that were superseded over thirty days ago; return how many.

        Every run rewrites its rows, so without this the catalog only grows. `history` ends where
        the files are gone.
        """
        return self._table.clean_up(is_dry_run=is_dry_run)

    def _states(self, rows: pa.Table) -> dict[PartitionKey, PartitionState]:
        return rows_judged(rows, where=self._table.uri).trusted().by_key

    def claim(
        self, states: Sequence[PartitionState], run: str, *, at_ms: int
    ) -> dict[PartitionKey, HeldPartition]:
        """Open the next compaction epoch of all partitions in one commit; return how each ended.

        `states` are rows as read, with newly discovered segments adopted, or new ones of epoch 0
        for partitions never claimed. A row that has changed since is not claimed. `at_ms` is the
        time of the claim, epoch milliseconds.

        Raises InvariantBroken if a state violates an invariant; then nothing was written.
        """
        return self.exchange(states, (), run, at_ms=at_ms)[0]

    def exchange(
        self,
        states: Sequence[PartitionState],
        releases: Sequence[CommitProposal],
        run: str,
        *,
        at_ms: int,
    ) -> tuple[dict[PartitionKey, HeldPartition], dict[PartitionKey, Outcome]]:
        """Claim partitions and release others in one commit: return how each ended.

        It takes `states` as `claim` does, and `releases` as `commit` does; raises as both do.
        """
        commit_id = new_commit_id()
        after = [claimed(state, run=run, commit_id=commit_id, at_ms=at_ms) for state in states]
        claims = [claim_attempt(read, state) for read, state in zip(states, after, strict=True)]
        outcomes = self._settle([*claims, *map(commit_attempt, releases)])
        held = {row.key: HeldPartition(row=row, outcome=outcomes[row.key]) for row in after}
        return held, {release.key: outcomes[release.key] for release in releases}

    def commit(self, proposals: Sequence[CommitProposal]) -> dict[PartitionKey, Outcome]:
        """Write all proposals whose requirements hold, in one commit; return all outcomes.

        A proposal that was written before is recognised, and `Committed` again.

        Raises InvariantBroken if a proposal violates an invariant; then nothing was written.
        """
        return self._settle([commit_attempt(proposal) for proposal in proposals])

    def resolve(self, proposals: Sequence[CommitProposal]) -> dict[PartitionKey, Outcome | None]:
        """The true outcomes of commits that ended `Unknown`, read back; nothing is written.

        None: the row is still the one that the proposal is based on. The write may still arrive; a
        claim, which opens a newer epoch, prevents that. `Unknown`: the commit took place and cannot
        be made durable, or the versions that would show whether it did are gone.
        """
        attempts = {row_id_of(proposal.key): commit_attempt(proposal) for proposal in proposals}
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
        """Write once all that the rows allow; an attempt without an outcome met a conflict.

        An attempt may conflict with itself: if a store client loses the answer and repeats the
        write, the second write is refused. So a repeated attempt that seems lost is looked up in
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
        """The outcomes after `ATTEMPTS` conflicts with commits on other rows of the buckets."""
        rows = by_row_id(self.read(attempt.key for attempt in pending.values()).values())
        found = {attempt.key: rows.get(row_id) for row_id, attempt in pending.items()}
        return {
            key: LostRace(found_commit_id="" if row is None else row.commit_id)
            for key, row in found.items()
        }

    def _read_back(
        self, pending: Mapping[RowId, Attempt], *, cause: str
    ) -> dict[PartitionKey, Outcome]:
        """The outcomes after a write without an answer: as the rows show, else `Unknown`."""
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
        """The outcomes that the rows or the table's older versions show after a write."""
        rows = by_row_id(self.read(attempt.key for attempt in attempts.values()).values())
        ended = outcomes_of(attempts, rows)
        return self._durable(ended | self._found_in_history(overlaid(attempts, ended)))

    def _durable(self, ended: dict[PartitionKey, Outcome]) -> dict[PartitionKey, Outcome]:
        """Turn `Committed` into `Unknown` if the table cannot be made durable."""
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
        """The outcomes of attempts that seem lost but took place, by the table's older versions.

        `Unknown`: the versions that can still be read do not show whether one took place.
        """
        sought = dict(lost)
        found: dict[PartitionKey, Outcome] = {}
        gone = f"{self._table.uri}: the version of the table that it is based on is gone"
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
            attempt.key: Unknown(commit_id=attempt.success.commit_id, cause=gone)
            for attempt in sought.values()
        }

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
    """All rows of the written buckets: the successors of `found`, and the others unchanged.

    `rows` are of these buckets, and perhaps of more; `found` are those that `pending` replaces.
    """
    buckets = {bucket_of(topic_id) for topic_id, _ in pending}
    stay = _rows_where(
        rows,
        [
            bucket in buckets and row_id not in pending
            for bucket, row_id in zip(rows["bucket"].to_pylist(), _ids_of(rows), strict=True)
        ],
    )
    successors = [attempt.next_row(found.get(row_id)) for row_id, attempt in pending.items()]
    written = table_of(successors)
    _ensure_readable(written)
    return pa.concat_tables([stay, written])


def _ensure_readable(rows: pa.Table) -> None:
    """Refuse a row that no reader would accept: it would block its partition for good."""
    for row, found in impossible_rows(rows).items():
        raise InvariantBroken(
            found,
            where=f"{rows['topic'][row]}-{rows['partition'][row]}",
            remedy="Nothing was written. This is a bug in tierfold; please report it.",
        )


def _rows_of(rows: pa.Table, ids: Container[RowId]) -> pa.Table:
    return _rows_where(rows, [row_id in ids for row_id in _ids_of(rows)])


def _rows_where(rows: pa.Table, flags: Sequence[bool]) -> pa.Table:
    """The rows with a true flag; Arrow's filter of nested columns is slow even if it takes all."""
    if all(flags):
        return rows
    return rows.filter(pa.array(flags, pa.bool_())) if any(flags) else rows.slice(0, 0)


def _ids_of(rows: pa.Table) -> Iterator[RowId]:
    return zip(rows["topic_id"].to_pylist(), rows["partition"].to_pylist(), strict=True)


def _buckets_of(ids: Iterable[RowId]) -> str:
    """A predicate over their buckets, which is short for any number of rows."""
    buckets = sorted({bucket_of(topic_id) for topic_id, _ in ids})
    return f"bucket IN ({', '.join(map(str, buckets))})"
