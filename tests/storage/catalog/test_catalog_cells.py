"""An impossible value in a row refuses that row and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pytest

from tests.compaction.builders import KEY, a_chain, a_state, cleaned_to, retired, segment_id
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.origins import Compacted, Copied
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState
from tierfold.compaction.model.serving import Consent, ConsentKind, ServingCluster
from tierfold.storage.catalog.rows import rows_read, table_of

GONE: Final = replace(a_chain(10)[0], segment_id=segment_id("gone"))
STATE: Final = a_state(a_chain(10, 10), epoch=1, commit_id="c", cleaner_offsets=cleaned_to(10))
A_SEGMENT: Final = STATE.segments[1]
A_CLUSTER: Final = ServingCluster(
    cluster_id="c",
    metadata_topic_id=A_SEGMENT.segment_id,
    metadata_partitions=50,
    place="/mnt/tier",
)
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
    "a cluster": (
        replace(STATE, served_by=(replace(A_CLUSTER, cluster_id="../c"),)),
        "served_by.cluster_id is '../c'",
    ),
    "a metadata topic": (
        replace(STATE, served_by=(replace(A_CLUSTER, metadata_topic_id="t"),)),
        "served_by.metadata_topic_id is 't'",
    ),
    "its partitions": (
        replace(STATE, served_by=(replace(A_CLUSTER, metadata_partitions=-1),)),
        "served_by.metadata_partitions is -1",
    ),
    "a consent": (
        replace(STATE, consents=(Consent(kind="to all", given_at_ms=1, run="r"),)),
        "consents.kind is 'to all'",
    ),
    "the run that took it": (
        replace(STATE, consents=(Consent(kind=ConsentKind.DETACHED, given_at_ms=1, run="a/b"),)),
        "consents.run is 'a/b'",
    ),
    "what it leaves alone": (
        replace(
            STATE,
            consents=(
                Consent(
                    kind=ConsentKind.LEFT_ALONE, given_at_ms=1, run="r", segment_ids=("../y",)
                ),
            ),
        ),
        "consents.segment_ids is '../y'",
    ),
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
        replace(STATE, retired=(retired(GONE), retired(replace(GONE, segment_id="x/../../y")))),
        "retired.segment.segment_id is 'x/../../y'",
    ),
    "who retired it": (
        replace(STATE, retired=(retired(GONE, retired_by_run="/"),)),
        "retired.retired_by_run is '/'",
    ),
    "under which epoch it was retired": (
        replace(STATE, retired=(retired(GONE, retired_by_epoch=-1),)),
        "retired.retired_by_epoch is -1",
    ),
}
SOUND: Final = tuple(
    replace(
        STATE,
        key=replace(KEY, topic="t" * 249, partition=partition),
        owner_run="r" * 249,
        retired=(retired(GONE),),
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
