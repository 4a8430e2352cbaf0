"""DAGs of one task each, for the tests: a verb with the parameters of the run."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from tests.jobs.claims import claimed
from tests.storage.live_segments import NOW_MS
from tierfold.jobs.airflow_tasks.tierfold_operator import VERBS, TierfoldOperator

FENCING: dict[str, Any] = {"runs": 0, "tier": ""}
"""How many runs are to be fenced by another, and on which tier."""


def fence(_progress: object) -> None:
    """Let another run claim orders-0 while this one works, once per run."""
    if FENCING["runs"]:
        FENCING["runs"] -= 1
        claimed(Path(FENCING["tier"]), "the-other-run", at_ms=NOW_MS)


def stop(_progress: object) -> None:
    """Send this process the signal with which Airflow stops a task."""
    os.kill(os.getpid(), signal.SIGTERM)


def verb_dag(name: str, verb: str, **arguments: Any) -> DAG:
    """Return a DAG whose one task runs a verb."""
    given = {one: f"{{{{ params.{one} }}}}" for one in ("tier", "settings", "options", "submit")}
    with DAG(
        dag_id=name,
        schedule=None,
        render_template_as_native_obj=True,
        params={"tier": "", "settings": {}, "options": {}, "submit": None},
    ) as dag:
        TierfoldOperator(task_id="verb", verb=verb, **(given | arguments))
    return dag


DAGS = {verb: verb_dag(f"run_{verb}", verb) for verb in VERBS}
FENCED: dict[str, Any] = {"options": {"engine": "local", "progress": fence}}
DAGS["compact twice"] = verb_dag("run_compact_twice", "compact", retries=1)
DAGS["no retries"] = verb_dag("run_no_retries", "compact", retries=0)
DAGS["fenced"] = verb_dag("run_fenced", "compact", **FENCED)
DAGS["fenced, no retries"] = verb_dag("run_fenced_no_retries", "compact", retries=0, **FENCED)
STOPPED = {"engine": "local", "progress": stop}
DAGS["stopped"] = verb_dag("run_stopped", "compact", retries=0, options=STOPPED)
globals().update(DAGS)  # Airflow finds DAGs among the names of a module.
