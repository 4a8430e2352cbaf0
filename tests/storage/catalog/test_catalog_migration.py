"""Catalogs that lack today's columns are read and upgraded: format 3, and the first of format 4."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.compaction.builders import KEY, a_segment, cleaned_to, retired, segment_id
from tests.storage.catalog_contract import claim, fresh, keys, swap, topics
from tierfold.compaction.model.errors import BadSettings, InvariantBroken
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.rows import table_of
from tierfold.storage.catalog.schema import FORMAT_VERSION, PARTITIONS, RETIRED_SEGMENT, SEGMENT

SINCE_LAYOUTS: Final = (
    "stored_log_bytes",
    "stored_indexes_bytes",
    "copy_of",
    "copied_upload",
    "records_max_timestamp_ms",
    "leader_cleaner_offsets",
)
NEW_OF_A_SEGMENT: Final = {
    3: ("skipped_offsets", "skipped_bytes", "agrees_with", *SINCE_LAYOUTS),
    4: SINCE_LAYOUTS,
}
SINCE_SPARED: Final = (
    "spared",
    "holes",
    "served_by",
    "passes",
    "local_ranges",
    "local_retention_ms",
    "consents",
    "has_dropped",
)
NEW_OF_A_ROW: Final = {3: ("forgotten", *SINCE_SPARED), 4: SINCE_SPARED}


def old_type(kind: pa.DataType, version: int) -> pa.DataType:
    """A column's type as the first catalogs of that format had it."""
    if pa.types.is_list(kind):
        element = kind.value_field
        return pa.list_(element.with_type(old_type(element.type, version)))
    if pa.types.is_struct(kind):
        return pa.struct(old_fields(kind, NEW_OF_A_SEGMENT[version], version))
    return kind


def old_fields(fields: Iterable[pa.Field], new: Sequence[str], version: int) -> list[pa.Field]:
    kept = (field for field in fields if field.name not in new)
    return [field.with_type(old_type(field.type, version)) for field in kept]


OLD_PARTITIONS: Final = {
    version: pa.schema(old_fields(PARTITIONS, NEW_OF_A_ROW[version], version))
    for version in NEW_OF_A_ROW
}


@pytest.fixture(params=sorted(OLD_PARTITIONS))
def version(request: pytest.FixtureRequest) -> int:
    """The format of the old rows."""
    return int(request.param)


def old_rows(states: list[PartitionState], version: int) -> pa.Table:
    """What the first catalogs of that format had of these states."""
    rows = table_of(states).to_pylist()
    for row in rows:
        row["format_version"] = version
    return pa.Table.from_pylist(rows, schema=OLD_PARTITIONS[version])


def old_state(partition: int) -> PartitionState:
    """A partition compacted once: one live segment of ours, one retired, one of a broker."""
    merged = a_segment(0, 29, segment_id=segment_id("merged"), origin=Compacted("earlier"))
    return replace(
        fresh(replace(KEY, partition=partition)),
        epoch=2,
        commit_id=f"old{partition}",
        committed_at_ms=7,
        segments=(merged, a_segment(30, 39)),
        retired=(retired(a_segment(0, 29)),),
        cleaner_offsets=cleaned_to(30, epoch=2),
        has_dropped=True,  # It may have: an older tierfold did not note it.
    )


@pytest.fixture
def old(uri: str, version: int) -> list[PartitionState]:
    """Two rows of one bucket and one of another, as old catalogs had them."""
    (elsewhere,) = topics(1)
    third = replace(fresh(elsewhere), epoch=1, commit_id="x", has_dropped=True)
    states = [old_state(0), old_state(1), third]
    schema = OLD_PARTITIONS[version]
    DeltaTable.create(f"{uri}/partitions", schema=schema, partition_by=["bucket"])
    write_deltalake(f"{uri}/partitions", old_rows(states, version), mode="append")
    return states


def test_the_old_layout_is_the_new_one_without_its_columns(version: int) -> None:
    old_segment = OLD_PARTITIONS[version].field("segments").type.value_type
    assert {field.name for field in SEGMENT} - {field.name for field in old_segment} == {
        *NEW_OF_A_SEGMENT[version]
    }
    assert {*PARTITIONS.names} - {*OLD_PARTITIONS[version].names} == {*NEW_OF_A_ROW[version]}
    assert all(SEGMENT.field(name).nullable for name in NEW_OF_A_SEGMENT[version])
    assert RETIRED_SEGMENT.field("segment").type == SEGMENT


