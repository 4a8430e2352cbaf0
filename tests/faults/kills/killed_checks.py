"""Invariants of a tier after a run on it was killed; each violation is a sentence.

Every version of the catalog was the tier's state for a while, so each one must name only complete
objects, without gaps in the offsets.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tests.faults.kills.killed_logs import Newest, WrittenTier
from tests.jobs.commands import tierfold
from tests.oracle.kafka_lab import KafkaLab, is_aborted
from tests.oracle.remote_views import live_segments, to_local
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.jobs.pipeline.partition_report import COMPACTED
from tierfold.storage.catalog.rows import rows_read
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.tiers.local_tiered_storage import NAMES, partition_folder
from tierfold.storage.tiers.remote_tier import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class TierState:
    """The state of a tier after a kill."""

    versions: int
    """Commits in the catalog, claims included."""
    hidden: int
    """Hidden files of unfinished objects."""
    orphans: int
    """Segments that the catalog does not name, complete or not."""
    cleaner_offsets: tuple[int, ...]
    """The partitions' cleaner offsets; 0: never compacted."""
    violations: tuple[str, ...]
    """A sentence each."""


@dataclass(slots=True, kw_only=True)
class Examiner:
    """Examines one tier repeatedly, and every version of its catalog once."""

    written: WrittenTier
    lab: KafkaLab
    scratch: Path
    versions_seen: int = 0

    def examined(self) -> TierState:
        """Run all checks; changes nothing in the tier."""
        tier = self.written.path
        violations = [*self._history(), *_verified(tier)]
        ran = tierfold("status", tier, "--json", "--segments")
        entries = {entry_key(entry): entry for entry in ran.entries}
        violations += [
            f"{key}: {entry['reason']}" for key, entry in entries.items() if entry["reason"]
        ]
        if entries.keys() != self.written.truth.keys():
            violations.append(f"status ended with {ran.code} and lists {entries.keys()}")
        elif not violations:
            for key, entry in entries.items():
                violations += self._of_partition(key, entry)
        return TierState(
            versions=self.versions_seen,
            hidden=len(hidden_files(tier)),
            orphans=sum(len(entry["orphans"]) for entry in ran.entries),
            cleaner_offsets=tuple(entry["cleaner_offset"] or 0 for entry in entries.values()),
            violations=tuple(violations),
        )

    def _history(self) -> Iterator[str]:
        """Check every version of the catalog since the last call."""
        versions = catalog_versions(self.written.path)
        uri = str(catalog_folder(self.written.path))
        for version in range(self.versions_seen, versions):
            rows = pa.table(DeltaTable(uri, version=version).scan())
            for state in rows_read(rows, where=uri).trusted().states:
                for violation in self._of_state(state):
                    yield f"version {version}: {state.key}: {violation}"
        self.versions_seen = versions

    def _of_state(self, state: PartitionState) -> Iterator[str]:
        at = 0
        for segment in state.segments:
            if segment.start_offset != at:
                yield f"a segment starts at {segment.start_offset}, not at {at}"
            at = segment.end_offset + 1
        if at != self.written.end_offsets[state.key]:
            yield f"the log ends at {at}, not at {self.written.end_offsets[state.key]}"
        for segment in state.segments:
            yield from _incomplete(self.written.path, state.key, segment)

    def _of_partition(self, key: PartitionKey, entry: dict[str, Any]) -> Iterator[str]:
        """Check the orphans that status lists, and the records that Kafka's reader finds."""
        left = unnamed(self.written.path, key, entry)
        if left != set(entry["orphans"]):
            yield f"{key}: the orphans are {left}, but status lists {entry['orphans']}"
        found = self._newest(key, entry)
        expected = self.written.truth[key]
        for name in sorted(found.keys() | expected.keys()):
            if found.get(name) != expected.get(name):
                yield f"{key}: {name!r} is {found.get(name)}, not {expected.get(name)}"
                return

    def _newest(self, key: PartitionKey, entry: dict[str, Any]) -> dict[bytes, Newest]:
        """Return the newest committed record per key, read by Kafka's own classes."""
        view = self.scratch / f"{key.topic}-{key.partition}"
        shutil.rmtree(view, ignore_errors=True)
        to_local(live_segments(entry), view)
        return newest_of(self.lab, view)


