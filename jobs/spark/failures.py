"""What an error of Spark means: a worker's Python raised it, a worker died, or Spark itself did."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.redaction import redacted

SPARK_FAILURES: Final = (PySparkException, Py4JError, OSError, EOFError)
"""Errors of an action; the last two mean that the JVM has died."""

CAUSE_MAX: Final = 300
"""Maximum number of characters quoted from Spark's messages."""

RAISED_MAX: Final = 1000
"""The same for what a worker's Python raised: an error of tierfold ends with what to do."""

_PYTHON: Final = re.compile(
    r".*(?:Traceback \(most recent call last\):\n|PythonException: |Python data source[a-z ]*: "
    r"|from the Python worker(?::|\. Please see the stack trace below\.)\n)",
    re.DOTALL,
)
"""What comes before the frames and the exception of Python; our data source shows no frames."""

_EXCEPTION_LINE: Final = re.compile(r"\S+(?:Exception|Error): \S.*")

_DEATH: Final = re.compile(
    r"\S*(?:Python worker exited unexpectedly|ExecutorLostFailure|OutOfMemoryError|FetchFailed).*"
)
"""What Spark says if a Python worker or an executor died, or took its results with it."""


class Failure(Enum):
    """What failed, and what to do."""

    SPARK_DIED = (
        "Spark's own process (java) has died",
        "The system's log may say why (dmesg); often memory ran out. Run again.",
    )
    WORKER_DIED = (
        "a Spark worker died, and so did each retry",
        "Its log says more; often it needs more memory, or less data at once (--topic).",
    )
    WORKER_LACKED_MEMORY = (
        "a Spark worker ran out of memory, and so did each retry",
        "Give workers more memory, or choose less data at once (--topic).",
    )
    TASK_REFUSED = ("a task on a Spark worker failed, and so did each retry", "Then run again.")
    TASK_RAISED = (
        "a task on a Spark worker failed, and so did each retry",
        "The worker's log has the traceback. If nothing is wrong with the worker's machine, this is"
        " a bug; please report it.",
    )
    SPARK_FAILED = ("Spark failed", "Its log says more. Run again.")

    def __init__(self, said: str, remedy: str) -> None:
        self.said = said
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFailure:
    """What failed, and why."""

    failure: Failure
    cause: str
    """The innermost message, on one line, without secrets."""

    @property
    def what(self) -> str:
        """What happened, without a full stop."""
        return f"{self.failure.said} ({self.cause.removesuffix('.')})"

    @property
    def is_over(self) -> bool:
        """Whether less data would fail, too.

        An error of tierfold's own ends a task only if its worker cannot open the tier: one in a
        segment is a row (`jobs.engines.rows`).
        """
        return self.failure in {Failure.SPARK_DIED, Failure.TASK_REFUSED}


def failure_of(error: Exception, session: SparkSession) -> SparkFailure:
    """Return what an error of `SPARK_FAILURES` means."""
    text = str(error)
    if has_died(session):
        return SparkFailure(failure=Failure.SPARK_DIED, cause=cause_of(error))
    if (raised := _raised_in(text)) is not None:
        return raised
    if died := _DEATH.findall(text):
        return SparkFailure(failure=Failure.WORKER_DIED, cause=_quoted(died[-1], CAUSE_MAX))
    return SparkFailure(failure=Failure.SPARK_FAILED, cause=cause_of(error))


def has_died(session: SparkSession) -> bool:
    """Whether the session's JVM is gone, so that no call can succeed."""
    try:
        return not session.version
    except SPARK_FAILURES:
        return True


def cause_of(failure: Exception) -> str:
    """Return the innermost message of a Spark failure, at most `CAUSE_MAX` characters."""
    messages = _EXCEPTION_LINE.findall(str(failure))
    without = str(failure) if isinstance(failure, PySparkException) else repr(failure)
    return _quoted(messages[-1] if messages else without, CAUSE_MAX)


def _raised_in(text: str) -> SparkFailure | None:
    """What Python raised on a worker; None: nothing, it was Spark or a death."""
    before = _PYTHON.match(text)
    if before is None:
        return None
    # Its frames are indented by blanks; those of Java, which may follow, by tabs.
    python = text[before.end() :].partition("\n\tat ")[0].splitlines()
    lines = [line.strip() for line in python if not line.startswith(" ")]
    raised = " ".join(line for line in lines if line)
    kind, _, message = raised.partition(": ")
    if kind.endswith("MemoryError"):
        return SparkFailure(
            failure=Failure.WORKER_LACKED_MEMORY, cause=_quoted(raised, RAISED_MAX)
        )
    if kind.startswith(f"{TierfoldError.__module__}."):
        return SparkFailure(failure=Failure.TASK_REFUSED, cause=_quoted(message, RAISED_MAX))
    return SparkFailure(failure=Failure.TASK_RAISED, cause=_quoted(raised, RAISED_MAX))


def _quoted(text: str, most: int) -> str:
    return redacted(" ".join(text.split()))[:most]
