"""Storage classes of objects: which ones new objects get, and which cannot be read.

New objects get the classes of those that they replace.

A broker writes all objects of a segment in one class. A lifecycle rule of the bucket may have moved
some of them since, such as the large ones. So each new object is compared with those of its kind,
and of several classes the one that has the most bytes counts: joining is decided by offsets and
sizes alone, and the smaller part then pays the price that most of the group pays already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tierfold.compaction.discovery.listing import ARCHIVES, LOG_PART, ListedSegment, classify
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.wording import counted


def classes_of(
    stored: Mapping[str, ListedSegment], sources: Iterable[Segment]
) -> tuple[tuple[str, str], ...]:
    """The class of each kind of object, by suffix, that replaces `sources`; sorted.

    `stored`: `PartitionView.stored`, by id. A kind that is left out has the store's usual class. Of
    sources that the listing lacks, as this run wrote them, the whole partition decides.
    """
    ids = (source.segment_id for source in sources)
    among = [stored[one] for one in ids if one in stored] or [*stored.values()]
    return tuple(
        (suffix, storage_class)
        for suffix in sorted({suffix for one in among for suffix, _ in one.classes})
        if (storage_class := _most(among, suffix))
    )


def _most(among: Sequence[ListedSegment], suffix: str) -> str:
    """The class with the most bytes, the first by name of equal ones; empty: the usual one."""
    sizes: Counter[str] = Counter()
    for one in among:
        sizes[dict(one.classes).get(suffix, "")] += one.part_bytes(suffix) or 0
    return min(sizes, key=lambda name: (-sizes[name], name))


def to_ask(
    sources: Sequence[ListedSegment],
) -> Iterator[tuple[ListedSegment, frozenset[str]]]:
    """Each segment with the suffixes of the objects whose class is asked for, a request each.

    That is its `.log`; of the largest segment it is all, which stand for others of their kind.
    """
    largest = max(sources, key=lambda one: one.size_bytes, default=None)
    for one in sources:
        every = frozenset(suffix for suffix, _ in one.parts)
        yield one, every if one is largest else every & {LOG_PART}


def with_asked_classes(
    sources: Iterable[ListedSegment], found: Mapping[tuple[str, str], str]
) -> tuple[ListedSegment, ...]:
    """The segments with the classes that were found, by segment id and suffix; empty: the usual.

    What was not found stays as it was.
    """
    of_kind = {suffix: name for (_, suffix), name in found.items() if suffix != LOG_PART}

    def classes(one: ListedSegment) -> Iterator[tuple[str, str]]:
        for suffix, _ in one.parts:
            listed = dict(one.classes).get(suffix, "")
            name = found.get((one.segment_id, suffix), of_kind.get(suffix, listed))
            if name:
                yield suffix, name

    return tuple(replace(one, classes=tuple(classes(one))) for one in sources)


def refused_as_archived(
    listed: Sequence[ListedSegment], state: PartitionState | None
) -> Refusal | None:
    """The refusal if a segment that may be read is archived; None: none is. Nothing was read."""
    classified = classify(listed, state)
    archived = [
        (one, suffix, storage_class)
        for one in (*classified.known, *classified.unknown)
        for suffix, storage_class in one.classes
        if storage_class in ARCHIVES
    ]
    if not archived:
        return None
    first, suffix, storage_class = archived[0]
    return Refusal(
        reason=RefusalReason.ARCHIVED,
        detail=f"{counted(len(archived), 'object')} cannot be read, by brokers neither, such as the"
        f" .{suffix} of {first}: its storage class is {storage_class}",
        remedy="Restore them, copy each over itself in a class that is read at once, and take the"
        " move to an archive out of the bucket's lifecycle rules.",
    )
