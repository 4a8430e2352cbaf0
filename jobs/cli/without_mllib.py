"""Keeps the functions of Spark's MLlib out of the session that a command starts."""

from __future__ import annotations

import os
from typing import Final

_JVM_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The environment variable with options of the JVM that PySpark starts."""

_NO_EXTENSIONS: Final = "-Dspark.sql.extensions.test.loadFromCp=false"
"""Spark finds no session extensions in the jars of its class path; those of the setting
`spark.sql.extensions` stay."""


def start_spark_without_mllib() -> None:
    """Make a later Spark session of this process start without functions that no command calls.

    Spark's own MLlib registers some with each session, by Scala's reflection: 0.9 of the 4.8 CPU
    seconds that the JVM takes for a run on the sample. An option that the user has set wins.
    """
    options = os.environ.get(_JVM_OPTIONS, "")
    os.environ[_JVM_OPTIONS] = f"{_NO_EXTENSIONS} {options}".rstrip()
