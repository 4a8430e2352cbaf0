"""Spark workers that die of the data they touch: every time, and not only when a killer is fast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

KILLER: Final = Path(__file__).parent / "killer"


@contextmanager
def candidates(
    spark: SparkSession, folder: Path, *, writes: int = 0, once: Path | None = None
) -> Iterator[None]:
    """Whoever opens a file below the folder dies at once, by SIGKILL.

    With `writes`, whoever begins the object of that number there. With `once`, a file that is not
    there yet, only the first. Spark keeps workers of another environment apart, so that those of
    other tests live on.
    """
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment |= {
        "PYTHONPATH": str(KILLER),
        "DOOM_FOLDER": f"{folder}/",
        "DOOM_WRITES": str(writes),
        "DOOM_ONCE": str(once or ""),
    }
    try:
        yield
    finally:
        environment.clear()
        environment |= before
