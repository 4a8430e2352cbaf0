"""Tiers for `vacuum`: compacted once, with orphans and uploads that dead runs left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from tests.jobs.claims import ORDERS, catalog_of, own_id_of, row_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran, tierfold
from tests.jobs.tiers import folder_of, put_updates, updated_tier
from tests.storage.new_ids import foreign_id
from tierfold.compaction.model.segments import PartitionKey

HOUR_MS: Final = 3_600_000
THEN_MS: Final = 1_800_000_000_000
"""When the tier was compacted."""

DETACHED: Final = ("--set", "tier.binding=detached")
DELETE: Final = (*DETACHED, "--set", "cleanup.policy=delete")


def compacted(folder: Path, *keys: PartitionKey, segments: int = 3) -> Path:
    """A tier whose partitions were compacted at `THEN_MS`, each into one segment."""
    updated_tier(folder, keys, segments)
    assert compact(folder).code == 0
    return folder


def compact(tier: Path, *arguments: str, hours: float = 0) -> Ran:
    """Run `compact`, `hours` after `THEN_MS`."""
    return tierfold("compact", tier, *ALWAYS, "--json", *_now(hours), *arguments)


def vacuum(tier: Path, *arguments: str, hours: float = 25) -> Ran:
    """Run `vacuum` on a detached tier, `hours` after `THEN_MS`."""
    return tierfold("vacuum", tier, "--json", *_now(hours), *DETACHED, *arguments)


def _now(hours: float) -> tuple[str, str]:
    return CLOCK, str(THEN_MS + int(hours * HOUR_MS))


def orphan(tier: Path, number: int, *, key: PartitionKey = ORDERS, hours: float = 0) -> Path:
    """Put a segment where the `number`th one of updates was, written then; return its `.log`."""
    log = put_updates(tier, key, number)
    for part in parts(log):
        written(part, hours)
    return log


def parts(log: Path) -> list[Path]:
    """Return all objects of the segment that has this `.log`."""
    return sorted(log.parent.glob(f"{log.stem}.*"))


def incomplete_upload(tier: Path, *, key: PartitionKey = ORDERS, hours: float = 0) -> Path:
    """Put the hidden file of a writer that died then: of this catalog, if there is one."""
    catalog = catalog_of(tier)
    segment_id = own_id_of(catalog) if catalog.exists() else foreign_id()
    path = folder_of(tier, key) / f".{0:020d}-{segment_id}.log.0123.staged"
    path.write_bytes(b"half")
    return written(path, hours)


def written(path: Path, hours: float) -> Path:
    """Date the file `hours` after `THEN_MS`, and return it."""
    at_s = (THEN_MS + hours * HOUR_MS) / 1000
    os.utime(path, (at_s, at_s))
    return path


def ids_in(tier: Path, key: PartitionKey = ORDERS) -> set[str]:
    """Ids of the segments that have an object in the tier."""
    return {path.name[21:43] for path in folder_of(tier, key).glob("0*")}


def live_ids(tier: Path, key: PartitionKey = ORDERS) -> set[str]:
    """Ids of the live segments, by the row."""
    return {segment.segment_id for segment in row_of(tier, key).segments}


def listed_objects(entry: dict[str, Any], **fields: Any) -> dict[str, int]:
    """The objects in a report that have these `fields`, and their bytes."""
    return {
        listed["object"]: listed["size_bytes"]
        for listed in entry["objects"]
        if fields.items() <= listed.items()
    }
