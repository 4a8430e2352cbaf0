"""Killing a task ends spark-submit and its driver, and lets the driver clean up first."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest
from airflow.sdk.exceptions import AirflowException
from dag_runs import ran
from verb_dags import DAGS

from tierfold.jobs.airflow_tasks.submit_hook import SubmitHook

WAITING = Path(__file__).with_name("waiting_driver.py")


def awaited(look: Callable[[], bool], patience_s: float = 60) -> None:
    deadline = time.monotonic() + patience_s
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def hook() -> SubmitHook:
    return SubmitHook(conn_id="spark_default", conf={})


@pytest.mark.soak
def test_a_killed_task_lets_the_driver_end_by_itself(hook: SubmitHook, tmp_path: Path) -> None:
    errors: list[Exception] = []

    def run() -> None:
        try:
            hook.run(str(WAITING), [str(tmp_path)])
        except AirflowException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    awaited((tmp_path / "pid").exists)
    driver = Path("/proc") / (tmp_path / "pid").read_text(encoding="utf-8")
    assert driver.exists()
    hook.on_kill()
    thread.join(60)
    assert not thread.is_alive()
    assert len(errors) == 1
    assert (tmp_path / "stopped").read_text(encoding="utf-8") == "SIGTERM"
    awaited(lambda: not driver.exists(), patience_s=10)


def test_a_signal_to_the_task_ends_the_driver(tmp_path: Path) -> None:
    def stop() -> None:
        awaited((tmp_path / "pid").exists)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop)
    thread.start()
    submit = {"conn_id": "spark_default", "application": str(WAITING)}
    run = ran(DAGS["no retries"], tier=str(tmp_path), submit=submit)
    thread.join()
    assert (run.verb.state, run.verb.document) == ("failed", None)
    assert (tmp_path / "stopped").read_text(encoding="utf-8") == "SIGTERM"


def test_the_driver_runs_with_the_python_of_the_worker(
    hook: SubmitHook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The worker did not activate this environment: it is not on the PATH, and Spark is named."""
    spark = Path(pyspark.__file__).parent
    monkeypatch.setenv("SPARK_HOME", str(spark))
    monkeypatch.setenv("PATH", f"{spark / 'bin'}:/usr/bin:/bin")
    script = tmp_path / "job.py"
    script.write_text("import sys\nopen(sys.argv[1], 'w').write(sys.executable)", encoding="utf-8")
    hook.run(str(script), [str(tmp_path / "python")])
    assert (tmp_path / "python").read_text(encoding="utf-8") == sys.executable


def test_where_spark_is_not_installed_the_error_says_so(
    hook: SubmitHook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AirflowException, match="spark-submit was not found on the PATH"):
        hook.run("job.py", [])


@pytest.mark.parametrize(
    ("arguments", "is_cluster"),
    [
        ({}, False),
        ({"deploy_mode": "client"}, False),
        ({"deploy_mode": "cluster"}, True),
        ({"conf": {"spark.submit.deployMode": "cluster"}}, True),
    ],
)
def test_the_hook_knows_its_deploy_mode(arguments: dict[str, object], is_cluster: bool) -> None:
    assert SubmitHook(conn_id="spark_default", **arguments).is_cluster is is_cluster
