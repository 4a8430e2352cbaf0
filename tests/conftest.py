"""What every test may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

import tests.hypothesis_profiles  # noqa: F401  (registers and loads the profile)
from jobs.session import tierfold_session

MADE_ONCE: Final = {"spark": "spark", "archive": "spark", "lab": "kafka", "fuzzed": "kafka"}
"""What takes long to make, and lasts for the session: whoever uses it runs in one process."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Which tests `make test`, with its two processes, keeps together: whole files at least."""
    users: dict[Path, set[str]] = {}
    for item in items:
        users.setdefault(item.path, set()).update(item.fixturenames)
    for item in items:
        shared = [group for each, group in MADE_ONCE.items() if each in users[item.path]]
        item.add_marker(pytest.mark.xdist_group(shared[0] if shared else str(item.path)))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the test run: starting another costs ten seconds."""
    session = tierfold_session()
    yield session
    session.stop()
