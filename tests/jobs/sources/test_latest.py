"""For every strategy, the newest record of each key is the one that a dictionary keeps."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tests.jobs.commands import tierfold
from tests.jobs.segment_rows_expected import EPOCH, expected_rows
from tests.jobs.tiers import (
    SAMPLE,
    folder_of,
    key_of,
    made_tier,
    put_segment,
    sample_copy,
    updated_tier,
)
from tests.scratch import SCRATCH
from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import EVERYTHING, Scope
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.sources.latest import latest_records, records
from tierfold.jobs.sources.segment_columns import USUAL_COLUMNS
from tierfold.jobs.sources.segment_options import schema_of
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft

STRATEGIES: Final = ("offset", "timestamp", "header")
CONFIG: Final = "".join(
    f'[topics."by-{name}"]\n"cleanup.policy" = "compact"\n"compaction.strategy" = "{name}"\n'
    '"compaction.strategy.header" = "version"\n'
    for name in STRATEGIES
)
COMPACT: Final = ("--set", "tier.binding=detached", "--engine", "local")
PLACE: Final = ("topic", "partition", "offset", "key", "value")

numbers = st.integers(-2, 2)
versions = st.one_of(numbers.map(struct.Struct(">q").pack), st.sampled_from([b"", b"7", None]))
headers = st.lists(st.tuples(st.sampled_from([b"version", b"other"]), versions), max_size=3)
drafts = st.builds(
    RecordDraft,
    offset=st.just(0),
    timestamp_ms=st.integers(-1, 3),
    key=st.sampled_from([b"a", b"b", b"c", None]),
    value=st.sampled_from([b"x", b"y", b"", None]),
    headers=headers.map(tuple),
)


def latest(spark: SparkSession, tier: Path, config: Path | None, *columns: str) -> DataFrame:
    return latest_records(
        spark, run_context(str(tier)), resolve((), config), EVERYTHING, columns or USUAL_COLUMNS
    )


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    found = (tuple(row) for row in frame.select(*PLACE).collect())
    return sorted((*row[:3], *(_bytes(one) for one in row[3:])) for row in found)


def _bytes(content: bytearray | None) -> bytes | None:
    return None if content is None else bytes(content)


def rank(strategy: str, record: RecordDraft) -> tuple[bool, int]:
    """Whether the record has a version, and the version; the offset decides between equal ones."""
    if strategy == "offset":
        return True, 0
    if strategy == "timestamp":
        return True, record.timestamp_ms
    named = [value for name, value in record.headers if name == b"version"]
    is_version = bool(named) and named[-1] is not None and len(named[-1]) == 8
    return is_version, struct.unpack(">q", named[-1] or b"")[0] if is_version else 0


def model(strategy: str, log: Sequence[RecordDraft]) -> list[tuple[Any, ...]]:
    """Offset, key and value of each key's latest record, without tombstones; in offset order."""
    kept: dict[bytes, RecordDraft] = {}
    for record in log:
        if record.key is not None:
            other = kept.get(record.key, record)
            if rank(strategy, record) >= rank(strategy, other):
                kept[record.key] = record
    stay = (record for record in kept.values() if record.value is not None)
    return sorted((record.offset, record.key, record.value) for record in stay)


def a_log(found: Sequence[RecordDraft]) -> list[RecordDraft]:
    return [replace(record, offset=offset) for offset, record in enumerate(found)]


