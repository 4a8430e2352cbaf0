"""`TierfoldOperator`: a task that runs a verb, in the task's process or under spark-submit."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import BaseOperator
from airflow.sdk.bases.xcom import BaseXCom

import tierfold
from tierfold.compaction.model.errors import BadSettings, CorruptLog, UnreadableObject
from tierfold.jobs.airflow_tasks.outcomes import error_of, shortened, summary
from tierfold.jobs.airflow_tasks.spark_submit import Submission, hook_of, own_script, submitted
from tierfold.jobs.airflow_tasks.submit_hook import SubmitHook
from tierfold.jobs.context.stopping import stoppable
from tierfold.jobs.reports.result import document_of_error

if TYPE_CHECKING:
    from airflow.sdk import Context

VERBS: Final = (
    "plan",
    "compact",
    "status",
    "doctor",
    "verify",
    "vacuum",
    "history",
    "restore",
    "forget",
    "rebuild",
)

FENCED_RETRIES: Final = 3
"""How often a fenced run is retried, if the DAG asks for no retries."""

_NOT_IN_A_PATH: Final = re.compile(r"[^A-Za-z0-9._=+@,~-]+")


class TierfoldOperator(BaseOperator):
    """Runs a verb of tierfold; its XCom is the verb's JSON document, also if the task fails.

    The outcome in the document decides: a wrong setting fails the task without a retry, a fenced
    run is retried, a failed partition fails the task (docs/airflow.md has the table).

    Args:
        verb: One of `VERBS`.
        tier: The tier's folder or URI.
        settings: Settings by Kafka's names, `{"cleanup.policy": "compact"}`.
        options: Keyword arguments of `tierfold.<verb>`, such as `{"topics": ["orders.*"]}`.
        submit: None runs the verb in the task's process. Otherwise spark-submit runs it, with these
            arguments of the provider's `SparkSubmitHook`, such as `{"conn_id": "spark_default"}`.
            `application` replaces tierfold's own script, `document_folder` (a folder or URI) keeps
            the documents; in cluster mode it is required.
        kwargs: As of `BaseOperator`. Without `retries`, here and in the DAG, only a fenced run is
            retried.

    All are templated but `verb`. Raises ValueError for another verb.
    """

    template_fields: Sequence[str] = ("tier", "settings", "options", "submit")
    template_fields_renderers: ClassVar = dict.fromkeys(("settings", "options", "submit"), "json")
    ui_color = "#d8e8f0"

    def __init__(
        self,
        *,
        verb: str,
        tier: str,
        settings: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        submit: Mapping[str, Any] | None = None,
        **kwargs: Any,  # noqa: ANN401 - those of BaseOperator
    ) -> None:
        if verb not in VERBS:
            raise ValueError(f"tierfold has no task {verb!r}; there are {', '.join(VERBS)}")
        of_dag = kwargs.get("default_args") or {}
        self.has_own_retries = "retries" not in {**of_dag, **kwargs}
        if self.has_own_retries:
            kwargs["retries"] = FENCED_RETRIES
        super().__init__(**kwargs)
        self.verb = verb
        self.tier = tier
        self.settings = settings
        self.options = options
        self.submit = submit
        self._hook: SubmitHook | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the verb and return its document; raise an error of Airflow if the task fails."""
        document = self._document(context)
        for line in summary(document):
            self.log.info("%s", line)
        shown = shortened(document)
        error = error_of(document, has_own_retries=self.has_own_retries)
        if error is None:
            return shown
        context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, shown)
        raise error

    def on_kill(self) -> None:
        """Stop spark-submit. A verb in this process stops by the signal itself."""
        if self._hook is not None:
            self._hook.on_kill()

    def _document(self, context: Context) -> dict[str, Any]:
        """Run the verb; an error that stops it is in the document, too."""
        try:
            keywords = self._keywords()
            if self.submit is None:
                return self._in_this_process(keywords)
            return self._under_spark_submit(keywords, _attempt(context))
        except (BadSettings, CorruptLog, UnreadableObject) as error:
            return document_of_error(self.verb, error)

    def _keywords(self) -> dict[str, Any]:
        """Return the keyword arguments of the API's function; raises BadSettings."""
        keywords = {**(self.options or {}), "settings": self.settings}
        if keywords.get("partitions_from", ()) is None:
            # As a default it would mean all partitions.
            raise BadSettings(
                "partitions_from is null: the task that it comes from has no document",
                where=f"options of task {self.task_id}",
                remedy="Let this task run only after that one, and clear both.",
            )
        known = inspect.signature(getattr(tierfold, self.verb)).parameters
        for name in keywords:
            if name not in known or name == "tier":
                raise BadSettings(
                    f"tierfold.{self.verb} has no keyword {name!r}",
                    where=f"options of task {self.task_id}",
                    remedy=f"It takes {', '.join(known)}.",
                )
        return keywords

    def _in_this_process(self, keywords: dict[str, Any]) -> dict[str, Any]:
        # A signal ends the verb between two steps, once its claims are released.
        with stoppable():
            document: dict[str, Any] = getattr(tierfold, self.verb)(self.tier, **keywords).to_dict()
        return document

    def _under_spark_submit(self, keywords: dict[str, Any], attempt: str) -> dict[str, Any]:
        arguments = {"name": f"tierfold {self.verb}", **(self.submit or {})}
        application = arguments.pop("application", None) or own_script(self.verb)
        document_folder = arguments.pop("document_folder", None)
        self._hook = hook_of(arguments)
        submission = Submission(verb=self.verb, tier=self.tier, keywords=keywords, attempt=attempt)
        return submitted(self._hook, submission, application, document_folder)


def _attempt(context: Context) -> str:
    """Return a path that names this try of the task, and no other."""
    ti = context["ti"]
    parts = (ti.dag_id, ti.run_id, ti.task_id, f"{ti.map_index}-{ti.try_number}")
    return "/".join(_NOT_IN_A_PATH.sub("_", str(part)) for part in parts)
