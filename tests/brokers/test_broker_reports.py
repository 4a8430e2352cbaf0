"""What the end of a test run says about brokers: which were missing, what a failed test's logged.

Without a broker's jars its tests are left out, unless they are required.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers import versions
from tests.brokers.versions import NEWEST, SOAK, missing_brokers
from tests.jobs.commands import ROOT
from tests.oracle.kafka_jars import CACHE_VARIABLE

FAILS = """
import pytest
from tests.brokers.broker import Broker
from tests.brokers.cluster import KafkaCluster

@pytest.fixture
def cluster(tmp_path):
    made = KafkaCluster(tmp_path)
    made.brokers.append(Broker("4.4.0", tmp_path, {}))
    made.brokers[0].log.write_text("what the broker logged")
    return made

def test_that_fails(cluster):
    assert not cluster.brokers
"""


def printed(*arguments: str, **environment: str) -> str:
    """The output of a run of pytest."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        env=os.environ | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout


@pytest.mark.soak
def test_tests_without_their_broker_are_left_out(tmp_path: Path) -> None:
    where = {CACHE_VARIABLE: str(tmp_path), "TIERFOLD_REQUIRE_BROKERS": ""}
    ran = printed("--collect-only", "tests/brokers", **where)
    assert f"left out: tests on brokers of Kafka {NEWEST}; `make test` fetches" in ran
    found = {line.partition("::")[0] for line in ran.splitlines() if "::" in line}
    # Some tests of the comparisons themselves need no broker.
    files = ("test_broker_reports.py", "test_demo_kafka.py", "test_served_reads.py")
    assert found == {f"tests/brokers/{name}" for name in files}


@pytest.mark.soak
def test_a_failure_shows_the_log_of_its_broker(tmp_path: Path) -> None:
    (tmp_path / "test_fails.py").write_text(FAILS)
    options = ("-c", "setup.cfg", "-p", "tests.conftest", "--basetemp", str(tmp_path / "runs"))
    ran = printed(*options, str(tmp_path / "test_fails.py"))
    assert "1 failed" in ran
    assert ran.count("what the broker logged") == 1


def test_required_brokers_must_not_be_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("TIERFOLD_REQUIRE_BROKERS", "true")
    with pytest.raises(RuntimeError, match="run python -m tests"):
        missing_brokers()


def test_soak_has_all_versions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.delenv("TIERFOLD_REQUIRE_BROKERS", raising=False)
    monkeypatch.setenv("TIERFOLD_BROKER_VERSIONS", "all")
    assert missing_brokers() == (NEWEST, *SOAK)


def test_each_version_without_jars_has_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert versions.main() == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
