"""What every test may use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import tests.hypothesis_profiles  # noqa: F401  (registers and loads the profile)
from jobs.session import tierfold_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the test run: starting another costs ten seconds."""
    session = tierfold_session()
    yield session
    session.stop()
