"""The Spark source reads its options and columns, and refuses invalid ones clearly."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.units import OffsetSpan
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.sources.segment_columns import COLUMNS, USUAL_COLUMNS
from tierfold.jobs.sources.segment_options import (
    check_schema,
    holes_as_options,
    request_of,
    schema_of,
    store_as_options,
)
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

NAMES = tuple(COLUMNS.names)
TIER = {"path": "/tier"}


def test_only_the_tier_is_required() -> None:
    request = request_of(TIER)
    assert (request.tier_uri, request.catalog_uri, request.scope) == ("/tier", None, Scope())
    assert request.is_committed
    assert request.columns == USUAL_COLUMNS
    assert set(NAMES) - set(request.columns) == {"timestamp_ms", "value_digest", "version"}
    assert request.assigned is None
    assert not request.is_original
    assert request.versions == VersionSource()
    assert request.offsets == OffsetSpan(start=0, end=2**63 - 1)


def test_the_case_of_an_option_does_not_matter() -> None:
    request = request_of(
        {
            "PATH": "/tier",
            "catalog": "/elsewhere",
            "Topics": "orders, pay*",
            "partitions": "0,1?",
            "Isolation.Level": "read_uncommitted",
            "columns": "value, offset",
        }
    )
    assert request.catalog_uri == "/elsewhere"
    assert request.scope == Scope(topics=("orders", "pay*"), partitions=("0", "1?"))
    assert not request.is_committed
    assert schema_of(request.columns).names == ["value", "offset"]


def test_partitions_may_be_assigned_one_by_one() -> None:
    request = request_of({**TIER, "assign": '{"orders": [0, 2], "payments": [1]}'})
    assert request.assigned == {("orders", 0), ("orders", 2), ("payments", 1)}
    assert request.scope == Scope(topics=("orders", "payments"))


@pytest.mark.parametrize(
    "source",
    [
        VersionSource(strategy=CompactionStrategy.TIMESTAMP),
        VersionSource(strategy=CompactionStrategy.HEADER, header="seq"),
    ],
)
def test_the_strategy_decides_the_version(source: VersionSource) -> None:
    options = {"compaction.strategy": source.strategy.value}
    if source.header:
        options["compaction.strategy.header"] = source.header
    assert request_of({**TIER, **options}).versions == source


def test_gaps_may_be_taken_for_holes() -> None:
    assert request_of(TIER).holes_are_holes == ()
    request = request_of({**TIER, "holes.are.holes": "orders-0, pay*"})
    assert request.holes_are_holes == ("orders-0", "pay*")
    assert request_of({**TIER, **holes_as_options(request.holes_are_holes)}) == request
    assert holes_as_options(()) == {}


def test_original_segments_may_be_read() -> None:
    assert request_of({**TIER, "segments": "original"}).is_original


def test_the_store_has_the_same_options_as_in_the_settings_file() -> None:
    store = StoreOptions(
        endpoint="http://localhost:9000",
        region="eu-west-1",
        path_style=True,
        ca_file="/etc/CA.pem",
        requester_pays=False,
        kms_key_id="Key-1",
        account="Account",
        part_bytes=6 << 20,
        timeout_ms=5,
        retries=0,
        storage_class="STANDARD_IA",
    )
    options = store_as_options(store)
    assert len(options) == len(fields(StoreOptions))
    assert request_of({**TIER, **options}).store == store
    assert store_as_options(ENVIRONMENT) == {}
    assert request_of(TIER).store == ENVIRONMENT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"segments": "retired"}, "segments is 'retired'. Write live or original"),
        ({"compaction.strategy": "newest"}, "Write offset or timestamp or header"),
        ({"compaction.strategy": "header"}, "compaction.strategy.header is ''"),
        ({"compaction.strategy.header": "seq"}, "compaction.strategy is offset"),
        ({"assign": "orders"}, "assign is 'orders'"),
        ({"assign": "[]"}, "assign is '[]'"),
        ({"assign": "{}"}, "assign is '{}'"),
        ({"assign": '{"a": 0}'}, "Write JSON such as"),
        ({"assign": '{"a": [true]}'}, "Write JSON such as"),
        ({"assign": '{"a": [0]}', "topics": "a"}, "omit the options topics and"),
        ({"assign": '{"a": [0]}', "partitions": "0"}, "omit the options"),
        ({"offsets": "5"}, "offsets is '5'. Write FIRST:END, such as 12000:13000"),
        ({"offsets": "-1:5"}, "offsets is '-1:5'"),
        ({"offsets": "1:5:9"}, "offsets is '1:5:9'"),
        ({"store.colour": "x"}, "there is no option store.colour"),
        ({"store.retries": "few"}, "retries has a value that is not allowed. Give a"),
        ({"store.path.style": "maybe"}, "path.style has a value that is not"),
        ({"path": ""}, "no tier is named"),
        ({"topic": "a"}, "there is no option topic. The options are path, catalog,"),
        ({"isolation.level": "serializable"}, "Write read_committed or"),
        ({"columns": "key,payload"}, "no column 'payload'. Name each once, of"),
        ({"columns": "key,key"}, "column key is named twice"),
        ({"columns": ""}, "columns is ''"),
        ({"topics": "a,,b"}, "topics is 'a,,b'"),
    ],
)
def test_a_wrong_option_is_refused_with_a_remedy(options: dict[str, str], message: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(message)):
        request_of({**TIER, **options})


def test_a_read_without_a_path_is_refused() -> None:
    with pytest.raises(BadSettings, match="no tier is named"):
        request_of({})


def test_a_schema_may_choose_and_reorder() -> None:
    check_schema(schema_of(NAMES))
    check_schema(schema_of(("value", "offset", "headers")).add("topic", StringType(), False))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("offset", IntegerType()), "has column offset as int. Name it as bigint"),
        (StructField("key", StringType()), "has column key as string. Name it as binary, and cast"),
        (StructField("payload", BinaryType()), "there is no column 'payload'"),
        (StructField("value", BinaryType(), False), "has column value as NOT NULL"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused(field: StructField, message: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(message)):
        check_schema(StructType([field]))


def test_a_schema_without_columns_is_refused() -> None:
    with pytest.raises(BadSettings, match="To count records, read a small column"):
        check_schema(StructType([]))
