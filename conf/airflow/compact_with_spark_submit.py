"""An example DAG with the Spark provider's own operator: nothing in it imports tierfold.

tierfold is needed only where the driver runs. spark-submit reports that a script failed, not how,
so this DAG retries every failure, wrong settings too, and the log of a task says which partition
it was. `TierfoldOperator` in `compact_tier.py` knows the outcome of each partition.
"""

from __future__ import annotations

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Param

SETTINGS = ("--set", "cleanup.policy=compact")


def step(verb: str, *options: str) -> SparkSubmitOperator:
    """Return a task that runs a verb on the tier."""
    return SparkSubmitOperator(
        task_id=verb,
        conn_id="spark_default",
        application=f"{{{{ params.jobs }}}}/{verb}_job.py",
        name=f"tierfold {verb}",
        application_args=["{{ params.tier }}", *SETTINGS, *options],
    )


with DAG(
    dag_id="tierfold_compact_with_spark_submit",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2},
    params={
        "tier": Param("s3://bucket/tier", type="string"),
        # Where the scripts are: `python -c 'import tierfold.jobs; print(tierfold.jobs.__path__)'`.
        "jobs": Param("/opt/tierfold/jobs", type="string"),
    },
) as dag:
    # vacuum runs only if verify found nothing, in any partition.
    step("compact", "--max-duration", "3h") >> step("verify") >> step("vacuum")
