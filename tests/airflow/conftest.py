"""Airflow's home for these tests: SQLite in a temporary folder, and the DAGs to run.

Airflow reads its settings when it is imported, so they are set when this file is.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfold.jobs.spark.session import JVM_OPTIONS

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="tierfold-airflow-"))
DAGS = HOME / "dags"
DAGS.mkdir()
for example in (*(ROOT / "conf" / "airflow").glob("*.py"), ROOT / "tests/airflow/verb_dags.py"):
    shutil.copy(example, DAGS)

os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
    "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "0",
    # A quarter less CPU time for spark-submit.
    "SPARK_LAUNCHER_OPTS": JVM_OPTIONS,
    "SPARK_SUBMIT_OPTS": JVM_OPTIONS,
    "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2,4]"}),
    "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
}
sys.path.insert(0, str(DAGS))

from airflow.utils.db import initdb  # noqa: E402  (its settings are above)


@pytest.fixture(scope="session", autouse=True)
def airflow_home() -> Iterator[Path]:
    """Create Airflow's database, and delete the home after the tests."""
    initdb()
    # Py4J logs while the process ends, after pytest has closed the stream.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    yield HOME
    shutil.rmtree(HOME)
