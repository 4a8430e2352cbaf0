"""Fixtures and settings for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

import tests.hypothesis_profiles  # noqa: F401  (registers and loads the profile)
from tests.two_processes import Together
from tierfold.jobs.spark.session import tierfold_session


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How the tests are assigned where there are several processes."""
    return Together(config, log)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the test run: starting another costs ten seconds."""
    session = tierfold_session()
    yield session
    session.stop()
