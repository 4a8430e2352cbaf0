"""Invariants of a tier after a run on it was killed at any time; violations are sentences.

The catalog is read version by version: each version was the state of the tier for a while, so it
must name only complete objects, without gaps in the offsets.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
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
from tierfold.storage.catalog.rows import rows_read
from tierfold.storage.tiers.local_tiered_storage import NAMES, partition_folder
from tierfold.storage.tiers.remote_tier import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The state of a tier after a kill."""

    versions: int
    """Commits in the catalog, claims included."""
    hidden: int
    """Hidden files of unfinished objects."""
    orphans: int
    """Segments that the catalog does not name, complete or not."""
    clean_until: tuple[int, ...]
    """The partitions' cleaner offsets; 0: never compacted."""
    faults: tuple[str, ...]
    """Violations, a sentence each."""


@dataclass(slots=True, kw_only=True)
class Examiner:
    """Examines one tier repeatedly; every catalog version once."""

    written: WrittenTier
    lab: KafkaLab
    scratch: Path
    versions_seen: int = 0

    def examined(self) -> Left:
        """Run all checks; changes nothing in the tier."""
        tier = self.written.path
        faults = [*self._history(), *_verified(tier)]
        ran = tierfold("status", tier, "--json")
        entries = {_key_of(entry): entry for entry in ran.entries}
        faults += [
            f"{key}: {entry['reason']}" for key, entry in entries.items() if entry["reason"]
        ]
        if entries.keys() != self.written.truth.keys():
            faults.append(f"status ended with {ran.code} and knows {entries.keys()}")
        elif not faults:
            for key, entry in entries.items():
                faults += self._of_partition(key, entry)
        return Left(
            versions=self.versions_seen,
            hidden=len(hidden_files(tier)),
            orphans=sum(len(entry["orphans"]) for entry in ran.entries),
            clean_until=tuple(entry["cleaner_offset"] or 0 for entry in entries.values()),
            faults=tuple(faults),
        )

    def _history(self) -> Iterator[str]:
        """Check every version of the catalog since the last call."""
        versions = catalog_versions(self.written.path)
        uri = str(catalog_folder(self.written.path))
        for version in range(self.versions_seen, versions):
            rows = pa.table(DeltaTable(uri, version=version).scan())
            for state in rows_read(rows, where=uri).trusted().states:
                for fault in self._of_state(state):
                    yield f"version {version}: {state.key}: {fault}"
        self.versions_seen = versions

    def _of_state(self, state: PartitionState) -> Iterator[str]:
        at = 0
        for segment in state.segments:
            if segment.start_offset != at:
                yield f"a segment starts at {segment.start_offset}, not at {at}"
            at = segment.end_offset + 1
        if at != self.written.end_offsets[state.key]:
            yield f"it ends at {at}, not at {self.written.end_offsets[state.key]}"
        for segment in state.segments:
            yield from _incomplete(self.written.path, state.key, segment)

    def _of_partition(self, key: PartitionKey, entry: dict[str, Any]) -> Iterator[str]:
        """Check the orphans that status lists, and the records that Kafka's reader finds."""
        left = unnamed(self.written.path, key, entry)
        if left != set(entry["orphans"]):
            yield f"{key}: orphans are {left}, and status says {entry['orphans']}"
        found = self._newest(key, entry)
        expected = self.written.truth[key]
        for name in sorted(found.keys() | expected.keys()):
            if found.get(name) != expected.get(name):
                yield f"{key}: {name!r} is {found.get(name)}, and was {expected.get(name)}"
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
    """Return the files of unfinished objects, whether their writer lives or died."""
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
        yield from (fault for entry in ran.entries for fault in entry["corruptions"])


def _key_of(entry: dict[str, Any]) -> PartitionKey:
    return PartitionKey(**{name: entry[name] for name in ("topic", "partition", "topic_id")})


def newest_of(lab: KafkaLab, view: Path) -> dict[bytes, Newest]:
    """Read like a consumer of committed records: skip what the transaction indexes list."""
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
            yield f"{path.name} is not there"
        elif size is not None and path.stat().st_size != size:
            yield f"{path.name} has {path.stat().st_size} bytes, not {size}"
