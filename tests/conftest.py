"""Fixtures and settings for every test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

import tests.hypothesis_profiles  # noqa: F401  (registers and loads the profile)
from tests.several_processes import STARTS_JVM, Together, slow_first
from tests.spark_classes import jvm_options
from tests.storage.emulator_programs import missing_emulators
from tests.storage.emulators import IDENTITY
from tierfold.jobs.spark.session import JVM_OPTIONS, tierfold_session


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How the tests are assigned where there are several processes."""
    return Together(config, log)


def pytest_configure() -> None:
    """Prepare this process and its children: Ctrl-C ends them, and their JVMs start fast.

    A shell that runs the tests in the background has Ctrl-C ignored, and child processes inherit
    that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # With more processes than cores, longer turns: a fifteenth less CPU time.
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    # Read by the launcher of every JVM that submits a job, and for the launcher, which is a JVM
    # itself; child processes inherit them.
    os.environ["SPARK_SUBMIT_OPTS"] = jvm_options()
    os.environ["SPARK_LAUNCHER_OPTS"] = JVM_OPTIONS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which tests were left out."""
    if missing := missing_emulators():
        names = ", ".join(missing)
        terminalreporter.write_line(f"left out: tests on {names}; `make emulators` installs them")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start a JVM through a fixture; others are marked where they stand."""
    slow_first(items)
    for item in items:
        if isinstance(item, pytest.Function) and STARTS_JVM & set(item.fixturenames):
            item.add_marker("jvm")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the test run: starting another costs ten seconds.

    The environment of its workers has the credentials of the S3 emulators.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in IDENTITY.items():
            patch.setenv(name, value)
        # Tests sort a few rows. The memory is nearly what it would be anyway.
        settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2047m"}
        session = tierfold_session(SparkSession.builder.config(map=settings))
    yield session
    session.stop()
