"""Which engine runs the stages of a verb: Spark, or this process.

An engine is a function that starts an executor for a given number of input bytes, so that a verb
with nothing to do starts none. What an engine needs is imported with it: without Spark no JVM
starts, and nothing of PySpark is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.console import Console

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.wording import spaced
from tierfold.jobs.context.run_context import RunContext

if TYPE_CHECKING:
    from tierfold.jobs.engines.stage_executor import StageExecutor

Engine: TypeAlias = "Callable[[RunContext, Console, int], StageExecutor[Any]]"
"""Starts the executor of a run that reads so many bytes; raises BadSettings if it cannot."""


def on_spark(context: RunContext, console: Console, _: int) -> StageExecutor[Any]:
    """Return an executor on the Spark session of this process, which is started if need be."""
    from tierfold.jobs.engines.spark_executor import SparkExecutor
    from tierfold.jobs.spark.session import announced_session, spark_answers

    with spark_answers():
        return SparkExecutor(announced_session(console), context.tier_uri, console)


def in_process(max_bytes: int) -> Engine:
    """Return the engine without Spark; it refuses an input of more than `max_bytes`.

    The keys of the whole input must fit into memory at once.
    """

    def start(context: RunContext, console: Console, input_bytes: int) -> StageExecutor[Any]:
        from tierfold.jobs.engines.local_executor import LocalExecutor

        if input_bytes > max_bytes:
            raise BadSettings(
                f"{spaced(input_bytes)} bytes are more than the {spaced(max_bytes)} that one"
                " process takes",
                where="--engine local",
                remedy="Use --engine spark, choose less with --topic or --max-bytes, or raise"
                " --local-max.",
            )
        return LocalExecutor(context.tier, console)

    return start
