"""DAGs for tests, most with one task: a verb with the parameters of the run."""

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


NAMES = ("tier", "settings", "options", "submit")
TEMPLATES: dict[str, Any] = {name: f"{{{{ params.{name} }}}}" for name in NAMES}


def without_tasks(dag_id: str) -> DAG:
    """A DAG of the parameters."""
    return DAG(
        dag_id=dag_id,
        schedule=None,
        render_template_as_native_obj=True,
        params={"tier": "", "settings": {}, "options": {}, "submit": None},
    )


def verb_dag(dag_id: str, verb: str, **arguments: Any) -> DAG:
    """Return a DAG whose one task runs a verb."""
    with without_tasks(dag_id) as dag:
        TierfoldOperator(task_id="verb", verb=verb, **(TEMPLATES | arguments))
    return dag


def planned_dag(dag_id: str, *, is_after: bool) -> DAG:
    """Return a DAG that compacts what a task plans, and may not wait for it."""
    with without_tasks(dag_id) as dag:
        due = {"engine": "local", "partitions_from": "{{ ti.xcom_pull(task_ids='plan') }}"}
        verb = TierfoldOperator(
            task_id="verb", verb="compact", retries=0, **(TEMPLATES | {"options": due})
        )
        plan = TierfoldOperator(task_id="plan", verb="plan", **TEMPLATES)
        if is_after:
            plan >> verb
        else:
            verb >> plan
    return dag


DAGS = {verb: verb_dag(f"run_{verb}", verb) for verb in VERBS}
FENCED: dict[str, Any] = {"options": {"engine": "local", "progress": fence}}
DAGS["compact twice"] = verb_dag("run_compact_twice", "compact", retries=1)
DAGS["no retries"] = verb_dag("run_no_retries", "compact", retries=0)
DAGS["fenced"] = verb_dag("run_fenced", "compact", **FENCED)
DAGS["fenced, no retries"] = verb_dag("run_fenced_no_retries", "compact", retries=0, **FENCED)
STOPPED = {"engine": "local", "progress": stop}
DAGS["stopped"] = verb_dag("run_stopped", "compact", retries=0, options=STOPPED)
DAGS["before its plan"] = planned_dag("run_before_its_plan", is_after=False)
DAGS["after its plan"] = planned_dag("run_after_its_plan", is_after=True)
globals().update(DAGS)  # Airflow finds the DAGs among a module's globals.
