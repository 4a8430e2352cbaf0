"""Reads a list of partitions: a verb's JSON document, or a list of topics and numbers.

So `compact` takes the partitions that `plan` found due, `verify` those that were compacted, and
`vacuum` those that `verify` found sound.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.context.documents import read_document
from tierfold.jobs.context.scope import Listed

TAKEN: Final = frozenset({"planned", "compacted", "sound"})
"""The outcomes of partitions that the next verb takes."""

STDIN: Final = "-"

_FORM: Final = (
    "Give the document of `tierfold plan --json`, or a list such as"
    ' [{"topic": "orders", "partition": 0}].'
)


def partitions_from(place: str) -> frozenset[Listed]:
    """Return the partitions that a file, an object or stdin (`-`) lists.

    Raises BadSettings if it is not such a list, UnreadableObject if it cannot be read.
    """
    where = "stdin" if place == STDIN else place
    text = sys.stdin.read() if place == STDIN else read_document(place)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise BadSettings("this is not JSON", where=where, remedy=_FORM) from None
    return partitions_in(document, where=where)


def partitions_in(document: object, *, where: str) -> frozenset[Listed]:
    """Return the partitions that a document or a list names; raises BadSettings.

    An entry with an outcome counts if that is one of `TAKEN`; one without always counts.
    """
    entries = document.get("partitions") if isinstance(document, Mapping) else document
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise BadSettings("this is not a list of partitions", where=where, remedy=_FORM)
    listed = (
        _listed(entry, f"{where}, entry {number}") for number, entry in enumerate(entries)
    )
    return frozenset(partition for outcome, partition in listed if outcome in {None, *TAKEN})


def _listed(
    entry: Any, where: str  # noqa: ANN401 - whatever JSON holds
) -> tuple[str | None, Listed]:
    """Its outcome, if it has one, and the partition."""
    found = entry if isinstance(entry, Mapping) else {}
    outcome = found.get("outcome")
    if outcome is not None and type(outcome) is not str:
        raise BadSettings("the outcome is no text", where=where, remedy=_FORM)
    topic, partition = found.get("topic"), found.get("partition")
    topic_id = found.get("topic_id", "")
    if type(topic) is not str or type(partition) is not int or type(topic_id) is not str:
        raise BadSettings("this names no topic and partition", where=where, remedy=_FORM)
    return outcome, Listed(topic, partition, topic_id)