@settings(max_examples=2)
@given(found=st.lists(st.lists(drafts, min_size=2, max_size=25), min_size=6, max_size=6))
def test_any_log_has_the_newest_of_each_key_before_and_after_it_is_compacted(
    spark: SparkSession, found: list[list[RecordDraft]]
) -> None:
    logs = [a_log(one) for one in found]  # One per partition of each topic.
    expected = sorted(
        (f"by-{strategy}", number, *row)
        for number, log in enumerate(logs)
        for strategy in STRATEGIES
        for row in model(strategy, log)
    )
    with TemporaryDirectory(dir=SCRATCH) as folder:
        tier, config = made_tier(Path(folder) / "tier"), Path(folder) / "tierfold.toml"
        config.write_text(CONFIG)
        for strategy, (number, log) in product(STRATEGIES, enumerate(logs)):
            for part in (log[: len(log) // 2], log[len(log) // 2 :]):
                start = part[0].offset
                batch = BatchDraft(base_offset=start, records=tuple(part), leader_epoch=3)
                put_segment(tier, key_of(f"by-{strategy}", number), [batch], start_offset=start)
        assert rows(latest(spark, tier, config)) == expected
        ran = tierfold("compact", tier, "--config", config, *COMPACT, "--json")
        assert [entry["outcome"] for entry in ran.entries] == ["compacted"] * 18
        assert rows(latest(spark, tier, config)) == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_sample_has_the_newest_of_each_key(spark: SparkSession, strategy: str) -> None:
    logs = sorted(SAMPLE.glob("kafka-tiered-storage/*/*.log"))
    committed = expected_rows("tiered", 0, logs, is_committed=True)
    found = (
        RecordDraft(
            offset=offset,
            timestamp_ms=round((time - EPOCH).total_seconds() * 1000),
            key=_bytes(key),
            value=_bytes(value),
            headers=tuple((name.encode(), _bytes(content)) for name, content in headers or ()),
        )
        for _, _, offset, time, key, value, headers, _ in committed
    )
    expected = [("tiered", 0, *row) for row in model(strategy, list(found))]
    set_to = [f"compaction.strategy={strategy}", "compaction.strategy.header=version"]
    newest = latest_records(spark, run_context(str(SAMPLE)), resolve(set_to), EVERYTHING)
    assert newest.schema == schema_of(USUAL_COLUMNS)
    assert rows(newest) == expected
    assert len(expected) > 500


def test_values_that_are_not_selected_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    tier = made_tier(tmp_path)
    batch = [
        RecordDraft(offset=i, timestamp_ms=i, key=b"%d" % (i // 2), value=v)
        for i, v in enumerate([b"x", None, None, b"y"])
    ]
    put_segment(
        tier,
        key_of("orders"),
        [BatchDraft(base_offset=0, records=tuple(batch), leader_epoch=3)],
        start_offset=0,
    )
    found = latest(spark, tier, None, "offset")
    assert found.columns == ["offset"]
    assert [row["offset"] for row in found.collect()] == [3]
    scan = found._jdf.queryExecution().optimizedPlan().toString().splitlines()[-1]
    assert "value_digest" in scan
    assert "value#" not in scan


def test_all_records_are_read_by_their_topics_strategy(spark: SparkSession, tmp_path: Path) -> None:
    keys = [key_of(f"by-{strategy}") for strategy in STRATEGIES]
    tier, config = updated_tier(tmp_path / "tier", keys, segments=1), tmp_path / "tierfold.toml"
    config.write_text(CONFIG)
    columns = ("topic", "offset", "version")
    found = records(spark, run_context(str(tier)), resolve((), config), EVERYTHING, columns)
    first = {row["topic"]: row["version"] for row in found.where("offset = 5").collect()}
    assert first == {"by-offset": 5, "by-timestamp": 1_700_000_000_005, "by-header": None}
    assert found.count() == 3 * 11


def test_only_partitions_in_scope_are_read(spark: SparkSession, tmp_path: Path) -> None:
    keys = [key_of("orders", 0), key_of("orders", 1), key_of("payments")]
    tier = updated_tier(tmp_path, keys, segments=1)
    chosen = (run_context(str(tier)), resolve(()), Scope(topics=("ord*",), partitions=("1",)))
    for found in (records(spark, *chosen), latest_records(spark, *chosen)):
        places = {(row["topic"], row["partition"]) for row in found.collect()}
        assert places == {("orders", 1)}
    none = Scope(topics=("x*",))
    for read in (records, latest_records):
        empty = read(spark, run_context(str(tier)), resolve(()), none, ("key", "offset"))
        assert (empty.collect(), empty.columns) == ([], ["key", "offset"])


def test_a_wrong_topic_or_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    context = run_context(str(sample_copy(tmp_path)))
    for read in (records, latest_records):
        with pytest.raises(BadSettings, match="topic order: no topic has that name"):
            read(spark, context, resolve(()), Scope(topics=("order",)))
        with pytest.raises(BadSettings, match="there is no column 'colour'"):
            read(spark, context, resolve(()), EVERYTHING, ("colour",))


def test_topics_that_had_the_same_name_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    keys = [key_of("orders"), key_of("orders", incarnation=1), key_of("payments")]
    tier = updated_tier(tmp_path, keys, segments=1)
    said = "orders-0 is a partition of 2 topics that had this name"
    with pytest.raises(BadSettings, match=f"{said}.* Move the folder of the deleted topic out"):
        latest(spark, tier, None)
    context, others = run_context(str(tier)), Scope(topics=("pay*",))
    assert latest_records(spark, context, resolve(()), others).count() == 6
    assert records(spark, context, resolve(()), EVERYTHING).count() == 3 * 11
    folder_of(tier, keys[1]).rename(tmp_path / "moved")
    assert latest_records(spark, run_context(str(tier)), resolve(()), EVERYTHING).count() == 2 * 6
