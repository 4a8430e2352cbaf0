"""Runs the example DAG once in `airflow standalone`: scheduler, API server, a process per task.

`make soak` runs it in Airflow's environment. It takes a minute and needs a free port.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tests.jobs.tiers import ROOT, sample_copy

DAG = "tierfold_compact_tier"
RUN = "soak"
PATIENCE_S = 600.0
ENDED = frozenset({"success", "failed"})


def environment(home: Path) -> dict[str, str]:
    """Return the settings of an Airflow whose home is this folder."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = str(free.getsockname()[1])
    return os.environ | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__PORT": port,
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "false",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
    }


def rows(home: Path, query: str) -> list[tuple[str, ...]]:
    """Return the rows that Airflow's database returns; none while it is being created."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(home / "airflow.db")) as database:
        return database.execute(query).fetchall()
    return []


def awaited(what: str, look: Callable[[], bool]) -> None:
    """Wait until `look` returns True; raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_S
    while not look():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE_S:.0f} s")
        time.sleep(0.5)


@contextmanager
def standalone(home: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """Run `airflow standalone` until the block ends, then end all its processes."""
    with (home / "standalone.log").open("wb") as log:
        airflow = subprocess.Popen(
            ["airflow", "standalone"],
            env=settings,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        airflow.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            airflow.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(airflow.pid, signal.SIGKILL)
        airflow.wait()


def main() -> None:
    """Run the DAG on a copy of the sample; exit with 1 unless it succeeds."""
    home = Path(tempfile.mkdtemp(prefix="tierfold-standalone-"))
    tier = sample_copy(home / "tier")
    (home / "dags").mkdir()
    example = (ROOT / "conf" / "airflow" / "compact_tier.py").read_text(encoding="utf-8")
    # With the schedule, the scheduler would start a run of its own on the example's tier.
    copy = example.replace('schedule="@daily"', "schedule=None")
    (home / "dags" / "compact_tier.py").write_text(copy, encoding="utf-8")
    settings = environment(home)
    conf = json.dumps({"tier": str(tier)})  # Spark runs in the processes of the tasks.
    trigger = ["airflow", "dags", "trigger", DAG, "--run-id", RUN, "--conf", conf]
    states = f"SELECT state FROM dag_run WHERE run_id = '{RUN}'"
    began = time.monotonic()
    with standalone(home, settings):
        known = f"SELECT dag_id FROM serialized_dag WHERE dag_id = '{DAG}'"
        awaited("the DAG is parsed", lambda: bool(rows(home, known)))
        subprocess.run(trigger, env=settings, check=True, stdout=subprocess.DEVNULL)
        awaited("the run ends", lambda: bool(ENDED & {state for (state,) in rows(home, states)}))
    (state,) = (state for (state,) in rows(home, states))
    tasks = "SELECT task_id || ' ' || map_index, state FROM task_instance"
    for name, end in rows(home, tasks):
        sys.stdout.write(f"{name}: {end}\n")
    took_s = time.monotonic() - began
    sys.stdout.write(f"airflow standalone: {DAG} ended as {state} after {took_s:.0f} s\n")
    if state != "success":
        sys.exit(f"see {home}")
    shutil.rmtree(home)


if __name__ == "__main__":
    main()
