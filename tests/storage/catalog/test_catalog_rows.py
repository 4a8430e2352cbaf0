"""Partition states survive the round trip through catalog rows; malformed rows are refused."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import KEY, a_chain, a_state, cleaned_to, retired, segment_id
from tierfold.compaction.model.errors import BadSettings, CorruptLog
from tierfold.compaction.model.origins import UPLOADED, Compacted, Copied
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.model.segment_ids import KAFKA_UUID_PATTERN
from tierfold.compaction.model.segments import (
    CleanerOffset,
    LeaderEpoch,
    PartitionKey,
    PartitionState,
    RetiredSegment,
    Segment,
)
from tierfold.compaction.model.serving import (
    Consent,
    ConsentKind,
    LocalRange,
    Pass,
    ServingCluster,
)
from tierfold.compaction.model.strategies import strategy_name
from tierfold.storage.catalog.rows import rows_read, table_of
from tierfold.storage.catalog.schema import (
    CLEANER_OFFSET,
    CONSENT,
    FORMAT_VERSION,
    FORMATS_READ,
    LEADER_EPOCH,
    LOCAL_RANGE,
    PARTITIONS,
    PASS,
    RETIRED_SEGMENT,
    RUNS,
    RUNS_RENAMED,
    SEGMENT,
    SERVING_CLUSTER,
    RunRow,
)
from tierfold.storage.kafka.topic_names import TOPIC_PATTERN, is_topic

LONG = st.integers(-(2**63), 2**63 - 1)
NUMBER = st.integers(0, 2**63 - 1)
SIZE = st.integers(0, 2**31)
KAFKA_ID = st.from_regex(KAFKA_UUID_PATTERN, fullmatch=True)
RUN = st.text("azAZ09._-:+", max_size=5)
STRATEGY = st.sampled_from(("offset", "timestamp")) | st.text(min_size=1).map(
    lambda header: strategy_name(
        Rules(compaction_strategy=CompactionStrategy.HEADER, compaction_strategy_header=header)
    )
)
LEADER_EPOCHS = st.lists(
    st.builds(LeaderEpoch, epoch=st.integers(0, 2**31 - 1), start_offset=NUMBER), max_size=3
).map(tuple)
CLEANER_OFFSETS = st.lists(
    st.builds(CleanerOffset, epoch=NUMBER, offset=NUMBER), max_size=3
).map(tuple)
SPANS = st.tuples(NUMBER, NUMBER).map(sorted)
SEGMENTS = st.builds(
    lambda span, **fields: Segment(start_offset=span[0], end_offset=span[1], **fields),
    span=SPANS,
    segment_id=KAFKA_ID,
    size_bytes=SIZE,
    offset_index_bytes=SIZE,
    time_index_bytes=SIZE,
    max_timestamp_ms=LONG,
    leader_epochs=LEADER_EPOCHS,
    has_transaction_index=st.booleans(),
    first_timestamp_ms=LONG,
    earliest_due_ms=st.none() | LONG,
    cleaner_offsets=CLEANER_OFFSETS,
    leader_cleaner_offsets=CLEANER_OFFSETS,
    origin=st.just(UPLOADED)
    | st.builds(Compacted, RUN.filter(bool))
    | st.builds(Copied, run=RUN.filter(bool), copy_of=KAFKA_ID, upload=st.just("") | KAFKA_ID),
    skipped_bytes=SIZE,
    agrees_with=st.lists(KAFKA_ID, max_size=2).map(tuple),
    stored_log_bytes=st.none() | SIZE,
    stored_indexes_bytes=st.none() | SIZE,
    records_max_timestamp_ms=st.none() | LONG,
)


def chained(segments: list[Segment]) -> tuple[Segment, ...]:
    """Consecutive segments, as many, of some bytes each."""
    return tuple(
        replace(
            segment,
            start_offset=at,
            end_offset=at,
            size_bytes=segment.size_bytes + 1,
            skipped_offsets=at % 3,
        )
        for at, segment in enumerate(segments, start=7)
    )


def has_each_id_once(state: PartitionState) -> bool:
    ids = [segment.segment_id for segment in state.named_segments]
    return len(set(ids)) == len(ids)


SERVING_CLUSTERS = st.builds(
    ServingCluster,
    cluster_id=KAFKA_ID,
    metadata_topic_id=KAFKA_ID,
    metadata_partitions=st.integers(0, 2**31 - 1),
    place=st.text(),
)
PASSES = st.builds(
    Pass,
    epoch=NUMBER,
    horizon_ms=st.none() | LONG,
    published_at_ms=st.none() | LONG,
    has_spared=st.booleans(),
)
CONSENTS = st.builds(
    Consent,
    kind=st.sampled_from(ConsentKind),
    given_at_ms=LONG,
    run=RUN,
    segment_ids=st.lists(KAFKA_ID, max_size=2).map(tuple),
)
STATES = st.builds(
    PartitionState,
    key=st.builds(
        PartitionKey,
        topic=st.from_regex(TOPIC_PATTERN, fullmatch=True).filter(is_topic),
        partition=st.integers(0, 2**31 - 1),
        topic_id=KAFKA_ID,
    ),
    epoch=st.integers(1, 2**63 - 1),
    owner_run=RUN,
    cleaner_offsets=CLEANER_OFFSETS,
    log_start_offset=NUMBER,
    segments=st.lists(SEGMENTS, max_size=3).map(chained),
    lineage=LEADER_EPOCHS,
    retired=st.lists(
        st.builds(
            RetiredSegment,
            segment=SEGMENTS,
            retired_at_ms=LONG,
            retired_by_epoch=NUMBER,
            retired_by_run=RUN,
        ),
        max_size=2,
    ).map(tuple),
    commit_id=st.text(min_size=1, max_size=5),
    committed_at_ms=LONG,
    strategies=st.lists(STRATEGY, max_size=3).map(tuple),
    forgotten=st.lists(KAFKA_ID, max_size=2).map(tuple),
    served_by=st.lists(SERVING_CLUSTERS, max_size=1).map(tuple),
    passes=st.lists(PASSES, max_size=2).map(tuple),
    local_ranges=st.lists(st.builds(LocalRange, end_offset=NUMBER, until_ms=LONG)).map(tuple),
    local_retention_ms=st.none() | LONG,
    consents=st.lists(CONSENTS, max_size=2).map(tuple),
    has_dropped=st.booleans(),
).filter(has_each_id_once)


@given(
    st.lists(STATES, max_size=4, unique_by=lambda state: (state.key.topic_id, state.key.partition))
)
def test_rows_hold_what_the_states_hold(states: list[PartitionState]) -> None:
    rows = table_of(states)
    assert rows.schema.equals(PARTITIONS, check_metadata=True)
    rows.validate(full=True)
    assert rows_read(rows, where="here").states == tuple(states)
    pieces = pa.concat_tables([rows.slice(i, 1) for i in range(len(states))] or [rows])
    assert rows_read(pieces, where="here").states == tuple(states)


@pytest.mark.parametrize(
    ("columns", "model"),
    [
        (LEADER_EPOCH, LeaderEpoch),
        (CLEANER_OFFSET, CleanerOffset),
        (SEGMENT, Segment),
        (RETIRED_SEGMENT, RetiredSegment),
        (SERVING_CLUSTER, ServingCluster),
        (PASS, Pass),
        (LOCAL_RANGE, LocalRange),
        (CONSENT, Consent),
    ],
)
def test_every_field_of_a_model_has_its_column(columns: Any, model: type[Any]) -> None:
    names = {column.name for column in columns}
    if model is Segment:
        of_the_origin = {"written_by_run", "copy_of", "copied_upload"}
        assert of_the_origin <= names
        names = names - of_the_origin | {"origin"}
    assert names == {field.name for field in fields(model)}


def test_every_field_of_a_run_has_its_column() -> None:
    names = {RUNS_RENAMED.get(name, name) for name in RUNS.names}
    assert names == {field.name for field in fields(RunRow)}


def test_every_field_of_a_state_has_its_column() -> None:
    own = {field.name for field in (*fields(PartitionState), *fields(PartitionKey))} - {"key"}
    derived = {"live_bytes", "clean_bytes", "dirty_bytes", "format_version", "bucket"}
    assert set(PARTITIONS.names) == own | derived


def test_every_column_has_a_comment() -> None:
    for columns in (PARTITIONS, RUNS, SEGMENT, RETIRED_SEGMENT, LEADER_EPOCH, CLEANER_OFFSET):
        assert all(column.metadata[b"comment"] for column in columns)


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


def test_a_row_is_read_with_its_sums() -> None:
    other = replace(STATE, key=replace(KEY, partition=9), cleaner_offsets=())
    read = rows_read(table_of([STATE, other]), where="the-table")
    sums = [read.sums[state.key] for state in read.states]
    assert [(one.cleaner_offset, one.clean_bytes) for one in sums] == [(10, 1000), (None, 0)]
    assert all(one.segments is row.segments for one, row in zip(sums, read.states, strict=True))


A_ROW = replace(a_chain(10)[0], segment_id=segment_id("gone"))
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
    "another sum of clean bytes": (with_column("clean_bytes", [999]), "clean_bytes is 999"),
    "another sum of dirty bytes": (with_column("dirty_bytes", [999]), "dirty_bytes is 999"),
    "another topic's bucket": (with_column("bucket", [99]), "bucket is 99"),
    "two rows": (
        table_of([STATE, replace(STATE, key=replace(KEY, topic="renamed"))]),
        "several rows for",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_row_is_corrupt(case: str) -> None:
    rows, found = MALFORMED[case]
    with pytest.raises(CorruptLog, match=found) as caught:
        rows_read(rows, where="the-table").trusted()
    assert caught.value.where.startswith("the-table")
    assert "restore" in caught.value.remedy


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (FORMAT_VERSION + 1, "a newer tierfold wrote it: format version 6"),
        (FORMATS_READ[0] - 1, "before its first release wrote it: format version 2"),
    ],
)
def test_another_layout_is_named_before_a_missing_column(version: int, sentence: str) -> None:
    rows = with_column("format_version", [version]).drop_columns(["segments"])
    with pytest.raises(BadSettings, match=sentence):
        rows_read(rows, where="the-table").trusted()
