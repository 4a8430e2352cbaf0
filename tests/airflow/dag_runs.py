"""Runs DAGs in this process, as `airflow dags test` does, and returns how their tasks ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow.models.xcom import XComModel
from airflow.sdk import DAG
from airflow.utils.session import create_session


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """A task that has ended, or was never started."""

    state: str
    tries: int
    document: dict[str, Any] | None
    """Its XCom."""

    def of_document(self, name: str) -> Any:
        """A field of its document, which must exist."""
        assert self.document is not None
        return self.document[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class DagRun:
    """A run of a DAG that has ended."""

    state: str
    tasks: dict[tuple[str, int], TaskRun]
    """By task and map index; -1 if it is not mapped."""

    @property
    def verb(self) -> TaskRun:
        """The one task of a DAG of `verb_dags`."""
        return self.tasks["verb", -1]

    def states(self, task: str) -> list[str]:
        """The states of a mapped task's instances."""
        return [run.state for (name, _), run in sorted(self.tasks.items()) if name == task]


def ran(dag: DAG, **conf: Any) -> DagRun:
    """Run a DAG with these parameters to its end."""
    # Runs in one process inherit the parameters of the run before, so every run sets all of them.
    run = dag.test(run_conf={"settings": {}, "options": {}, "submit": None} | conf)
    with create_session() as session:
        rows = session.scalars(XComModel.get_many(run_id=run.run_id, key="return_value")).all()
        documents = {(row.task_id, row.map_index): XComModel.deserialize_value(row) for row in rows}
    tasks = {
        (ti.task_id, ti.map_index): TaskRun(
            state=str(ti.state),
            tries=ti.try_number,
            document=documents.get((ti.task_id, ti.map_index)),
        )
        for ti in run.get_task_instances()
    }
    return DagRun(state=str(run.state), tasks=tasks)
