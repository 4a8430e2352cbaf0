"""A failure on Spark is reported as what it is: an error in Python, a dead worker, a dead JVM."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tierfold.compaction.model.errors import CorruptLog
from tierfold.jobs.sources.segment_tasks import in_one_sentence
from tierfold.jobs.spark.failures import (
    RAISED_MAX,
    SPARK_FAILURES,
    Failure,
    SparkFailure,
    cause_of,
    failure_of,
)

Batches = Iterable[pa.RecordBatch]


def failure_in(spark: SparkSession, act: Callable[[], object]) -> SparkFailure:
    """What Spark reports of a task that does this, on a worker."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        act()
        yield from batches

    with pytest.raises(SPARK_FAILURES) as failed:
        spark.range(0, 1, 1, 1).mapInArrow(run, "id long").toArrow()
    return failure_of(failed.value, spark)


def test_an_error_of_tierfold_is_quoted_whole(spark: SparkSession) -> None:
    def refuse() -> None:
        try:
            raise EOFError("an inner one")
        except EOFError as error:
            raise CorruptLog("it is torn", where="x.log", remedy="Restore it.") from error

    def refuse_without_traceback() -> None:
        with in_one_sentence():
            raise CorruptLog("it is torn", where="x.log", remedy="Restore it.")

    for act in (refuse, refuse_without_traceback):
        found = failure_in(spark, act)
        assert found.failure is Failure.TASK_REFUSED
        assert found.cause == "x.log: it is torn. Restore it."
        assert found.is_over


def test_an_error_of_python_has_its_type_and_all_its_lines(spark: SparkSession) -> None:
    def lacks_a_module() -> None:
        __import__("nonesuch")

    def many_lines() -> None:
        raise ValueError("Caused by: a.SparkException: Python worker exited unexpectedly\n\n 7")

    found = failure_in(spark, lacks_a_module)
    assert found.cause == "ModuleNotFoundError: No module named 'nonesuch'"
    assert found.failure is Failure.TASK_RAISED
    assert not found.is_over
    found = failure_in(spark, many_lines)
    assert found.failure is Failure.TASK_RAISED
    assert found.cause.startswith("ValueError: Caused by: a.SparkException: Python worker exited")


def test_a_worker_that_lacks_memory_is_not_a_dead_one(spark: SparkSession) -> None:
    def takes_all() -> None:
        bytearray(2**62)

    found = failure_in(spark, takes_all)
    assert (found.failure, found.cause) == (Failure.WORKER_LACKED_MEMORY, "MemoryError")


def test_a_dead_worker_is_one(spark: SparkSession) -> None:
    found = failure_in(spark, lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert found.failure is Failure.WORKER_DIED
    assert "Python worker exited unexpectedly" in found.cause


def test_what_java_raised_is_spark_s_own_failure(spark: SparkSession) -> None:
    with pytest.raises(SPARK_FAILURES) as failed:
        spark.range(1).select(F.raise_error(F.lit("no shelter"))).toArrow()
    found = failure_of(failed.value, spark)
    assert found.failure is Failure.SPARK_FAILED
    assert "no shelter" in found.cause


@pytest.mark.parametrize(
    ("text", "failure", "cause"),
    [
        # As a standalone cluster and YARN report it; Spark has not turned it into its own class.
        (
            "o1.getResult.\n: org.apache.spark.SparkException: Job aborted due to stage failure:"
            " Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 in stage 0.0"
            " (TID 3) (10.0.0.7 executor 1): org.apache.spark.api.python.PythonException:"
            " Traceback (most recent call last):\n"
            '  File "a.py", line 1, in run\n    tier = opener.tier()\n'
            "tierfold.compaction.model.errors.BadSettings: /t: it is missing. Mount it.\n\n"
            "\tat org.apache.spark.api.python.BasePythonRunner.a(PythonRunner.scala:1)\n"
            "Driver stacktrace:\n\tat a.b(c:1)\n",
            Failure.TASK_REFUSED,
            "/t: it is missing. Mount it.",
        ),
        # As Spark 4.0 reports it without a traceback.
        (
            "An exception was thrown from the Python worker. Please see the stack trace below.\n"
            "tierfold.compaction.model.errors.BadSettings: /t: it is missing. Mount it.\n",
            Failure.TASK_REFUSED,
            "/t: it is missing. Mount it.",
        ),
        (
            "o1.getResult.\n: a.SparkException: Job aborted due to stage failure: Lost task 1.3:"
            " ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason:"
            " Command exited with code 137\nDriver stacktrace:\n\tat a.b(c:1)\n",
            Failure.WORKER_DIED,
            "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason:"
            " Command exited with code 137",
        ),
        (
            "o1.getResult.\n: a.SparkException: Job aborted: Lost task 1.3 (TID 22):"
            " java.lang.OutOfMemoryError: Java heap space\n\tat a.b(c:1)\n",
            Failure.WORKER_DIED,
            "java.lang.OutOfMemoryError: Java heap space",
        ),
    ],
)
def test_failures_of_other_clusters(
    spark: SparkSession, text: str, failure: Failure, cause: str
) -> None:
    assert failure_of(Py4JError(text), spark) == SparkFailure(failure=failure, cause=cause)


def test_without_its_jvm_spark_has_died() -> None:
    class Dead:
        @property
        def version(self) -> str:
            raise ConnectionRefusedError(111, "no")

    dead: Any = Dead()
    found = failure_of(EOFError("Traceback (most recent call last):\nx"), dead)
    assert (found.failure, found.is_over) == (Failure.SPARK_DIED, True)


def test_a_quotation_is_short_and_has_no_secrets(spark: SparkSession) -> None:
    def fail() -> None:
        raise ValueError("s3://me:pass@x " + "y" * 2000)

    cause = failure_in(spark, fail).cause
    assert cause.startswith("ValueError: s3://[hidden]@x yyy")
    assert len(cause) == RAISED_MAX


def test_the_innermost_message_of_a_failure_is_shown() -> None:
    failure = Py4JError(
        "o1.getResult.\n: a.SparkException: Exception thrown in awaitResult: \n\tat a.b(c:1)\n"
        "Caused by: a.SparkException: Python worker exited unexpectedly.\n\tat a.b(c:1)\n"
        "Caused by: java.io.EOFException\n\tat a.b(c:1)\n"
    )
    assert cause_of(failure) == "a.SparkException: Python worker exited unexpectedly."
    assert cause_of(ConnectionRefusedError(111, "no")) == "ConnectionRefusedError(111, 'no')"
