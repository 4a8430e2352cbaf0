"""Partition states survive the round trip through catalog rows; malformed rows are refused."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import KEY, a_chain, a_state, cleaned_to, retired, segment_id
from tierfold.compaction.model.errors import BadSettings, CorruptLog
from tierfold.compaction.model.origins import UPLOADED, Compacted, Copied
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.model.segments import (
    CleanerOffset,
    LeaderEpoch,
    PartitionKey,
    PartitionState,
    RetiredSegment,
    Segment,
)
from tierfold.compaction.model.strategies import strategy_name
from tierfold.storage.catalog.rows import rows_read, table_of
from tierfold.storage.catalog.schema import (
    CLEANER_OFFSET,
    FORMAT_VERSION,
    FORMATS_READ,
    LEADER_EPOCH,
    PARTITIONS,
    RETIRED_SEGMENT,
    RUNS,
    RUNS_RENAMED,
    SEGMENT,
    RunRow,
)
from tierfold.storage.kafka.kafka_uuid import KAFKA_UUID_PATTERN
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
    origin=st.just(UPLOADED)
    | st.builds(Compacted, RUN.filter(bool))
    | st.builds(Copied, run=RUN.filter(bool), copy_of=KAFKA_ID, upload=st.just("") | KAFKA_ID),
    skipped_bytes=SIZE,
    agrees_with=st.lists(KAFKA_ID, max_size=2).map(tuple),
    stored_log_bytes=st.none() | SIZE,
    stored_indexes_bytes=st.none() | SIZE,
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


A_SEGMENT: Final = STATE.segments[1]
IMPOSSIBLE: dict[str, tuple[PartitionState, str]] = {
    "a topic that leaves the tier": (
        replace(STATE, key=replace(KEY, topic="../x")),
        "topic is '../x', which is not a name that Kafka allows",
    ),
    **{
        f"topic {topic!r}": (replace(STATE, key=replace(KEY, topic=topic)), "a name that Kafka")
        for topic in ("", ".", "..", "a/b", "a\nb", "a\n", "оrders", "a\0", "t" * 250, "a b")
    },
    "a topic's id": (replace(STATE, key=replace(KEY, topic_id="../../y")), "topic_id is '../../y'"),
    "a topic's id with a line after it": (
        replace(STATE, key=replace(KEY, topic_id=f"{KEY.topic_id}\n")),
        "topic_id is",
    ),
    "a partition": (replace(STATE, key=replace(KEY, partition=-1)), "partition is -1"),
    "the log's start": (replace(STATE, log_start_offset=-1), "log_start_offset is -1"),
    "a run": (replace(STATE, owner_run="../run"), "owner_run is '../run'"),
    "a run of too long a name": (replace(STATE, owner_run="r" * 250), "owner_run is 'rrr"),
    "a run that drives a terminal": (replace(STATE, owner_run="\x1b[2J"), "owner_run is"),
    "an id that agrees": (
        replace(STATE, segments=(STATE.segments[0], replace(A_SEGMENT, agrees_with=("../y",)))),
        "segments.agrees_with is '../y'",
    ),
    **{
        f"the origin, {origin}": (
            replace(STATE, segments=(STATE.segments[0], replace(A_SEGMENT, origin=origin))),
            message,
        )
        for origin, message in (
            (Compacted("a/b"), "segments.written_by_run is 'a/b'"),
            (Copied(run="r", copy_of="../y", upload=""), "segments.copy_of is '../y'"),
            (
                Copied(run="r", copy_of=A_SEGMENT.segment_id, upload="../y"),
                "segments.copied_upload is '../y'",
            ),
        )
    },
    "a forgotten id": (replace(STATE, forgotten=("../y",)), "forgotten is '../y'"),
    "a strategy": (replace(STATE, strategies=("offset", "\x1b")), "strategies is"),
    "a cleaner offset": (
        replace(STATE, cleaner_offsets=cleaned_to(-1)),
        "cleaner_offsets.offset is -1",
    ),
    "a leader epoch": (
        replace(STATE, lineage=(LeaderEpoch(epoch=-1, start_offset=0),)),
        "lineage.epoch is -1",
    ),
    **{
        f"{name} {value} of a segment": (
            replace(STATE, segments=(STATE.segments[0], replace(A_SEGMENT, **{name: value}))),
            f"segments.{name} is {value!r}",
        )
        for name, value in (
            ("segment_id", "../../y"),
            ("segment_id", A_SEGMENT.segment_id[:-1]),
            ("start_offset", -1),
            ("end_offset", A_SEGMENT.start_offset - 1),
            ("offset_index_bytes", -1),
            ("time_index_bytes", -1),
            ("skipped_bytes", -1),
            ("stored_log_bytes", -1),
            ("stored_indexes_bytes", -1),
            ("skipped_offsets", -1),
            ("skipped_offsets", A_SEGMENT.start_offset + 1),
        )
    },
    "sizes that add up, one of them negative": (
        replace(
            STATE,
            segments=tuple(
                replace(segment, size_bytes=size)
                for segment, size in zip(STATE.segments, (-1, 2001), strict=True)
            ),
        ),
        "segments.size_bytes is -1",
    ),
    "a retired segment": (
        replace(STATE, retired=(retired(A_ROW), retired(replace(A_ROW, segment_id="x/../../y")))),
        "retired.segment.segment_id is 'x/../../y'",
    ),
    "who retired it": (
        replace(STATE, retired=(retired(A_ROW, retired_by_run="/"),)),
        "retired.retired_by_run is '/'",
    ),
    "under which epoch it was retired": (
        replace(STATE, retired=(retired(A_ROW, retired_by_epoch=-1),)),
        "retired.retired_by_epoch is -1",
    ),
}
SOUND: Final = tuple(
    replace(
        STATE,
        key=replace(KEY, topic="t" * 249, partition=partition),
        owner_run="r" * 249,
        retired=(retired(A_ROW),),
    )
    for partition in (20, 21, 22)
)


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_an_impossible_value_refuses_its_row_and_no_other(case: str) -> None:
    wrong, found = IMPOSSIBLE[case]
    rows = table_of([SOUND[0], SOUND[1], wrong, SOUND[2]])
    read = rows_read(pa.concat_tables([rows.slice(0, 3), rows.slice(3)]), where="the-table")
    assert read.states == SOUND
    assert set(read.by_key) == {state.key for state in SOUND}
    ((row_id, refusal),) = read.refused.items()
    assert row_id == (wrong.key.topic_id, wrong.key.partition)
    assert found in refusal.what
    assert refusal.where.startswith("the-table, row ")
    with pytest.raises(CorruptLog, match="restore"):
        rows_read(rows.slice(1, 2), where="the-table").trusted()


def test_two_rows_of_a_partition_are_both_refused() -> None:
    twice = replace(STATE, key=replace(KEY, topic="renamed"))
    read = rows_read(table_of([STATE, SOUND[0], twice]), where="the-table")
    assert read.states == SOUND[:1]
    assert list(read.refused) == [(KEY.topic_id, KEY.partition)]
