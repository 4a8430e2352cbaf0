"""Chooses the engine that runs the stages of a verb: Spark, or this process.

An engine is a function that starts an executor for a number of input bytes, so a verb with nothing
to do starts none. Each engine imports what it needs: without Spark no JVM starts, and PySpark is
not loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.wording import spaced
from tierfold.compaction.planning.chunks import Budget, RemainingBudget, next_wave
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.jobs.context.run_context import RunContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tierfold.jobs.engines.stage_executor import StageExecutor

Engine: TypeAlias = "Callable[[RunContext, int], StageExecutor[Any]]"
"""Starts the executor of a run that reads this many bytes; raises BadSettings if it cannot."""


def on_spark(
    context: RunContext, _: int, session: SparkSession | None = None
) -> StageExecutor[Any]:
    """Return an executor on `session`, by default this process's, which is started if needed."""
    from tierfold.jobs.engines.spark_executor import SparkExecutor
    from tierfold.jobs.spark.session import announced_session, spark_answers

    with spark_answers():
        spark = announced_session(session, has_secrets=context.may_decrypt)
        return SparkExecutor(spark, context, context.progress)


def in_process(max_bytes: int) -> Engine:
    """Return the engine without Spark; it refuses an input of more than `max_bytes`."""

    def start(context: RunContext, input_bytes: int) -> StageExecutor[Any]:
        from tierfold.jobs.engines.local_executor import LocalExecutor

        check_local_max(input_bytes, max_bytes)
        opener = context.worker_opener()
        tier = context.tier.with_near(opener.near_segments(context.near_reads))
        return LocalExecutor(tier, context.progress, key_indexes=opener.key_indexes())

    return start


def check_local_max(input_bytes: int, max_bytes: int) -> None:
    """Raise BadSettings if the input exceeds the limit: all its keys must fit into memory."""
    if input_bytes > max_bytes:
        raise BadSettings(
            f"{spaced(input_bytes)} bytes of logs are more than the {spaced(max_bytes)} that one"
            " process may read",
            where="--engine local",
            remedy="Use --engine spark, choose less with --topic, or raise --local-max.",
        )


def input_bytes(due: Sequence[PartitionPlan], budget: Budget) -> int:
    """Return how many bytes of logs a run that compacts these partitions reads at most.

    The first chunk may exceed `--max-bytes`: a chunk has at least one segment.
    """
    chosen = due[: budget.max_partitions]
    source_bytes = sum(plan.compact.bytes_in for plan in chosen)
    if budget.max_bytes is not None and source_bytes > budget.max_bytes:
        first = next_wave(chosen, RemainingBudget(budget_bytes=budget.max_bytes)).chunks
        source_bytes = max(budget.max_bytes, sum(chunk.compact.bytes_in for chunk in first))
        fits = {plan.key: plan for plan in chosen if plan.compact.bytes_in <= budget.max_bytes}
        chosen = [fits.get(chunk.key, chunk) for chunk in first]
    return source_bytes + sum(map(_marker_bytes, chosen))


def _marker_bytes(plan: PartitionPlan) -> int:
    """Bytes of the segments that are read only for their transaction markers.

    A chunk that is not the last reads such segments beyond its end only while a transaction is
    open; they are not counted.
    """
    if plan.view is None:
        return 0
    end = plan.view.next_offset if plan.compact.is_last else plan.compact.next_offset
    read = (segment for segment in plan.view.segments if segment.start_offset < end)
    return sum(segment.size_bytes for segment in read) - plan.compact.bytes_in
