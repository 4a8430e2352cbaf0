"""DAGs for tests, each with one task: a verb with the parameters of the run."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from tests.jobs.claims import claimed
from tests.storage.live_segments import NOW_MS
from tierfold.jobs.airflow_tasks.tierfold_operator import VERBS, TierfoldOperator
from tierfold.jobs.context.byte_progress import Progress

FENCING: dict[str, Any] = {"runs": 0, "tier": ""}
"""How many runs another run fences, and on which tier."""


def fence(progress: Progress) -> None:
    """Let another run claim orders-0 while this one works, once per run."""
    if FENCING["runs"] and progress.step == "scan":
        FENCING["runs"] -= 1
        claimed(Path(FENCING["tier"]), "the-other-run", at_ms=NOW_MS)


def stop(progress: Progress) -> None:
    """Send this process the signal by which Airflow stops a task."""
    if progress.step == "scan":
        os.kill(os.getpid(), signal.SIGTERM)


def verb_dag(dag_id: str, verb: str, **arguments: Any) -> DAG:
    """Return a DAG whose one task runs a verb."""
    names = ("tier", "settings", "options", "submit")
    templates = {name: f"{{{{ params.{name} }}}}" for name in names}
    with DAG(
        dag_id=dag_id,
        schedule=None,
        render_template_as_native_obj=True,
        params={"tier": "", "settings": {}, "options": {}, "submit": None},
    ) as dag:
        TierfoldOperator(task_id="verb", verb=verb, **(templates | arguments))
    return dag


DAGS = {verb: verb_dag(f"run_{verb}", verb) for verb in VERBS}
FENCED: dict[str, Any] = {"options": {"engine": "local", "progress": fence}}
DAGS["compact twice"] = verb_dag("run_compact_twice", "compact", retries=1)
DAGS["no retries"] = verb_dag("run_no_retries", "compact", retries=0)
DAGS["fenced"] = verb_dag("run_fenced", "compact", **FENCED)
DAGS["fenced, no retries"] = verb_dag("run_fenced_no_retries", "compact", retries=0, **FENCED)
STOPPED = {"engine": "local", "progress": stop}
DAGS["stopped"] = verb_dag("run_stopped", "compact", retries=0, options=STOPPED)
globals().update(DAGS)  # Airflow finds the DAGs among a module's globals.
