"""Kills Spark workers when they open certain files: deterministic, unlike a kill from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

KILLER: Final = Path(__file__).parent / "killer"


@contextmanager
def workers_killed(
    spark: SparkSession, folder: Path, *, writes: int = 0, once: Path | None = None
) -> Iterator[None]:
    """Kill every worker that reads a file below the folder, by SIGKILL.

    With `writes`, a worker dies when it begins to write that many objects there. With `once`, a
    file that does not exist yet, only the first worker dies. Spark does not share workers between
    environments, so the workers of other tests live on.
    """
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment |= {
        "PYTHONPATH": str(KILLER),
        "KILL_FOLDER": f"{folder}/",
        "KILL_WRITES": str(writes),
        "KILL_ONCE": str(once or ""),
    }
    try:
        yield
    finally:
        environment.clear()
        environment |= before
