"""Receipts: how a worker's report contradicts its group, the scan or the listing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.builders import a_chain, a_segment, listed
from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.cleaning.group_outcome import RewriteReason
from tierfold.compaction.commits.receipts import (
    GroupReceipt,
    GroupResult,
    StagedPart,
    VerifiedParts,
    WrittenSegment,
    listing_violations,
    receipt_violations,
    result_of,
)
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.storage.tiers.local_tiered_storage import REQUIRED_PARTS

FIRST, SECOND, THIRD, FOURTH = a_chain(10, 10, 10, 10)
PAIR = SegmentGroup(segments=(FIRST, SECOND))
SINGLE = SegmentGroup(segments=(THIRD,))
LAST = SegmentGroup(segments=(FOURTH,))
GROUPS = (PAIR, SINGLE, LAST)

SIZES = dict.fromkeys(REQUIRED_PARTS, 10) | {"log": 700, "index": 8, "timeindex": 12}
STAGED = tuple(StagedPart(part=part, size_bytes=size, crc32c=1) for part, size in SIZES.items())
NEW = WrittenSegment(
    segment=a_segment(0, 19, segment_id="N" * 22, size_bytes=700),
    staged=STAGED,
    verified=VerifiedParts(by_checksum=1, by_reading_back=len(STAGED) - 1),
    stored=tuple(SIZES.items()),
)
WRITTEN = GroupReceipt(
    group_index=0,
    result=GroupResult.WRITTEN,
    counts=Counts(
        records_in=20, kept=15, superseded=5, record_bytes_in=90, kept_bytes=60, superseded_bytes=30
    ),
    bytes_read=2000,
    bytes_written=700,
    records_written=15,
    written=(NEW,),
)
UNCHANGED = GroupReceipt(
    group_index=1,
    result=GroupResult.UNCHANGED,
    counts=Counts(records_in=4, kept=4, record_bytes_in=40, kept_bytes=40),
    bytes_read=1000,
    bytes_written=0,
)
EMPTIED = GroupReceipt(
    group_index=2,
    result=GroupResult.WRITTEN,
    counts=Counts(records_in=3, aborted=3, record_bytes_in=30, aborted_bytes=30),
    bytes_read=1000,
    bytes_written=61,
    written=(
        WrittenSegment(
            segment=a_segment(30, 39, segment_id="E" * 22, size_bytes=61),
            staged=tuple(
                replace(entry, size_bytes=61) if entry.part == "log" else entry for entry in STAGED
            ),
            verified=VerifiedParts(by_reading_back=len(STAGED)),
            stored=(),
        ),
    ),
)
SOUND = (WRITTEN, UNCHANGED, EMPTIED)
RECORDS, RECORD_BYTES = 27, 160


def violations(
    *receipts: GroupReceipt, records: int = RECORDS, record_bytes: int = RECORD_BYTES
) -> str:
    found = receipt_violations(
        GROUPS, receipts, records_scanned=records, record_bytes_scanned=record_bytes
    )
    return "; ".join(found)


def with_new(**changed: Any) -> GroupReceipt:
    """`WRITTEN`, with these changes of its new segment."""
    return replace(WRITTEN, written=(replace(NEW, **changed),))


def with_sizes(**sizes: int) -> tuple[StagedPart, ...]:
    """The objects of `WRITTEN`, some of another size."""
    return tuple(
        replace(entry, size_bytes=sizes.get(entry.part, entry.size_bytes)) for entry in STAGED
    )


def test_sound_receipts_violate_nothing() -> None:
    assert violations(*SOUND) == ""
    assert receipt_violations((), (), records_scanned=0, record_bytes_scanned=0) == ()


def in_two(first: Segment, last: Segment) -> GroupReceipt:
    """`WRITTEN`, if the group became two segments of 700 bytes."""
    written = (replace(NEW, segment=first), replace(NEW, segment=last))
    return replace(WRITTEN, written=written, bytes_written=1400)


def test_several_segments_of_a_group_cover_it_together() -> None:
    first, last = spanning(0, 7, "F" * 22), spanning(8, 19)
    sound = in_two(first, last)
    assert [one.segment for one in sound.written] == [first, last]
    assert violations(sound, UNCHANGED, EMPTIED) == ""
    for wrong, violation in (
        (in_two(first, spanning(9, 19)), "the new segment covers [9, 19]"),
        (in_two(first, spanning(7, 19)), "the new segment covers [7, 19]"),
        (in_two(first, spanning(8, 18)), "the new segment covers [8, 18]"),
        (in_two(spanning(1, 7, "F" * 22), last), "the new segment covers [1, 7]"),
        (in_two(spanning(0, 7, FIRST.segment_id), last), "the new segment has the id of a source"),
        (replace(sound, bytes_written=700), "700 bytes written, 1400 named"),
    ):
        assert violations(wrong, UNCHANGED, EMPTIED) == f"group [0, 19]: {violation}"


def test_for_brokers_the_first_segment_begins_at_the_groups_own_start() -> None:
    cut = replace(FIRST, skipped_offsets=5, start_offset=5)
    group = SegmentGroup(segments=(cut, SECOND), is_for_brokers=True)
    begun = replace(spanning(5, 7, "F" * 22), skipped_offsets=5)
    for first, last, expected in (
        (begun, spanning(8, 19), ()),
        (spanning(5, 7, "F" * 22), spanning(8, 19), (5,)),
        (begun, replace(spanning(8, 19), skipped_offsets=2), (6,)),
    ):
        assert receipt_violations(
            [group], [in_two(first, last)], records_scanned=20, record_bytes_scanned=90
        ) == tuple(
            f"group [5, 19]: the new segment's own range begins at {start}" for start in expected
        )


def test_the_objects_of_all_segments_of_a_group_are_listed() -> None:
    receipt = in_two(spanning(0, 7, "F" * 22), spanning(8, 19))
    found = [
        replace(listed(one.segment), parts=tuple(sorted(one.stored))) for one in receipt.written
    ]
    assert listing_violations([receipt], found) == ()
    assert len(listing_violations([receipt], found[1:])) == len(SIZES)
    assert len(listing_violations([receipt], found[:1])) == len(SIZES)


@pytest.mark.parametrize("count", [0, 2])
def test_every_group_has_its_receipt(count: int) -> None:
    assert violations(*SOUND[:count]) == f"3 groups were planned, {count} receipts came back"


@pytest.mark.parametrize("more", [-1, 1])
def test_the_rewrite_read_what_the_scan_counted(more: int) -> None:
    expected = f"the scan counted {27 + more} records, the rewrite 27"
    assert violations(*SOUND, records=27 + more) == expected
    expected = f"the scan counted {160 + more} record bytes, the rewrite 160"
    assert violations(*SOUND, record_bytes=160 + more) == expected


def spanning(start: int, end: int, name: str = "N" * 22, size_bytes: int = 700) -> Segment:
    return a_segment(start, end, segment_id=name, size_bytes=size_bytes)


UNCHANGED_LOST: Final = "reported as unchanged, but records were removed or segments merged"
ALL_KEPT: Final = Counts(records_in=20, kept=20, record_bytes_in=90, kept_bytes=90)


@pytest.mark.parametrize(
    ("changed", "violation"),
    [
        *(
            ({"records_written": written}, f"15 records were kept, {written} written")
            for written in (0, 14, 16)
        ),
        *(
            ({"result": result, "written": (), "counts": ALL_KEPT}, UNCHANGED_LOST)
            for result in (GroupResult.UNCHANGED, GroupResult.NOT_READ)
        ),
        ({"written": ()}, "written, but no segment is named"),
        *(
            ({"segment": spanning(*span)}, f"the new segment covers {[*span]}")
            for span in ((1, 19), (0, 18), (0, 20))
        ),
        *(
            (
                {"segment": spanning(0, 19, source.segment_id)},
                "the new segment has the id of a source",
            )
            for source in (FIRST, SECOND)
        ),
        *(
            (
                {
                    "segment": spanning(0, 19, size_bytes=named),
                    "bytes_written": written,
                    "staged": with_sizes(log=named),
                },
                f"{written} bytes written, {named} named",
            )
            for written, named in ((0, 0), (700, 701), (700, 0))
        ),
        *(
            (
                {"staged": with_sizes(**{part: SIZES[part] + 1})},
                f".{part} of {SIZES[part] + 1} bytes was written, {SIZES[part]} named",
            )
            for part in ("log", "index", "timeindex")
        ),
        *(
            (
                {"verified": VerifiedParts(by_checksum=verified)},
                f"{len(STAGED)} parts were written, {verified} verified",
            )
            for verified in (0, len(STAGED) - 1, len(STAGED) + 1)
        ),
    ],
)
def test_a_receipt_that_contradicts_its_group_is_a_violation(
    changed: dict[str, Any], violation: str
) -> None:
    of_segment = {name: value for name, value in changed.items() if hasattr(NEW, name)}
    of_receipt = {name: value for name, value in changed.items() if name not in of_segment}
    wrong = replace(with_new(**of_segment), **of_receipt)
    assert violations(wrong, UNCHANGED, EMPTIED) == f"group [0, 19]: {violation}"


@pytest.mark.parametrize(
    "change", [{"kept": 14}, {"superseded": 6}, {"record_bytes_in": 91}, {"aborted_bytes": 1}]
)
def test_counts_add_up(change: dict[str, int]) -> None:
    wrong = replace(WRITTEN, counts=replace(WRITTEN.counts, **change))
    assert violations(wrong, UNCHANGED, EMPTIED).startswith(
        "group [0, 19]: the counts do not add up: Counts("
    )


def test_an_unchanged_group_lost_nothing() -> None:
    counts = Counts(records_in=4, kept=3, aborted=1, record_bytes_in=40, kept_bytes=30)
    wrong = replace(UNCHANGED, counts=replace(counts, aborted_bytes=10))
    assert violations(WRITTEN, wrong, EMPTIED) == f"group [20, 29]: {UNCHANGED_LOST}"


def test_no_group_is_left_without_a_segment() -> None:
    wrong = replace(EMPTIED, result=GroupResult.EMPTY, written=())
    expected = "group [30, 39]: no segment was written for its offsets"
    assert violations(WRITTEN, UNCHANGED, wrong) == expected


def test_a_written_group_has_objects() -> None:
    expected = "group [0, 19]: no objects were written"
    wrong = with_new(staged=(), verified=VerifiedParts())
    assert violations(wrong, UNCHANGED, EMPTIED) == expected


@pytest.mark.parametrize("is_named", [True, False])
def test_a_transaction_index_is_written_if_the_segment_has_one(is_named: bool) -> None:
    index = StagedPart(part="txnindex", size_bytes=34, crc32c=1)
    named = replace(NEW.segment, has_transaction_index=is_named)
    right = (*STAGED, index) if is_named else STAGED
    wrong = STAGED if is_named else (*STAGED, index)
    for staged, sound in ((right, True), (wrong, False)):
        verified = VerifiedParts(by_reading_back=len(staged))
        receipt = with_new(segment=named, staged=staged, verified=verified)
        assert (violations(receipt, UNCHANGED, EMPTIED) == "") == sound


ENCODED: Final = replace(
    spanning(0, 19), stored_log_bytes=900, stored_indexes_bytes=50, has_transaction_index=False
)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({"log": 900, "indexes": 50, "rsm-manifest": 7}, ""),
        (
            {"log": 700, "indexes": 50, "rsm-manifest": 7},
            "group [0, 19]: .log of 700 bytes was stored, 900 named",
        ),
        (
            {"log": 900, "rsm-manifest": 7},
            "group [0, 19]: .indexes of None bytes was stored, 50 named",
        ),
    ],
)
def test_stored_sizes_are_those_of_the_objects(stored: dict[str, int], expected: str) -> None:
    receipt = with_new(segment=ENCODED, stored=tuple(stored.items()))
    assert violations(receipt, UNCHANGED, EMPTIED) == expected


def test_all_violations_are_reported_at_once() -> None:
    counts = replace(UNCHANGED.counts, kept=3)
    found = violations(replace(WRITTEN, written=()), replace(UNCHANGED, counts=counts), EMPTIED)
    assert found.count("group [") == 3


# The listing after the rewrite.

LISTED = replace(
    listed(a_segment(0, 19, segment_id="N" * 22)), parts=tuple(sorted(SIZES.items()))
)
NAME = f"{0:020d}-{'N' * 22}"


def listing_with(**sizes: int | None) -> ListedSegment:
    """`LISTED` with other sizes; None: that object is not there."""
    found = ((part, sizes.get(part, size)) for part, size in LISTED.parts)
    parts = tuple((part, size) for part, size in found if size is not None)
    missing = tuple(part for part, size in sizes.items() if size is None)
    return replace(LISTED, parts=parts, missing_parts=missing)


@pytest.mark.parametrize("part", REQUIRED_PARTS)
def test_every_object_that_the_layout_requires_was_written(part: str) -> None:
    wrong = with_new(stored=tuple(entry for entry in SIZES.items() if entry[0] != part))
    found = listing_violations((wrong, UNCHANGED), [listing_with(**{part: None})])
    assert found == (f"{NAME}.{part} was not written",)


def test_objects_as_written_are_no_violation() -> None:
    assert listing_violations((WRITTEN, UNCHANGED), [listed(FIRST), LISTED]) == ()


@pytest.mark.parametrize("part", REQUIRED_PARTS)
def test_an_object_that_is_gone_is_named(part: str) -> None:
    expected = f"{NAME}.{part} was {SIZES[part]} bytes and is gone"
    assert listing_violations((WRITTEN, UNCHANGED), [listing_with(**{part: None})]) == (expected,)


@pytest.mark.parametrize("part", REQUIRED_PARTS)
@pytest.mark.parametrize("more", [-1, 1])
def test_an_object_of_another_size_is_named(part: str, more: int) -> None:
    size = SIZES[part]
    expected = f"{NAME}.{part} was {size} bytes and has {size + more}"
    found = listing_violations((WRITTEN, UNCHANGED), [listing_with(**{part: size + more})])
    assert found == (expected,)


def test_every_object_of_a_missing_segment_is_reported() -> None:
    assert len(listing_violations((WRITTEN, UNCHANGED), [])) == len(REQUIRED_PARTS)


@pytest.mark.parametrize(
    ("reason", "bytes_kept", "result"),
    [
        (None, 0, GroupResult.UNCHANGED),
        (None, 61, GroupResult.UNCHANGED),
        *((reason, 0, GroupResult.EMPTY) for reason in RewriteReason),
        *((reason, 1, GroupResult.WRITTEN) for reason in RewriteReason),
        *((reason, 61, GroupResult.WRITTEN) for reason in RewriteReason),
    ],
)
def test_a_group_with_a_reason_is_written_or_empty(
    reason: RewriteReason | None, bytes_kept: int, result: GroupResult
) -> None:
    assert result_of(reason, bytes_kept) is result
