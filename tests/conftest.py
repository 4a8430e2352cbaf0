"""Fixtures and settings for every test."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Generator, Iterator

import pytest
from pyspark.sql import SparkSession
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

import tests.hypothesis_profiles  # noqa: F401  (registers and loads the profile)
from tests.brokers.cluster import KafkaCluster
from tests.brokers.versions import NEWEST, left_to_soak, missing_brokers
from tests.jobs.page import chromium
from tests.monitoring.programs import missing_programs
from tests.scratch import in_memory
from tests.several_processes import STARTS_JVM, Together, slow_first
from tests.spark_classes import jvm_options
from tests.storage.brokers.secured import SecuredCluster
from tests.storage.emulator_programs import missing_emulators
from tests.storage.emulators import IDENTITY
from tierfold.jobs.spark.session import JVM_OPTIONS, tierfold_session
from tierfold.storage.tiers.service_notes import FOLDER


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How the tests are assigned where there are several processes."""
    return Together(config, log)


def pytest_configure() -> None:
    """Prepare this process and its children: Ctrl-C ends them, and they start and write fast.

    A shell that runs the tests in the background has Ctrl-C ignored, and child processes inherit
    that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # With more processes than cores, longer turns: a fifteenth less CPU time.
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    in_memory()
    # xdist gives its processes a width, and screens would be folded to it.
    os.environ.pop("COLUMNS", None)
    # Modules and tests that are collected stay: looking at them again costs a third of the time.
    gc.disable()
    # Read by the launcher of every JVM that submits a job, and for the launcher, which is a JVM
    # itself; child processes inherit them.
    os.environ["SPARK_SUBMIT_OPTS"] = jvm_options()
    os.environ["SPARK_LAUNCHER_OPTS"] = JVM_OPTIONS


def pytest_collection_finish() -> None:
    """Collect garbage from now on."""
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which tests were left out."""
    if missing := missing_emulators():
        names = ", ".join(missing)
        terminalreporter.write_line(f"left out: tests on {names}; `make emulators` installs them")
    if missing := missing_programs():
        names = ", ".join(missing)
        terminalreporter.write_line(f"left out: tests with {names}; `make monitoring` unpacks them")
    if chromium.is_missing():
        terminalreporter.write_line("left out: tests in Chromium; `make chromium` unpacks it")
    if versions := missing_brokers():
        names = ", ".join(versions)
        terminalreporter.write_line(
            f"left out: tests on brokers of Kafka {names}; `make test` fetches their jars"
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start a JVM through a fixture; others are marked where they stand.

    Leave out those whose broker is missing, or belongs to `make soak` alone.
    """
    left = left_to_soak()
    if without := frozenset((*missing_brokers(), *left)):
        items[:] = [item for item in items if not without & _brokers_of(item)]
    if left:
        items[:] = [item for item in items if item.get_closest_marker("soak") is None]
    slow_first(items)
    for item in items:
        if isinstance(item, pytest.Function) and STARTS_JVM & set(item.fixturenames):
            item.add_marker("jvm")


def _brokers_of(item: pytest.Item) -> set[str]:
    """The versions of the brokers that a test starts, by its fixture or by its parameter."""
    assert isinstance(item, pytest.Function)
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    asked = {parameters["broker_version"]} if "broker_version" in parameters else set()
    return asked | ({NEWEST} if "kafka" in item.fixturenames else set())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the logs of the brokers that a failed test used."""
    report = yield
    if report.failed:
        used = getattr(item, "funcargs", {}).values()
        clusters = [cluster for cluster in used if isinstance(cluster, KafkaCluster)]
        for broker in (broker for cluster in clusters for broker in cluster.brokers):
            report.sections.append(("a broker's log", broker.log_tail()))
    return report


@pytest.fixture(scope="session")
def halted_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """The cluster of `kafka`, which takes no CPU time while it is not used."""
    with SecuredCluster(tmp_path_factory.mktemp("kafka")) as cluster:
        cluster.add_scram_user()
        cluster.halt()
        yield cluster


@pytest.fixture(scope="module")
def kafka(halted_kafka: SecuredCluster) -> Iterator[SecuredCluster]:
    """The one cluster of the test run, of the newest version, with one broker.

    A second one is `kafka.broker(2)`; the first test that asks for it starts it. Clients of
    `PLAINTEXT` may do everything, those of `SASL` what is granted (`tests.brokers.access`). No test
    damages its metadata topic: brokers that start again would not know what they have.

    A tier takes one publishing catalog, and each file of tests has its own: the tier's note, which
    says which one it is, goes with the file.
    """
    halted_kafka.go_on()
    yield halted_kafka
    shutil.rmtree(halted_kafka.tier / FOLDER, ignore_errors=True)
    halted_kafka.halt()


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
