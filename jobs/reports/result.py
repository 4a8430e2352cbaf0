"""The result of a verb: one value with a side for programs and a side for people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from tierfold.compaction.model.segments import PartitionKey, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a verb reports; `jobs.cli.output` prints one side and chooses the exit code."""

    document: Callable[[], dict[str, Any]]
    """Returns the document that `--json` prints."""
    print_tables: Callable[[Console], None]
    """Prints the tables, for people."""
    outcomes: Collection[str] = ()
    """The partitions' outcomes, by which the exit code is chosen."""
    bytes_in: int = 0
    """Bytes of the logs that were compacted, by which the cost of requests is divided."""


def document(entries: Iterable[dict[str, Any]], **of_all: int | str) -> dict[str, Any]:
    """Return a document with an entry per partition; `of_all`: what concerns all partitions."""
    return {"partitions": list(entries), **of_all}


def named(key: PartitionKey) -> dict[str, Any]:
    """Return the fields that name the partition of an entry."""
    return fields(key, "topic", "partition", "topic_id")


def named_segment(segment: Segment, *more: str) -> dict[str, Any]:
    """Return the segment's id, offsets and bytes, and the fields `more`."""
    found = fields(segment, "start_offset", "end_offset", "size_bytes", *more)
    return {"id": segment.segment_id, **found}


def fields(value: object, *names: str) -> dict[str, Any]:
    """Return these fields of `value`, tuples as lists."""
    found = {name: getattr(value, name) for name in names}
    return {name: list(one) if isinstance(one, tuple) else one for name, one in found.items()}
