"""The functions of SQL give what the verbs give, from an executor's Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from chispa import assert_df_equality
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

import tierfold
from scripts.cluster_archive import OTHERS
from tests.jobs.archive_alone import ARCHIVE_ALONE
from tests.jobs.commands import ROOT
from tests.jobs.tiers import key_of, made_tier, put_updates
from tierfold.jobs.api.table_functions import PLAN_COLUMNS, STATUS_COLUMNS

SETTINGS: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": "0"}
SQL_SETTINGS: Final = "settings => map('cleanup.policy', 'compact', 'min.compaction.lag.ms', '0')"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    tierfold.register(spark)
    return spark


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three partitions: one compacted, with new records; one never; one refused."""
    tier = made_tier(tmp_path_factory.mktemp("functions") / "tier")
    orders = key_of("orders")
    for number in range(2):
        put_updates(tier, orders, number)
    settings = SETTINGS | {"tier.binding": "detached"}
    done = tierfold.compact(tier, settings=settings, engine="local", check=True)
    assert done.outcome == "compacted"
    put_updates(tier, orders, 2)
    put_updates(tier, key_of("orders", 1), 0)
    torn = put_updates(tier, key_of("broken"), 0)
    torn.write_bytes(torn.read_bytes()[:-1])
    return tier


def entries(result: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.to_dict(segments=True)["partitions"]
    return found


def ratio(entry: dict[str, Any]) -> float | None:
    if entry["cleanable_bytes"] is None:
        return None
    return float(entry["cleanable_bytes"] / (entry["clean_bytes"] + entry["cleanable_bytes"]))


def in_order(frame: DataFrame) -> DataFrame:
    return frame.orderBy("topic", "partition")


def test_status_is_the_verbs_document_as_columns(session: SparkSession, tier: Path) -> None:
    expected = [
        (
            *(entry[name] for name in STATUS_COLUMNS.names[:7]),
            len(entry["segments"]),
            sum(segment["size_bytes"] for segment in entry["segments"]),
            entry["log_start_offset"],
            entry["segments"][-1]["end_offset"] + 1 if entry["segments"] else None,
            entry["cleaner_offset"],
            entry["clean_bytes"],
            entry["cleanable_bytes"],
            ratio(entry),
            len(entry["retired"]),
            sum(segment["size_bytes"] for segment in entry["retired"]),
            len(entry["orphans"]),
            entry["orphan_bytes"],
            entry["owner_run"],
        )
        for entry in entries(tierfold.status(tier))
    ]
    assert [row[3] for row in expected] == ["refused", "ok", "ok"]
    found = in_order(session.sql(f"SELECT * FROM tierfold_status('{tier}')"))
    assert_df_equality(found, session.createDataFrame(expected, STATUS_COLUMNS))
    compacted = found.where("topic = 'orders' AND partition = 0").first()
    assert compacted is not None
    assert (compacted["retired_segments"], compacted["cleaner_offset"]) == (2, 22)
    assert 0 < compacted["dirty_ratio"] < 1


def test_plan_is_the_verbs_document_as_columns(session: SparkSession, tier: Path) -> None:
    overdue = {"settings": SETTINGS | {"max.compaction.lag.ms": "1"}}
    expected = []
    for entry in entries(tierfold.plan(tier, **overdue)):
        dirty = entry["ratio"] or {"clean_bytes": None, "cleanable_bytes": None}
        expected.append(
            (
                *(entry[name] for name in PLAN_COLUMNS.names[:13]),
                dirty["clean_bytes"],
                dirty["cleanable_bytes"],
                ratio(dirty),
                dirty["cleanable_bytes"] is not None,
            )
        )
    assert [row[3] for row in expected] == ["refused", "planned", "planned"]
    settings = f"{SQL_SETTINGS[:-1]}, 'max.compaction.lag.ms', '1')"
    found = in_order(session.sql(f"SELECT * FROM tierfold_plan('{tier}', {settings})"))
    assert_df_equality(found, session.createDataFrame(expected, PLAN_COLUMNS))
    usual = session.sql(f"SELECT is_overdue FROM tierfold_plan('{tier}', {SQL_SETTINGS})")
    assert {row["is_overdue"] for row in usual.collect()} == {False}


def test_arguments_are_the_keywords_of_the_verb(session: SparkSession, tier: Path) -> None:
    query = (
        f"SELECT partition, outcome FROM tierfold_plan(tier => '{tier}', {SQL_SETTINGS},"
        " topics => array('ord*'), partitions => array('1'))"
    )
    assert [tuple(row) for row in session.sql(query).collect()] == [(1, "planned")]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("NULL", "tierfold_status: no tier is named. Write tierfold_status('s3://bucket/tier')."),
        ("'{tier}', colour => 1", "there is no argument 'colour'. It takes catalog, "),
        ("'{tier}', settings => map('cleanup.policy', 'x')", "cleanup.policy cannot be 'x'. Give"),
        ("'s3://me:secret@bucket/tier'", "tier s3://…: the URI has a user"),
    ],
)
def test_a_mistake_is_one_sentence(
    session: SparkSession, tier: Path, arguments: str, sentence: str
) -> None:
    with pytest.raises(PythonException) as caught:
        session.sql(f"SELECT * FROM tierfold_status({arguments.format(tier=tier)})").collect()
    said = str(caught.value)
    assert sentence in said
    assert "Traceback" not in said
    assert "me:secret" not in said


WITHOUT_CATALOG: Final = ARCHIVE_ALONE + """
from tierfold.jobs.api.table_functions import StatusFunction
try:
    list(StatusFunction().eval(sys.argv[2]))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_worker_with_the_archive_alone_says_what_it_lacks(tier: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CATALOG, json.dumps(OTHERS), str(tier)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("BadSettings tierfold_status: the package ")
    assert "is missing on Spark's workers. Call tierfold.status(…) on the driver" in done.stdout
