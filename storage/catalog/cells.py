"""Checks the catalog's cells: names that Kafka allows, offsets and sizes that exist.

Rows name objects. A topic `../x` or a segment `../../y` would name one outside its partition, so
every cell is checked before it is used. A rule applies to every column of its name, nested or not.

Python checks the values after they are read. Arrow would compile a pattern at every call, which
takes longer than matching a hundred values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tierfold.compaction.model.segment_ids import KAFKA_UUID_PATTERN
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.serving import ConsentKind
from tierfold.storage.kafka.topic_names import NO_TOPICS, TOPIC_PATTERN


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """The values of a column, or of one nested in its lists and structs."""

    name: str
    """With dots, from the column down."""
    values: Sequence[Any]
    """At least one."""
    row_of: Callable[[int], int]
    """(place in `values`) → the row of that value."""


class _Rule(NamedTuple):
    meaning: str
    """The end of a sentence: a value must be …"""
    broken_at: Callable[[Sequence[Any]], list[int]]
    """(values) → the places of those that are not allowed."""


def _spelled(pattern: str, meaning: str, *, but: Sequence[str] = ()) -> _Rule:
    """A text that matches a pattern as a whole; a null does not."""
    matches = re.compile(pattern).fullmatch

    def broken_at(values: Sequence[Any]) -> list[int]:
        return [
            place
            for place, value in enumerate(values)
            if value is None or value in but or not matches(value)
        ]

    return _Rule(meaning, broken_at)


def _negative_at(values: Sequence[Any]) -> list[int]:
    return [place for place, value in enumerate(values) if value is not None and value < 0]


_KAFKA_ID: Final = _spelled(KAFKA_UUID_PATTERN, "an id as Kafka prints it")
_KAFKA_ID_OR_NONE: Final = _spelled(f"(?:{KAFKA_UUID_PATTERN})?", "an id as Kafka prints it")
_RUN: Final = _spelled(r"[!-.0-\[\]-~]{0,249}", "printable, without spaces and slashes")

_RULES: Final[Mapping[str, _Rule]] = {
    "topic": _spelled(TOPIC_PATTERN, "a name that Kafka allows", but=NO_TOPICS),
    "topic_id": _KAFKA_ID,
    "segment_id": _KAFKA_ID,
    "segment_ids": _KAFKA_ID,
    "agrees_with": _KAFKA_ID,
    "forgotten": _KAFKA_ID,
    "copy_of": _KAFKA_ID_OR_NONE,
    "copied_upload": _KAFKA_ID_OR_NONE,
    # `header` is followed by the header's name, any text (`compaction.model.strategies`).
    "strategies": _spelled(r"[a-z][a-z0-9._-]{0,99}(?:=(?s:.+))?", "a strategy's name"),
    "metadata_topic_id": _KAFKA_ID,
    "cluster_id": _spelled(r"[A-Za-z0-9_-]{1,64}", "a cluster's id"),
    "kind": _spelled("|".join(ConsentKind), "a consent that this version knows"),
    "run": _RUN,
    "owner_run": _RUN,
    "written_by_run": _RUN,
    "retired_by_run": _RUN,
} | dict.fromkeys(
    (
        "partition",
        "epoch",
        "offset",
        "log_start_offset",
        "start_offset",
        "end_offset",
        "size_bytes",
        "offset_index_bytes",
        "time_index_bytes",
        "skipped_offsets",
        "skipped_bytes",
        "stored_log_bytes",
        "stored_indexes_bytes",
        "retired_by_epoch",
        "superseded_bytes",
        "since_offset",
        "metadata_partitions",
        "metadata_start",
    ),
    _Rule("not negative", _negative_at),
)
"""By the name of a column or of a struct's field; without a rule any value is allowed."""


def impossible_cells(columns: Iterable[Cells]) -> dict[int, str]:
    """The rows that hold an impossible value, each with a sentence about the first one.

    `columns` are all columns of some rows, with those nested in them.
    """
    found: dict[int, str] = {}
    for cells in columns:
        for place, sentence in _broken(cells):
            found.setdefault(cells.row_of(place), sentence)
    return found


def _broken(cells: Cells) -> Iterator[tuple[int, str]]:
    """The place of each impossible value, and a sentence about it."""
    values = cells.values
    rule = _RULES.get(cells.name.rpartition(".")[2])
    if rule is not None:
        for place in rule.broken_at(values):
            yield place, f"{cells.name} is {values[place]!r}, which is not {rule.meaning}"
    if not isinstance(values[0], Segment):
        return
    for place, segment in enumerate(values):
        if segment.end_offset < segment.start_offset:
            found = f"{cells.name}.end_offset is {segment.end_offset}"
            yield place, f"{found}, which is not at or above start_offset"
        if segment.skipped_offsets > segment.start_offset:
            found = f"{cells.name}.skipped_offsets is {segment.skipped_offsets}"
            yield place, f"{found}, which is not at or below start_offset"
