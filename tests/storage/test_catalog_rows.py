from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.errors import BadSettings, CorruptLog
from compaction.segments import (
    CleanerOffset,
    LeaderEpoch,
    PartitionKey,
    PartitionState,
    RetiredSegment,
    Segment,
)
from storage.catalog_rows import states_of, table_of
from storage.catalog_schema import (
    CLEANER_OFFSET,
    FORMAT_VERSION,
    LEADER_EPOCH,
    PARTITIONS,
    RETIRED_SEGMENT,
    RUNS,
    SEGMENT,
)
from storage.runs_table import RunRow
from tests.compaction.builders import KEY, a_chain, a_state, cleaned_to, retired

LONG = st.integers(-(2**63), 2**63 - 1)
SIZE = st.integers(0, 2**31)
LEADER_EPOCHS = st.lists(
    st.builds(LeaderEpoch, epoch=st.integers(0, 2**31 - 1), start_offset=LONG), max_size=3
).map(tuple)
CLEANER_OFFSETS = st.lists(st.builds(CleanerOffset, epoch=LONG, offset=LONG), max_size=3).map(tuple)
SEGMENTS = st.builds(
    Segment,
    segment_id=st.text(max_size=22),
    start_offset=LONG,
    end_offset=LONG,
    size_bytes=SIZE,
    offset_index_bytes=SIZE,
    time_index_bytes=SIZE,
    max_timestamp_ms=LONG,
    leader_epochs=LEADER_EPOCHS,
    has_transaction_index=st.booleans(),
    first_timestamp_ms=LONG,
    earliest_due_ms=st.none() | LONG,
    cleaner_offsets=CLEANER_OFFSETS,
    written_by_run=st.text(max_size=5),
)
STATES = st.builds(
    PartitionState,
    key=st.builds(
        PartitionKey,
        topic=st.text(max_size=5),
        partition=st.integers(0, 2**31 - 1),
        topic_id=st.text(max_size=22),
    ),
    epoch=st.integers(1, 2**63 - 1),
    owner_run=st.text(max_size=5),
    cleaner_offsets=CLEANER_OFFSETS,
    log_start_offset=LONG,
    segments=st.lists(SEGMENTS, max_size=3).map(tuple),
    lineage=LEADER_EPOCHS,
    retired=st.lists(
        st.builds(
            RetiredSegment,
            segment=SEGMENTS,
            retired_at_ms=LONG,
            retired_by_epoch=LONG,
            retired_by_run=st.text(max_size=5),
        ),
        max_size=2,
    ).map(tuple),
    commit_id=st.text(min_size=1, max_size=5),
    committed_at_ms=LONG,
    strategies=st.lists(st.text(max_size=5), max_size=3).map(tuple),
)


@given(
    st.lists(STATES, max_size=4, unique_by=lambda state: (state.key.topic_id, state.key.partition))
)
def test_rows_say_what_the_states_said(states: list[PartitionState]) -> None:
    rows = table_of(states)
    assert rows.schema.equals(PARTITIONS, check_metadata=True)
    rows.validate(full=True)
    assert states_of(rows, where="here") == tuple(states)
    pieces = pa.concat_tables([rows.slice(each, 1) for each in range(len(states))] or [rows])
    assert states_of(pieces, where="here") == tuple(states)


@pytest.mark.parametrize(
    ("columns", "noun"),
    [
        (LEADER_EPOCH, LeaderEpoch),
        (CLEANER_OFFSET, CleanerOffset),
        (SEGMENT, Segment),
        (RETIRED_SEGMENT, RetiredSegment),
        (RUNS, RunRow),
    ],
)
def test_every_field_of_a_noun_has_its_column(columns: Any, noun: type[Any]) -> None:
    assert {each.name for each in columns} == {each.name for each in fields(noun)}


def test_every_field_of_a_state_has_its_column() -> None:
    own = {each.name for each in (*fields(PartitionState), *fields(PartitionKey))} - {"key"}
    derived = {"live_bytes", "clean_bytes", "dirty_bytes", "format_version", "bucket"}
    assert set(PARTITIONS.names) == own | derived


def test_every_column_is_explained() -> None:
    for columns in (PARTITIONS, RUNS, SEGMENT, RETIRED_SEGMENT, LEADER_EPOCH, CLEANER_OFFSET):
        assert all(each.metadata[b"comment"] for each in columns)


@pytest.mark.parametrize(
    ("cleaner_offset", "clean", "dirty"),
    [(None, 0, 3000), (0, 0, 3000), (10, 1000, 2000), (11, 2000, 1000), (30, 3000, 0)],
)
def test_sizes_are_kept_by_side_of_the_cleaner_offset(
    cleaner_offset: int | None, clean: int, dirty: int
) -> None:
    vector = () if cleaner_offset is None else cleaned_to(cleaner_offset)
    state = a_state(a_chain(10, 10, 10), cleaner_offsets=vector, retired=(retired(A_ROW),))
    (row,) = table_of([state]).to_pylist()
    assert (row["live_bytes"], row["clean_bytes"], row["dirty_bytes"]) == (3000, clean, dirty)
    assert row["format_version"] == FORMAT_VERSION


A_ROW = a_chain(10)[0]
STATE = a_state(a_chain(10, 10), epoch=1, commit_id="c", cleaner_offsets=cleaned_to(10))


def with_column(name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    rows = table_of([STATE])
    at = PARTITIONS.get_field_index(name)
    kind = kind if kind is not None else PARTITIONS.field(at).type
    return rows.set_column(at, pa.field(name, kind), pa.array(values, kind))


MALFORMED: dict[str, tuple[pa.Table, str]] = {
    "a column is missing": (table_of([STATE]).drop_columns(["lineage"]), "lineage is missing"),
    "a column is of another type": (with_column("epoch", ["x"], pa.string()), "column epoch"),
    "a null": (with_column("owner_run", [None]), "column owner_run holds nulls"),
    "a null list": (with_column("segments", [None]), "column segments holds nulls"),
    "a null element": (
        with_column("cleaner_offsets", [[None]], pa.list_(pa.struct(list(CLEANER_OFFSET)))),
        "column cleaner_offsets",
    ),
    "never claimed": (with_column("epoch", [0]), "epoch 0 and commit id 'c'"),
    "no commit id": (with_column("commit_id", [""]), "epoch 1 and commit id ''"),
    "sizes that do not add up": (with_column("live_bytes", [2001]), "its segments hold 2000"),
    "another topic's bucket": (with_column("bucket", [99]), "bucket is 99"),
    "two rows": (
        table_of([STATE, replace(STATE, key=replace(KEY, topic="renamed"))]),
        "several rows for",
    ),
}



@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_row_is_corrupt(case: str) -> None:
    rows, found = MALFORMED[case]
    with pytest.raises(CorruptLog, match=found) as told:
        states_of(rows, where="the-table")
    assert told.value.where.startswith("the-table")
    assert "restore" in told.value.remedy


def test_a_newer_layout_is_named_before_anything_is_missed() -> None:
    newer = with_column("format_version", [FORMAT_VERSION + 1]).drop_columns(["segments"])
    with pytest.raises(BadSettings, match="made by a newer tierfold: format version 4"):
        states_of(newer, where="the-table")


def test_an_older_layout_is_named_too() -> None:
    older = with_column("format_version", [FORMAT_VERSION - 1]).drop_columns(["segments"])
    with pytest.raises(BadSettings, match="from before its first release: format version 2"):
        states_of(older, where="the-table")
