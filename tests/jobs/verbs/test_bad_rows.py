"""An invalid row of the catalog stops its own partition only, and is left unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from tests.jobs.commands import ALWAYS, status_of, tierfold, told
from tests.jobs.tiers import (
    files_below,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    made_tier,
    put_updates,
)
from tierfold.compaction.discovery.view import state_with_new
from tierfold.compaction.model.errors import CorruptLog
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.delta_tables import DeltaFolder, TableLayout
from tierfold.storage.catalog.schema import PARTITION_COLUMNS, PARTITIONS, bucket_of

WRONG: Final = key_of("orders", 0)
BESIDE: Final = key_of("orders", 1)
"""Of the same topic, and so of the same file of the table."""

Row = dict[str, Any]


def a_topic(row: Row) -> None:
    row["topic"] = "../x"


def a_segment(row: Row) -> None:
    row["segments"][1]["segment_id"] = "../../y"


def a_retired_size(row: Row) -> None:
    row["live_bytes"] += 1


def an_order(row: Row) -> None:
    row["segments"].reverse()


def a_live_one_that_is_retired(row: Row) -> None:
    gone = {"retired_at_ms": 1, "retired_by_epoch": 1, "retired_by_run": "other"}
    row["retired"] = [gone | {"segment": row["segments"][0], "deletion_started_at_ms": None}]


def raw_rows(tier: Path) -> list[Row]:
    layout = TableLayout(schema=PARTITIONS, partition_by=PARTITION_COLUMNS)
    rows = DeltaFolder(f"{tier}/_tierfold/partitions", layout).read().to_pylist()
    return sorted(rows, key=lambda row: int(row["partition"]))


def a_tier_with(folder: Path, corrupt: Any) -> Path:
    """Two claimed partitions of two segments, the first one's row corrupted by another writer."""
    tier = made_tier(folder / "tier")
    for key in (WRONG, BESIDE):
        put_updates(tier, key, 0)
        put_updates(tier, key, 1)
    context = run_context(str(tier), None, None)
    views = [surveyed.view for surveyed in survey(context, resolve(ALWAYS[1::2]), Scope())]
    context.catalog.claim([state_with_new(view) for view in views if view], "first", at_ms=1)
    rows = raw_rows(tier)
    corrupt(rows[0])
    layout = TableLayout(schema=PARTITIONS, partition_by=PARTITION_COLUMNS)
    table = DeltaFolder(f"{tier}/_tierfold/partitions", layout).newest()
    bucket = bucket_of(WRONG.topic_id)
    assert table.replace(f"bucket IN ({bucket})", pa.Table.from_pylist(rows, PARTITIONS))
    return tier


@pytest.mark.parametrize(
    ("corrupt", "words"),
    [
        (a_topic, ("topic is '../x', which is not a name that Kafka allows",)),
        (a_segment, ("segments.segment_id is '../../y'", "row orders-0")),
        (a_retired_size, ("live_bytes is", "row orders-0")),
        (an_order, ("segments_are_contiguous", "row orders-0")),
        (a_live_one_that_is_retired, ("ids_live_once: twice", "row orders-0")),
    ],
)
def test_a_row_that_cannot_be_true_stops_its_own_partition(
    tmp_path: Path, corrupt: Any, words: tuple[str, ...]
) -> None:
    tier = a_tier_with(tmp_path, corrupt)
    outside, before = files_below(tmp_path), files_below(folder_of(tier, WRONG))
    row = raw_rows(tier)[0]
    planned = tierfold("plan", tier, *ALWAYS, "--json")
    assert planned.code == 3
    assert planned.outcomes == {("orders", 0): "refused", ("orders", 1): "planned"}
    seen = status_of(tier, *ALWAYS)
    assert not told(seen["orders", 0]["reason"], *words)
    assert seen["orders", 1]["reason"] == ""
    ran = tierfold("compact", tier, *ALWAYS, "--json")
    assert ran.code == 3
    assert ran.outcomes == {("orders", 0): "refused", ("orders", 1): "compacted"}
    reason = ran.entry["reason"]
    assert not told(reason, *words, "_tierfold/partitions, row", "restore its last good version")
    verified = tierfold("verify", tier, *ALWAYS, "--json")
    assert verified.code == 3
    (fault,) = verified.entry["corruptions"]
    assert not told(fault, *words)
    assert verified.partitions["orders", 1]["corruptions"] == []
    # The commit of the other partition wrote the row back unchanged, so it can be repaired.
    assert raw_rows(tier)[0] == row
    assert files_below(folder_of(tier, WRONG)) == before
    beside = str(folder_of(tier, BESIDE).relative_to(tmp_path))
    new = files_below(tmp_path).keys() - outside.keys()
    assert [key for key in new if "_tierfold" not in key and not key.startswith(beside)] == []
    assert live_values(status_of(tier, *ALWAYS)["orders", 1]) == latest_updates(2)


def test_reading_an_invalid_row_raises(tmp_path: Path) -> None:
    catalog = Catalog(str(a_tier_with(tmp_path, a_topic) / "_tierfold"))
    for keys in (None, [WRONG], [WRONG, BESIDE]):
        with pytest.raises(CorruptLog, match=r"topic is '\.\./x'"):
            catalog.read(keys)
    assert set(catalog.read([BESIDE])) == {BESIDE}
