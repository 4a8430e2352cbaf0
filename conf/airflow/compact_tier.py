"""An example DAG: plan, then compact, verify and vacuum the partitions, in groups.

Each group is a mapped task group. `vacuum` deletes only in the partitions that `verify` found sound
in the same run: what it deletes, `restore` can no longer bring back. Copy this file into your DAG
folder and change the defaults of its parameters.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param, TriggerRule, task, task_group
from airflow.sdk.exceptions import AirflowFailException

from tierfold.jobs.airflow_tasks.partition_groups import partition_groups
from tierfold.jobs.airflow_tasks.tierfold_operator import TierfoldOperator

WHERE: dict[str, Any] = {
    "tier": "{{ params.tier }}",
    "settings": "{{ params.settings }}",
}
"""What all verbs share. For spark-submit, add `"submit": {"conn_id": "spark_default"}`."""

with DAG(
    dag_id="tierfold_compact_tier",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    # Numbers and tables in parameters arrive as such.
    render_template_as_native_obj=True,
    # Mapped tasks take their retries from here. A run that another one has fenced is retried.
    default_args={"retries": 2},
    params={
        "tier": Param("s3://bucket/tier", type="string"),
        "settings": Param({"cleanup.policy": "compact"}, type="object"),
        "engine": Param("spark", enum=["spark", "local"]),
        "groups": Param(4, type="integer", minimum=1),
    },
) as dag:

    @task(trigger_rule=TriggerRule.ALL_DONE)
    def groups_of(plan_document: dict[str, Any] | None, groups: int) -> list[dict[str, Any]]:
        """Divide the plan, also if it refused some partitions; without a plan there is no group."""
        return list(partition_groups(plan_document, groups))

    @task_group
    def each_group(due: list[dict[str, Any]], every: list[dict[str, Any]]) -> None:
        """Compact what is due, verify all, and delete what was replaced earlier."""
        engine = "{{ params.engine }}"
        compact = TierfoldOperator(
            task_id="compact",
            verb="compact",
            options={"engine": engine, "partitions_from": due},
            **WHERE,
        )
        # Also if a partition failed: it is unchanged, and others may have been compacted.
        verify = TierfoldOperator(
            task_id="verify",
            verb="verify",
            options={"engine": engine, "partitions_from": every},
            trigger_rule=TriggerRule.ALL_DONE,
            **WHERE,
        )
        # Takes the sound partitions from the document, which is there also if others are not.
        TierfoldOperator(
            task_id="vacuum",
            verb="vacuum",
            options={"partitions_from": verify.output},
            trigger_rule=TriggerRule.ALL_DONE,
            **WHERE,
        )
        compact >> verify

    @task(trigger_rule=TriggerRule.ONE_FAILED, retries=0)
    def report_failure() -> None:
        """Fail the run if any task failed: Airflow looks only at the last tasks of a DAG."""
        raise AirflowFailException("a task of this run failed; its log says which partition, why")

    plan = TierfoldOperator(task_id="plan", verb="plan", **WHERE)
    each_group.expand_kwargs(groups_of(plan.output, "{{ params.groups }}"))
    list(dag.tasks) >> report_failure()