def test_rows_of_the_version_before_are_read(uri: str, old: list[PartitionState]) -> None:
    assert Catalog(uri).read() == {state.key: state for state in old}
    assert Catalog(uri).read([old[0].key]) == {old[0].key: old[0]}


def versions(uri: str) -> dict[tuple[str, int], int]:
    rows = DeltaTable(f"{uri}/partitions").to_pyarrow_table().to_pylist()
    return {(row["topic_id"], row["partition"]): row["format_version"] for row in rows}


def test_old_rows_are_claimed_and_committed_and_their_neighbours_stay(
    uri: str, old: list[PartitionState], version: int
) -> None:
    catalog = Catalog(uri)
    fingerprint = catalog.fingerprint()
    cut = a_segment(
        40,
        49,
        segment_id=segment_id("cut"),
        skipped_offsets=3,
        skipped_bytes=100,
        size_bytes=900,
        agrees_with=(segment_id(30),),
        stored_log_bytes=700,
        stored_indexes_bytes=50,
        records_max_timestamp_ms=900_000,
        leader_cleaner_offsets=cleaned_to(30, epoch=0),
    )
    grown = replace(old[0], segments=(*old[0].segments, cut))
    held = claim(catalog, grown, "a").row
    assert held.segments[-1] == cut
    assert catalog.read() == {state.key: state for state in (held, *old[1:])}
    (outcome,) = catalog.commit([swap(held, "again")]).values()
    assert isinstance(outcome, Committed)
    found = catalog.read()
    committed = found[old[0].key]
    assert [segment.segment_id for segment in committed.segments] == [segment_id("again")]
    assert [entry.segment for entry in committed.retired] == [
        old[0].retired[0].segment,
        *grown.segments,
    ]
    assert [found[state.key] for state in old[1:]] == old[1:]
    assert Catalog(uri).fingerprint() == fingerprint
    # The table has the new columns; a row gets the new format once its own partition is committed.
    assert versions(uri) == {
        (old[0].key.topic_id, 0): FORMAT_VERSION,
        (old[1].key.topic_id, 1): version,
        (old[2].key.topic_id, old[2].key.partition): version,
    }


def test_a_new_partition_joins_an_old_catalog(uri: str, old: list[PartitionState]) -> None:
    (_, _, third) = keys(3)
    state = claim(Catalog(uri), replace(fresh(third)), "a").row
    assert Catalog(uri).read() == {row.key: row for row in (*old, state)}


def test_a_first_claim_adopts_no_overlap_that_was_not_compared(uri: str) -> None:
    cut = a_segment(30, 39, segment_id=segment_id("cut"), skipped_offsets=3)
    unproven = replace(fresh(), segments=(*fresh().segments, cut))
    with pytest.raises(InvariantBroken, match=f"not compared with {segment_id(20)}"):
        claim(Catalog(uri), unproven, "a")
    proven = replace(cut, agrees_with=(segment_id(20),))
    state = replace(fresh(), segments=(*fresh().segments, proven))
    assert claim(Catalog(uri), state, "a").row.segments[-1] == proven


def test_a_forgotten_row_is_kept_as_it_is(uri: str, old: list[PartitionState]) -> None:
    forgotten = replace(fresh(keys(3)[2]), segments=(), lineage=(), forgotten=(segment_id("lost"),))
    state = claim(Catalog(uri), forgotten, "a").row
    assert state.forgotten == (segment_id("lost"),)
    assert Catalog(uri).read()[state.key] == state
    assert len(Catalog(uri).read()) == len(old) + 1


@pytest.mark.parametrize("other", [2, FORMAT_VERSION + 1])
def test_other_formats_are_refused_and_not_changed(
    uri: str, old: list[PartitionState], version: int, other: int
) -> None:
    rows = old_rows([replace(old[0], key=replace(KEY, partition=9))], version)
    at = rows.schema.get_field_index("format_version")
    rows = rows.set_column(at, rows.schema.field(at), pa.array([other], pa.int32()))
    write_deltalake(f"{uri}/partitions", rows, mode="append")
    before = DeltaTable(f"{uri}/partitions").version()
    for use in (lambda: Catalog(uri).read(), lambda: claim(Catalog(uri), old[0], "a")):
        with pytest.raises(BadSettings, match=f"format version {other}"):
            use()
    assert DeltaTable(f"{uri}/partitions").version() == before
