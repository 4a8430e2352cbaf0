"""The provider's hook for spark-submit, which stops a run gently."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowException

GENTLE_S: Final = 4.0
"""Seconds from SIGTERM to SIGKILL; Airflow itself kills the task after five."""


class SubmitHook(SparkSubmitHook):
    """Runs one verb; arguments as `SparkSubmitHook` takes them."""

    @property
    def is_cluster(self) -> bool:
        """Whether the driver runs on the cluster, not on this worker."""
        mode = self._connection["deploy_mode"] or self._conf.get("spark.submit.deployMode")
        return bool(mode == "cluster")

    def run(self, application: str, arguments: list[str]) -> None:
        """Submit the script and wait until it has ended; raises AirflowException if it failed."""
        self._application_args = arguments
        if not self.is_cluster:
            # Otherwise Spark runs the first python3 on the PATH, which may lack tierfold.
            self._conf.setdefault("spark.pyspark.driver.python", sys.executable)
        try:
            self.submit(application)
        except FileNotFoundError as error:
            raise AirflowException(
                f"{error.filename} was not found on the PATH of this worker. Install Spark there,"
                " or start the worker with PySpark's bin folder on its PATH."
            ) from None

    def on_kill(self) -> None:
        """Let the driver release its claims, then kill whatever is left."""
        if self._submit_sp is not None and self._submit_sp.poll() is None:
            self._submit_sp.terminate()
            try:
                self._submit_sp.wait(GENTLE_S)
            except subprocess.TimeoutExpired:
                self.log.warning("spark-submit did not end within %s s of SIGTERM", GENTLE_S)
        super().on_kill()
