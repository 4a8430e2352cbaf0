"""`tierfold_status` and `tierfold_plan` of Spark SQL: a row per partition.

    SELECT * FROM tierfold_status('s3://bucket/tier')
    SELECT * FROM tierfold_plan('/mnt/tier', settings => map('cleanup.policy', 'compact'))

An executor's Python runs them and reads the tier and its catalog; no Spark is involved there. They
take the keywords of `tierfold.status` and `tierfold.plan`. Spark sends the classes by their name,
so a worker imports this module, and the verbs only when a function is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)
from pyspark.sql.udtf import UserDefinedTableFunction

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.redaction import setting_name
from tierfold.jobs.api.keywords import ClusterKeywords, ReplayKeywords
from tierfold.jobs.sources.segment_tasks import in_one_sentence

if TYPE_CHECKING:
    from tierfold.jobs.reports.result import Result

STATUS: Final = "tierfold_status"
PLAN: Final = "tierfold_plan"

_PARTITION: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "topic_id": StringType(),
    "outcome": StringType(),
    "reason": StringType(),
    "notes": ArrayType(StringType()),
    "epoch": LongType(),
}


def _columns(more: dict[str, DataType]) -> StructType:
    columns = StructType()
    for name, kind in (_PARTITION | more).items():
        columns.add(name, kind)
    return columns


STATUS_COLUMNS: Final = _columns(
    {
        "live_segments": IntegerType(),
        "live_bytes": LongType(),
        "log_start_offset": LongType(),
        "next_offset": LongType(),
        "cleaner_offset": LongType(),
        "clean_bytes": LongType(),
        "cleanable_bytes": LongType(),
        "dirty_ratio": DoubleType(),
        "retired_segments": IntegerType(),
        "retired_bytes": LongType(),
        "orphan_segments": IntegerType(),
        "orphan_bytes": LongType(),
        "owner_run": StringType(),
    }
)
"""The fields of the document of `status`.

`next_offset` follows the last live record; `dirty_ratio` is null for a partition that could not be
inspected, or that is empty.
"""

PLAN_COLUMNS: Final = _columns(
    {
        "first_dirty": LongType(),
        "next_offset": LongType(),
        "segments_in": IntegerType(),
        "segments_out": IntegerType(),
        "bytes_in": LongType(),
        "bytes_out": LongType(),
        "clean_bytes": LongType(),
        "cleanable_bytes": LongType(),
        "dirty_ratio": DoubleType(),
        "is_overdue": BooleanType(),
    }
)
"""The fields of the document of `plan`; `is_overdue`: `max.compaction.lag.ms` has passed."""


class StatusFunction:
    """The function `tierfold_status`."""

    def eval(self, tier: str, **given: Any) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - by name
        """Yield a row per partition; raises as `tierfold.status`."""
        with in_one_sentence():
            yield from _rows(STATUS, STATUS_COLUMNS, tier, given)


class PlanFunction:
    """The function `tierfold_plan`."""

    def eval(self, tier: str, **given: Any) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - by name
        """Yield a row per partition; raises as `tierfold.plan`."""
        with in_one_sentence():
            yield from _rows(PLAN, PLAN_COLUMNS, tier, given)


def register_functions(spark: SparkSession) -> None:
    """Register both functions with `spark`."""
    for name, function, columns in (
        (STATUS, StatusFunction, STATUS_COLUMNS),
        (PLAN, PlanFunction, PLAN_COLUMNS),
    ):
        # Arrow would need pandas on every worker.
        made = udtf(function, returnType=columns, useArrow=False)
        spark.udtf.register(name, cast(UserDefinedTableFunction, made))


def _rows(
    function: str, columns: StructType, tier: str | None, given: dict[str, Any]
) -> Iterator[tuple[Any, ...]]:
    if not tier:
        raise BadSettings(
            "no tier is named", where=function, remedy=f"Write {function}('s3://bucket/tier')."
        )
    # Workers have no client of Kafka.
    known = ReplayKeywords.__annotations__.keys() - ClusterKeywords.__annotations__.keys()
    unknown = sorted(given.keys() - known)
    if unknown:
        raise BadSettings(
            f"there is no argument {setting_name(unknown[0])}",
            where=function,
            remedy=f"It takes {', '.join(sorted(known))}.",
        )
    try:
        entries = _verb(function)(tier, **given).to_dict()["partitions"]
    except ModuleNotFoundError as error:
        raise BadSettings(
            f"the package {error.name}, which reads the catalog, is missing on Spark's workers",
            where=function,
            remedy=f"Call tierfold.{function.removeprefix('tierfold_')}(…) on the driver, or"
            " install tierfold on the workers; the archive of `make dist` has no catalog.",
        ) from error
    for entry in entries:
        row = entry if function == STATUS else entry | _more_of_plan(entry)
        yield tuple(row[name] for name in columns.names)


def _verb(function: str) -> Callable[..., Result[Any]]:
    """Imported at the call: a worker may lack what the verbs need."""
    from tierfold.jobs.api import reading

    return reading.status if function == STATUS else reading.plan


def _more_of_plan(entry: dict[str, Any]) -> dict[str, Any]:
    ratio = entry["ratio"] or {"clean_bytes": None, "cleanable_bytes": None, "delay_ms": 0}
    is_overdue = bool(ratio["cleanable_bytes"]) and ratio["delay_ms"] > 0
    return ratio | {"is_overdue": is_overdue} | _dirty(ratio)


def _dirty(sums: dict[str, Any]) -> dict[str, float | None]:
    cleanable = sums["cleanable_bytes"]
    total = 0 if cleanable is None else sums["clean_bytes"] + cleanable
    return {"dirty_ratio": cleanable / total if total else None}
