"""Runs a verb under spark-submit, and reads the document that it wrote.

spark-submit mixes the driver's output with its own, and on a cluster shows none of it. So the
driver writes its document to a file of its own, `--document`, whatever the outcome is.
"""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowException

import tierfold.jobs
from tierfold.compaction.model.errors import BadSettings, TierfoldError
from tierfold.jobs.airflow_tasks.submit_hook import SubmitHook
from tierfold.jobs.api.setting_texts import as_texts
from tierfold.jobs.context.documents import read_document, write_document
from tierfold.storage.private_folders import scratch_parent

_OPTIONS: Final = {
    "topics": "--topic",
    "partitions": "--partition",
    "settings": "--set",
    "encryption_keys": "--encryption-key",
    "log_dirs": "--log-dir",
    "now_ms": "--now",
    "local_max_bytes": "--local-max",
    "max_duration_ms": "--max-duration",
    "grace_ms": "--grace-period",
    "orphan_age_ms": "--orphan-age",
}
"""The option of a keyword, if its name differs."""

_OPPOSITES: Final = {"publish": "--no-publish"}
"""The option of a keyword that is False, if that differs from leaving it out."""

_DURATIONS: Final = frozenset({"max_duration_ms", "grace_ms", "orphan_age_ms"})
_NOT_TAKEN: Final = frozenset(
    {"application_args", "track_driver_via_k8s_api", "yarn_track_via_rm_api", "yarn_rm_auth"}
)
"""Arguments of the provider's hook: the verb's own, and those to return before the driver ends."""

_OF_THIS_PROCESS: Final = ("spark", "progress", "check")
"""Keywords that need the caller's process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A verb to run under spark-submit."""

    verb: str
    tier: str
    keywords: Mapping[str, Any]
    """The keyword arguments of the API's function."""
    attempt: str
    """A path that no other try of a task has, to name the documents by."""


def hook_of(arguments: Mapping[str, Any]) -> SubmitHook:
    """Return a hook with these arguments; raises BadSettings for those that it does not take."""
    known = inspect.signature(SparkSubmitHook).parameters.keys() - _NOT_TAKEN
    for name in arguments:
        if name not in known:
            raise BadSettings(
                f"spark-submit of a verb takes no argument {name!r}",
                where="submit",
                remedy=f"It takes {', '.join(sorted(known))}, application and document_folder.",
            )
    return SubmitHook(**arguments)


def submitted(
    hook: SubmitHook, submission: Submission, application: str, document_folder: str | None
) -> dict[str, Any]:
    """Run the verb; return its document, whatever the exit code of spark-submit is.

    `application`: the verb's script. `document_folder`: a folder or URI that the driver can write
    and this process can read; None: a temporary folder.

    Raises BadSettings for keywords that spark-submit cannot take; AirflowException if there is no
    document, with the launcher's error.
    """
    if hook.is_cluster and document_folder is None:
        raise BadSettings(
            "the driver runs on the cluster, so its document needs a place that both can reach",
            where="submit",
            remedy='Give "document_folder", such as s3://bucket/airflow.',
        )
    with _folder(document_folder, submission.attempt) as folder:
        document = f"{folder}/document.json"
        words = words_of(submission, folder)
        launcher_error = _error_of_run(hook, application, [*words, "--document", document])
        try:
            found: dict[str, Any] = json.loads(read_document(document))
        except (TierfoldError, ValueError) as error:
            raise AirflowException(
                f"the driver of tierfold {submission.verb} wrote no document, so its outcome is not"
                f" known ({error}). spark-submit: {launcher_error or 'ended without an error'}"
            ) from launcher_error
    return found


def words_of(submission: Submission, folder: str) -> list[str]:
    """Return the arguments of the verb's script; lists of partitions are written to `folder`."""
    keywords = dict(submission.keywords)
    for name in _OF_THIS_PROCESS:
        if keywords.pop(name, None) is not None:
            raise BadSettings(
                f"{name} works only in this process",
                where="options",
                remedy="Leave it out, or leave out `submit`.",
            )
    place = keywords.get("partitions_from")
    if place is not None and not isinstance(place, str):
        keywords["partitions_from"] = f"{folder}/partitions.json"
        write_document(keywords["partitions_from"], place)
    arguments = [submission.tier, *filter(None, [keywords.pop("partition", None)])]
    return [
        *arguments,
        *(word for name, value in keywords.items() for word in _option(name, value)),
    ]


def own_script(verb: str) -> str:
    """Return the path of the verb's script in this installation."""
    return str(Path(tierfold.jobs.__file__).parent / f"{verb}_job.py")


def _error_of_run(
    hook: SubmitHook, application: str, arguments: list[str]
) -> AirflowException | None:
    """Run spark-submit; return its error, which the document explains better if there is one."""
    try:
        hook.run(application, arguments)
    except AirflowException as error:
        return error
    return None


@contextmanager
def _folder(document_folder: str | None, attempt: str) -> Iterator[str]:
    """The folder of a try's documents; a temporary one is deleted again."""
    if document_folder is not None:
        yield f"{document_folder.rstrip('/')}/{attempt}"
        return
    with tempfile.TemporaryDirectory(prefix="tierfold-", dir=scratch_parent()) as folder:
        yield folder


def _option(name: str, value: Any) -> Iterator[str]:  # noqa: ANN401 - as the API's keywords
    option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
    match value:
        case False if name in _OPPOSITES:
            yield _OPPOSITES[name]
        case None | False:
            return
        case True:
            yield option
        case Mapping():
            for text in as_texts(value):
                yield from (option, text)
        case list() | tuple():
            for one in value:
                yield from (option, str(one))
        case _:
            yield from (option, f"{value}ms" if name in _DURATIONS else str(value))
