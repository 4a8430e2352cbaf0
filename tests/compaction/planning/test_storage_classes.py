"""New objects get the classes of what they replace; what is archived is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.builders import a_chain, a_state, facts, listed, retired, unknown
from tierfold.compaction.discovery.draft import PartitionDraft, drafted
from tierfold.compaction.discovery.drafted_view import view_of
from tierfold.compaction.discovery.listing import ListedSegment, classify
from tierfold.compaction.discovery.overlaps import OverlapProof
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.storage_classes import (
    classes_of,
    refused_as_archived,
    to_ask,
    with_asked_classes,
)

FIRST, SECOND, THIRD = a_chain(10, 10, 10)


def stored(segment: Segment, size_bytes: int = 1000, **classes: str) -> ListedSegment:
    """Its listing: a `.log` of that size, an `.index` of 10 bytes; by suffix, their classes."""
    parts = (("index", 10), ("log", size_bytes))
    return replace(listed(segment), parts=parts, classes=tuple(sorted(classes.items())))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param((), (), id="the usual class"),
        pytest.param(
            (stored(FIRST, log="IA", index="IA"),), (("index", "IA"), ("log", "IA")), id="one class"
        ),
        pytest.param((stored(FIRST, log="IA"),), (("log", "IA"),), id="only the log was moved"),
        pytest.param(
            (stored(FIRST, 900, log="IA"), stored(SECOND, 1000)), (), id="most bytes are usual"
        ),
        pytest.param(
            (stored(FIRST, 1001, log="IA"), stored(SECOND, 1000)),
            (("log", "IA"),),
            id="most bytes are not",
        ),
        pytest.param(
            (stored(FIRST, log="IR"), stored(SECOND, log="IA")),
            (("log", "IA"),),
            id="of equal ones the first by name",
        ),
        pytest.param(
            (stored(FIRST, 10, log="IA"), stored(THIRD, 10**6, log="IR")),
            (("log", "IA"),),
            id="what is not replaced has no say",
        ),
        pytest.param(
            (stored(THIRD, log="IR"),), (("log", "IR"),), id="sources that this run has written"
        ),
    ],
)
def test_each_kind_of_object_gets_the_class_with_the_most_bytes(
    found: tuple[ListedSegment, ...], expected: tuple[tuple[str, str], ...]
) -> None:
    by_id = {one.segment_id: one for one in found}
    assert classes_of(by_id, (FIRST, SECOND)) == expected


def test_a_view_has_the_listing_if_something_has_a_class() -> None:
    state = a_state((FIRST,))
    for classes in ((), (("log", "IA"),)):
        added = unknown(SECOND)
        added = replace(added, listed=replace(added.listed, classes=classes))
        found = replace(facts(state, [added]), classified=classify([listed(FIRST)], state))
        draft = drafted(found)
        assert isinstance(draft, PartitionDraft)
        view = view_of(draft, OverlapProof(cuts={}))
        assert not hasattr(view, "remedy")
        assert view.stored == ((listed(FIRST), added.listed) if classes else ())


@pytest.mark.parametrize("storage_class", ["GLACIER", "DEEP_ARCHIVE", "Archive"])
def test_what_is_archived_is_refused(storage_class: str) -> None:
    found = [stored(FIRST), stored(SECOND, log=storage_class, index=storage_class)]
    for state in (None, a_state((FIRST, SECOND)), a_state((FIRST,))):
        refusal = refused_as_archived(found, state)
        assert refusal is not None
        assert refusal.reason is RefusalReason.ARCHIVED
        assert refusal.detail.startswith("2 objects cannot be read")
        assert SECOND.segment_id in refusal.detail
        assert f"its storage class is {storage_class}" in refusal.detail


@pytest.mark.parametrize("storage_class", ["GLACIER_IR", "STANDARD_IA", "ARCHIVE", "Cold"])
def test_what_is_read_at_once_is_not(storage_class: str) -> None:
    assert refused_as_archived([stored(FIRST, log=storage_class)], None) is None


def test_what_is_not_read_may_be_archived() -> None:
    state = a_state((FIRST,), retired=(retired(SECOND),))
    found = [stored(FIRST), stored(SECOND, log="GLACIER")]
    assert refused_as_archived(found, state) is None


def test_each_log_is_asked_for_and_the_other_objects_of_the_largest_segment() -> None:
    found = [stored(FIRST, 10), stored(SECOND, 30), stored(THIRD, 20)]
    assert [suffixes for _, suffixes in to_ask(found)] == [{"log"}, {"log", "index"}, {"log"}]
    assert list(to_ask([])) == []


def test_what_was_asked_for_counts_and_stands_for_its_kind() -> None:
    listed = [stored(FIRST, log="IA", index="IA"), stored(SECOND, log="IA"), stored(THIRD)]
    log, index = (FIRST.segment_id, "log"), (SECOND.segment_id, "index")
    found = with_asked_classes(listed, {log: "", index: "IR", (SECOND.segment_id, "log"): "IR"})
    assert [one.classes for one in found] == [
        (("index", "IR"),),  # The setting had named its class.
        (("index", "IR"), ("log", "IR")),
        (("index", "IR"),),
    ]
    usual = with_asked_classes(listed, {log: "IR", index: ""})
    assert [one.classes for one in usual] == [(("log", "IR"),), (("log", "IA"),), ()]
