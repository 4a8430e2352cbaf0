"""A Delta table in memory, as one actor sees it: what the catalog needs of `DeltaFolder`.

A write against a version checks which buckets later versions wrote, then creates the next version.
Other actors may act between these two steps; if the version then exists, the write checks again.
Versions below a boundary are deleted. A write that stalls for long may create such a version a
second time; no reader sees it. A write that timed out may still create its version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from tests.faults.simulation.simulation_scheduler import (
    DAY_MS,
    READ_FAULTS,
    WRITE_FAULTS,
    Actor,
    Call,
)
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.catalog import log_boundary
from tierfold.storage.catalog.delta_tables import TableLayout

COMMIT_WEIGHT: Final = 10
"""How much more often a commit fails than a read, because there are far fewer commits."""

LOG_RETENTION_MS: Final = DAY_MS
"""How long old versions are kept; the product keeps them longer, but scenarios are short."""

_NUMBER: Final = re.compile(r"\d+")

Buckets = dict[int, pa.Table]


@dataclass(slots=True, kw_only=True)
class TableLog:
    """The versions of a table; all actors share them."""

    changed: Callable[[Buckets], None]
    """Called after each new version with the buckets that it wrote."""
    now_ms: Callable[[], int]
    versions: list[Buckets] = field(default_factory=lambda: [{}])
    touched: list[frozenset[int]] = field(default_factory=lambda: [frozenset()])
    """The buckets that each version wrote."""
    written_at_ms: list[int] = field(default_factory=lambda: [0])
    boundary: int = 0
    """The lowest version to keep; raised before lower versions are deleted."""
    oldest: int = 0
    """The lowest version that exists, strays excluded."""
    strays: set[int] = field(default_factory=set)
    """Versions below `oldest` that were created a second time."""

    def conflicts(self, version: int, buckets: frozenset[int]) -> bool:
        """Whether a later version touched one of these buckets."""
        return any(buckets & touched for touched in self.touched[version + 1 :])

    def write(self, buckets: frozenset[int], rows: pa.Table) -> None:
        """Append a version that replaces these buckets."""
        numbers = rows["bucket"].to_pylist()
        # Arrow filters nested columns slowly, and most writes have one bucket.
        split = {
            bucket: rows
            if set(numbers) == {bucket}
            else rows.filter(pa.array([number == bucket for number in numbers]))
            for bucket in buckets
        }
        self.versions.append({**self.versions[-1], **split})
        self.touched.append(buckets)
        self.written_at_ms.append(self.now_ms())
        self.changed(split)

    def create(self, version: int, buckets: frozenset[int], rows: pa.Table) -> bool:
        """Create a version; return False if it exists."""
        if self.oldest <= version < len(self.versions) or version in self.strays:
            return False
        if version < self.oldest:
            self.strays.add(version)
        else:
            self.write(buckets, rows)
        return True

    def newest_expired(self) -> int:
        """Return the newest version that is past the retention period."""
        expired_at_ms = self.now_ms() - LOG_RETENTION_MS
        return max(
            (version for version, at_ms in enumerate(self.written_at_ms) if at_ms <= expired_at_ms),
            default=0,
        )

    def raise_boundary(self, version: int) -> None:
        """Allow lower versions to be deleted."""
        self.boundary = max(self.boundary, version)

    def delete_below(self, version: int) -> None:
        """Delete lower versions, strays included."""
        self.oldest = max(self.oldest, version)
        self.strays = {stray for stray in self.strays if stray >= version}


@dataclass(frozen=True, slots=True)
class VirtualVersion:
    """A `DeltaVersion` in memory."""

    table: VirtualTable
    version: int

    def read(self, predicate: str) -> pa.Table:
        """See `DeltaVersion.read`."""
        return self.table.rows(self.version, predicate)

    def replace(self, predicate: str, rows: pa.Table) -> bool:
        """See `DeltaVersion.replace`."""
        log, buckets = self.table.log, buckets_in(predicate)
        while True:
            version = self.table.next_free(self.version, buckets)
            if version is None:
                return False
            if self.table.created(version, buckets, rows):
                break
        if log_boundary.is_kept(version, self.table.boundary_read()):
            return True
        log.strays.discard(version)
        return False


class VirtualTable:
    """The `DeltaFolder` of one actor; each call is a scheduling point."""

    def __init__(self, actor: Actor, log: TableLog, uri: str, layout: TableLayout) -> None:
        self._actor = actor
        self._layout = layout
        self.log = log
        self.uri = uri

    def read(self, predicate: str | None = None) -> pa.Table:
        """See `DeltaFolder.read`."""
        return self._read("read rows", lambda: self._rows(-1, predicate))

    def past(self, predicate: str) -> Iterator[pa.Table]:
        """See `DeltaFolder.past`."""
        versions = self._read("read the past", lambda: len(self.log.versions))
        buckets = buckets_in(predicate)
        for version in range(versions - 1, self.log.oldest - 1, -1):
            if version == versions - 1 or self.log.touched[version + 1] & buckets:
                yield self._rows(version, predicate)

    def table_id(self) -> str:
        """See `DeltaFolder.table_id`; the same in every scenario."""
        return "7ab5ea04-0000-4000-8000-000000000000"

    def newest(self) -> VirtualVersion:
        """See `DeltaFolder.newest`."""
        return self._read("open table", lambda: VirtualVersion(self, len(self.log.versions) - 1))

    def rows(self, version: int, predicate: str) -> pa.Table:
        """Read the rows of a version."""
        return self._read(f"read version {version}", lambda: self._rows(version, predicate))

    def next_free(self, since: int, buckets: frozenset[int]) -> int | None:
        """Return the version to create; None: a later version wrote one of the buckets."""

        def look() -> int | None:
            if since + 1 < self.log.oldest:
                raise self._error("the versions to check against are deleted")
            return None if self.log.conflicts(since, buckets) else len(self.log.versions)

        found: int | None = self._read(f"check for conflicts since version {since}", look)
        return found

    def created(self, version: int, buckets: frozenset[int], rows: pa.Table) -> bool:
        """Create a version; return whether the store reports that it did."""
        return bool(
            self._write(
                f"create version {version}",
                lambda: self.log.create(version, buckets, rows),
                is_commit=True,
            )
        )

    def boundary_read(self) -> int:
        """Sync and read the boundary, as the product does after a write; may fail."""
        return int(self._read("sync and read the boundary", lambda: self.log.boundary))

    def sync(self) -> None:
        """See `DeltaFolder.sync`."""
        self._read("sync", lambda: None)

    def clean_up(self, *, is_dry_run: bool = False) -> int:
        """See `DeltaFolder.clean_up`: raises the boundary, then deletes old versions."""
        kept = int(self._read("look for old versions", self.log.newest_expired))
        gone = max(0, kept - self.log.oldest)
        if gone and not is_dry_run:
            self._write(f"raise the boundary to {kept}", lambda: self.log.raise_boundary(kept))
            self._write(f"delete versions below {kept}", lambda: self.log.delete_below(kept))
        return gone

    def _write(
        self, what: str, effect: Callable[[], object], *, is_commit: bool = False
    ) -> object:
        call = Call(
            what=what,
            effect=effect,
            faults=WRITE_FAULTS,
            error=self._error,
            weight=COMMIT_WEIGHT if is_commit else 1,
            is_commit=is_commit,
        )
        return self._actor.do(call)

    def _rows(self, version: int, predicate: str | None) -> pa.Table:
        found = self.log.versions[version]
        buckets = found.keys() if predicate is None else buckets_in(predicate)
        parts = [found[bucket] for bucket in sorted(buckets) if bucket in found]
        if len(parts) == 1:
            return parts[0]  # Arrow is slow to concatenate even one table.
        return pa.concat_tables(parts) if parts else self._layout.schema.empty_table()

    def _read(self, what: str, effect: Callable[[], Any]) -> Any:
        return self._actor.do(
            Call(what=what, effect=effect, faults=READ_FAULTS, error=self._error, weight=2)
        )

    def _error(self, cause: str) -> UnreadableObject:
        return UnreadableObject(cause, where=self.uri, remedy="Run again.")


def buckets_in(predicate: str) -> frozenset[int]:
    """Return the buckets that `bucket IN (…)` names."""
    return frozenset(map(int, _NUMBER.findall(predicate)))