def catalog_folder(tier: Path) -> Path:
    """Return the folder of the table of live segments."""
    return tier / "_tierfold" / "partitions"


def catalog_versions(tier: Path) -> int:
    """Return the number of commits in the catalog."""
    return len(list((catalog_folder(tier) / "_delta_log").glob("*.json")))


def hidden_files(tier: Path) -> list[Path]:
    """Return the files of unfinished objects, whether or not their writer is alive."""
    return list(tier.glob("kafka-tiered-storage/*/.*"))


def unnamed(tier: Path, key: PartitionKey, status_entry: dict[str, Any]) -> set[str]:
    """Return ids of the partition's segments, complete or not, that the row does not name.

    Raises AssertionError if the row names a segment twice.
    """
    named = [segment["id"] for segment in (*status_entry["segments"], *status_entry["retired"])]
    assert len(named) == len(set(named)), named
    names = (NAMES.parse(path.name) for path in (tier / partition_folder(key)).iterdir())
    return {found[1] for found in names if found is not None} - set(named)


def _verified(tier: Path) -> Iterator[str]:
    ran = tierfold("verify", tier, "--json")
    if ran.code != 0:
        yield f"verify ended with {ran.code}: {ran.stderr}"
        yield from (corruption for entry in ran.entries for corruption in entry["corruptions"])


def entry_key(entry: dict[str, Any]) -> PartitionKey:
    """Return the key of the partition that an entry of a document describes."""
    return PartitionKey(**{name: entry[name] for name in ("topic", "partition", "topic_id")})


def must_commit_each_offset_once(
    catalog: Path, end_offsets: Mapping[PartitionKey, int]
) -> None:
    """Assert that the committed chunks of every partition follow one another, whichever run's."""
    rows = RunsTable(str(catalog)).read()
    for key, end_offset in end_offsets.items():
        at = 0
        own = [row for row in rows if (row.topic, row.partition) == (key.topic, key.partition)]
        for row in sorted(own, key=lambda row: row.first_dirty):
            if row.outcome == COMPACTED:
                assert row.first_dirty == at, row
                at = row.next_offset
        assert at == end_offset


def newest_of(lab: KafkaLab, view: Path) -> dict[bytes, Newest]:
    """Return each key's newest committed record, without those that transaction indexes list."""
    aborted = lab.side_files(view)["txnindex"]
    newest: dict[bytes, Newest] = {}
    for batch in lab.batches(view):
        assert batch["valid"], batch
        if batch["isControl"] or is_aborted(batch, aborted):
            continue
        for record in batch["records"]:
            assert record["key"] is not None
            newest[bytes.fromhex(record["key"])] = Newest(
                record["offset"], record["valueLen"], record["valueCrc32"]
            )
    return newest


def _incomplete(tier: Path, key: PartitionKey, segment: Segment) -> Iterator[str]:
    """Yield the segment's objects that are missing or differ in size from the catalog."""
    sizes: dict[Part, int | None] = {
        Part.LOG: segment.size_bytes,
        Part.OFFSET_INDEX: segment.offset_index_bytes,
        Part.TIME_INDEX: segment.time_index_bytes,
        Part.SNAPSHOT: None,
        Part.LEADER_EPOCH_CHECKPOINT: None,
    }
    if segment.has_transaction_index:
        sizes[Part.TRANSACTION_INDEX] = None
    stem = f"{segment.start_offset:020d}-{segment.segment_id}"
    for part, size in sizes.items():
        path = tier / partition_folder(key) / f"{stem}.{part.value}"
        if not path.exists():
            yield f"{path.name} is missing"
        elif size is not None and path.stat().st_size != size:
            yield f"{path.name} has {path.stat().st_size} bytes, not {size}"
