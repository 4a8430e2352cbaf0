"""A Delta table in memory, as one actor sees it: what `storage.catalog` asks of `DeltaFolder`.

Versions follow each other. A write against a version lands as the newest one, unless a version
since has touched one of the same buckets. A write that timed out is one conditional put without a
client behind it: it lands where its own next version is still free, or nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from compaction.errors import UnreadableObject
from storage.delta_tables import TableLayout
from tests.faults.simulation_scheduler import READ_FAULTS, WRITE_FAULTS, Actor, Call

COMMIT_WEIGHT: Final = 10
"""How much more often a commit goes wrong than a read: there are far fewer of them."""

_NUMBER: Final = re.compile(r"\d+")

Buckets = dict[int, pa.Table]


@dataclass(slots=True, kw_only=True)
class TableLog:
    """The versions of a table, shared by all who open it."""

    changed: Callable[[Buckets], None]
    """Called after each version, with what it wrote."""
    versions: list[Buckets] = field(default_factory=lambda: [{}])
    touched: list[frozenset[int]] = field(default_factory=lambda: [frozenset()])
    """Per version the buckets that it wrote."""

    def conflicts(self, version: int, buckets: frozenset[int]) -> bool:
        """Whether a version since has touched one of these buckets."""
        return any(buckets & touched for touched in self.touched[version + 1 :])

    def write(self, buckets: frozenset[int], rows: pa.Table) -> None:
        """The next version: these buckets anew, the others as they are."""
        split = {
            bucket: rows.filter(pa.array([each == bucket for each in rows["bucket"].to_pylist()]))
            for bucket in buckets
        }
        self.versions.append({**self.versions[-1], **split})
        self.touched.append(buckets)
        self.changed(split)


@dataclass(frozen=True, slots=True)
class VirtualVersion:
    """What `DeltaVersion` is."""

    table: VirtualTable
    version: int

    def read(self, predicate: str) -> pa.Table:
        """See `DeltaVersion.read`."""
        return self.table.rows(self.version, predicate)

    def replace(self, predicate: str, rows: pa.Table) -> bool:
        """See `DeltaVersion.replace`."""
        log, buckets = self.table.log, buckets_in(predicate)

        def put() -> bool:
            if log.conflicts(self.version, buckets):
                return False
            log.write(buckets, rows)
            return True

        def put_late() -> bool:
            return self.version + 1 == len(log.versions) and put()

        return self.table.committed(f"commit on version {self.version}", put, put_late)


class VirtualTable:
    """What `DeltaFolder` is, in one actor's hands; each call is a point."""

    def __init__(self, actor: Actor, log: TableLog, uri: str, layout: TableLayout) -> None:
        self._actor = actor
        self._layout = layout
        self.log = log
        self.uri = uri

    def read(self, predicate: str | None = None) -> pa.Table:
        """See `DeltaFolder.read`."""
        return self._asked("read rows", lambda: self._rows(-1, predicate))

    def past(self, predicate: str) -> Iterator[pa.Table]:
        """See `DeltaFolder.past`."""
        versions = self._asked("read the past", lambda: len(self.log.versions))
        buckets = buckets_in(predicate)
        for version in range(versions - 1, -1, -1):
            if version == versions - 1 or self.log.touched[version + 1] & buckets:
                yield self._rows(version, predicate)

    def newest(self) -> VirtualVersion:
        """See `DeltaFolder.newest`."""
        return self._asked("open table", lambda: VirtualVersion(self, len(self.log.versions) - 1))

    def rows(self, version: int, predicate: str) -> pa.Table:
        """The rows of a version."""
        return self._asked(f"read version {version}", lambda: self._rows(version, predicate))

    def committed(
        self, what: str, put: Callable[[], bool], put_late: Callable[[], bool]
    ) -> bool:
        """Whether a write took place, as its client is told."""
        call = Call(
            what=what,
            effect=put,
            late=put_late,
            faults=WRITE_FAULTS,
            refusal=self._refused,
            weight=COMMIT_WEIGHT,
            is_commit=True,
        )
        return bool(self._actor.do(call))

    def _rows(self, version: int, predicate: str | None) -> pa.Table:
        found = self.log.versions[version]
        buckets = found.keys() if predicate is None else buckets_in(predicate)
        parts = [found[bucket] for bucket in sorted(buckets) if bucket in found]
        return pa.concat_tables(parts) if parts else self._layout.schema.empty_table()

    def _asked(self, what: str, effect: Callable[[], Any]) -> Any:
        return self._actor.do(
            Call(what=what, effect=effect, faults=READ_FAULTS, refusal=self._refused, weight=2)
        )

    def _refused(self, cause: str) -> UnreadableObject:
        return UnreadableObject(cause, where=self.uri, remedy="Look again.")


def buckets_in(predicate: str) -> frozenset[int]:
    """The buckets that `bucket IN (…)` names."""
    return frozenset(map(int, _NUMBER.findall(predicate)))
