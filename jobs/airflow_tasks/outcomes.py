"""Decides what a task does with a verb's JSON document: fail, retry, succeed; what goes into XCom.

A wrong setting fails the task for good. A fenced run is retried. A failed, refused or unreadable
partition fails the task, and is retried only if the DAG asks for retries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tierfold.compaction.model.wording import counted
from tierfold.jobs.pipeline.partition_report import LEFT
from tierfold.jobs.reports.result import BAD_SETTINGS, NEEDS_A_PERSON, NEEDS_ANOTHER_RUN

NEVER_RETRIED: Final = frozenset({BAD_SETTINGS})
RETRIED: Final = frozenset(NEEDS_ANOTHER_RUN)
"""Another run was faster; nothing is wrong, so the next try may succeed."""
FAILS: Final = frozenset(NEEDS_A_PERSON)

XCOM_PARTITIONS_MAX: Final = 500
"""Up to this many partitions, XCom gets the whole document: about half a megabyte of `plan`."""

PARTITIONS_LOGGED: Final = 20
"""Maximum partitions in need of attention that are logged; XCom has all of them."""

_ALWAYS_KEPT: Final = ("topic", "partition", "topic_id", "outcome", "bytes_in")


def error_of(document: Mapping[str, Any], *, has_own_retries: bool) -> AirflowException | None:
    """Return what the task raises; None: it succeeds.

    `has_own_retries`: the DAG asked for no retries, those of the task are for fenced runs only.
    """
    outcome = document["outcome"]
    if outcome not in NEVER_RETRIED | RETRIED | FAILS:
        return None
    sentence = f"tierfold {document['verb']}: {outcome}: {document['reason']}"
    is_final = outcome in NEVER_RETRIED or (outcome in FAILS and has_own_retries)
    return AirflowFailException(sentence) if is_final else AirflowException(sentence)


def summary(document: Mapping[str, Any]) -> Iterable[str]:
    """Return lines for the task's log: the outcome, and the partitions that need attention."""
    entries = document["partitions"]
    yield f"tierfold {document['verb']}: {document['outcome']}"
    yield from document["warnings"]
    left = Counter(entry["held_by"] for entry in entries if _is_left_to_another(entry))
    for run, count in left.items():
        yield f"{counted(count, 'partition')} left to run {run}, which is at work"
    concerning = [entry for entry in entries if _concerns(entry)]
    for entry in concerning[:PARTITIONS_LOGGED]:
        name = f"{entry['topic']}-{entry['partition']}"
        yield f"{name}: {entry['outcome']}: {entry['reason']}"
    more = len(concerning) - PARTITIONS_LOGGED
    if more > 0:
        yield f"and {more} more partitions; XCom has them"


def shortened(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document for XCom, which Airflow keeps in its database.

    Of more than `XCOM_PARTITIONS_MAX` partitions, an entry keeps its name, outcome and bytes, and
    its reason if it needs attention; the document then has `"shortened": true`.
    """
    entries = document["partitions"]
    if len(entries) <= XCOM_PARTITIONS_MAX:
        return document
    return {**document, "partitions": [_short(entry) for entry in entries], "shortened": True}


def _short(entry: Mapping[str, Any]) -> dict[str, Any]:
    kept = (*_ALWAYS_KEPT, "reason") if _concerns(entry) else _ALWAYS_KEPT
    return {name: entry[name] for name in kept if name in entry}


def _is_left_to_another(entry: Mapping[str, Any]) -> bool:
    return entry["outcome"] == LEFT and "held_by" in entry


def _concerns(entry: Mapping[str, Any]) -> bool:
    return entry["outcome"] in RETRIED | FAILS
