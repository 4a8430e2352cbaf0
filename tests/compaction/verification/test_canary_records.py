"""What brokers gave is compared as an obvious model does, and each difference is seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from tierfold.compaction.model.units import OffsetSpan
from tierfold.compaction.verification.canary import Difference, Differs
from tierfold.compaction.verification.canary_records import (
    NO_RECORDS,
    Agreement,
    Expected,
    Field,
    LocalCopies,
    RecordDigests,
    compared,
    digested,
    first_dropped,
    joined_records,
)

Content: TypeAlias = "tuple[int, bytes | None, bytes | None]"
"""Timestamp, key and value of a record."""
Log: TypeAlias = "dict[int, Content]"

OFFSETS: Final = 12
SPAN: Final = OffsetSpan(start=0, end=OFFSETS)
A: Final[Content] = (7, b"a", b"1")


def digests_of(log: Mapping[int, Content]) -> RecordDigests:
    """The records of a log, by offset."""
    rows = sorted(log.items())
    fields = [content[1] for _, content in rows] + [content[2] for _, content in rows]
    sizes = np.array([-1 if field is None else len(field) for field in fields], np.int32)
    starts = np.cumsum([0, *np.maximum(sizes, 0)], dtype=np.int64)[:-1]
    count = len(rows)
    return digested(
        np.frombuffer(b"".join(field or b"" for field in fields), np.uint8),
        np.array([offset for offset, _ in rows], np.int64),
        np.array([content[0] for _, content in rows], np.int64),
        Field(starts[:count], sizes[:count]),
        Field(starts[count:], sizes[count:]),
    )


def model(
    span: OffsetSpan,
    given: Log,
    live: Log,
    sources: Sequence[Log],
    others: Sequence[Log],
    local: LocalCopies,
) -> Agreement | Differs:
    """Offset by offset, with dictionaries."""
    offsets = range(span.start, span.end)
    for offset in offsets:
        difference = None
        is_upload = any(one.start <= offset < one.end for one in local.uploads)
        is_known = offset < local.gone_before or is_upload
        if offset in live:
            if offset not in given:
                difference = Difference.MISSING
            elif given[offset] != live[offset]:
                difference = Difference.CHANGED
        elif offset in given and is_known and all(
            log.get(offset) != given[offset] for log in (*sources, *others)
        ):
            difference = Difference.FOREIGN
        if difference is not None:
            return Differs(offset=offset, difference=difference)
    dropped = [
        offset
        for offset in offsets
        if offset not in live and any(offset in log for log in sources)
    ]
    read = [offset for offset in dropped if offset in given]
    return Agreement(
        records=sum(offset in given for offset in offsets),
        missing_dropped=len(dropped) - len(read),
        read_dropped=len(read),
        stale_offset=next((offset for offset in read if offset < local.gone_before), None),
    )


CONTENTS: Final = st.tuples(
    st.integers(-1, 1), st.sampled_from([None, b"", b"k"]), st.sampled_from([None, b"", b"v"])
)
SPANS: Final = st.tuples(st.integers(0, OFFSETS), st.integers(0, OFFSETS)).map(
    lambda ends: OffsetSpan(start=min(ends), end=max(ends))
)


@st.composite
def logs(draw: st.DrawFn) -> tuple[Log, Log, list[Log], list[Log]]:
    """What was given, live, sources and others: mostly parts of one log, with a few changes."""
    whole = {offset: draw(CONTENTS) for offset in range(OFFSETS)}
    some = st.sets(st.integers(0, OFFSETS - 1))

    def part() -> Log:
        log = {offset: whole[offset] for offset in draw(some)}
        if draw(st.integers(0, 3)) == 0:
            log[draw(st.integers(0, OFFSETS - 1))] = draw(CONTENTS)
        return log

    live, sources, others = part(), [part(), part()], [part()]
    given = draw(st.sampled_from([part(), live, {**sources[0], **live}, {**others[0], **live}]))
    return given, live, sources, others


@drawn(logs(), SPANS, st.integers(0, OFFSETS), st.lists(SPANS, max_size=2))
def test_a_comparison_is_as_the_model_says(
    found: tuple[Log, Log, list[Log], list[Log]],
    span: OffsetSpan,
    gone_before: int,
    uploads: list[OffsetSpan],
) -> None:
    given, live, sources, others = found
    local = LocalCopies(gone_before=gone_before, uploads=tuple(uploads))
    expected = Expected(
        live=digests_of(live),
        sources=tuple(map(digests_of, sources)),
        others=tuple(map(digests_of, others)),
        local=local,
    )
    assert compared(span, digests_of(given), expected) == model(
        span, given, live, sources, others, local
    )


@drawn(logs(), st.integers(0, OFFSETS))
def test_a_span_in_two_parts_is_compared_as_the_whole(
    found: tuple[Log, Log, list[Log], list[Log]], middle: int
) -> None:
    given, live, sources, others = found
    expected = Expected(
        live=digests_of(live),
        sources=tuple(map(digests_of, sources)),
        others=tuple(map(digests_of, others)),
        local=LocalCopies(gone_before=middle + 2),
    )
    parts = [
        compared(span, digests_of(given), expected)
        for span in (OffsetSpan(start=0, end=middle), OffsetSpan(start=middle, end=OFFSETS))
    ]
    whole = compared(SPAN, digests_of(given), expected)
    below, above = parts
    if isinstance(below, Agreement) and isinstance(above, Agreement):
        assert below.with_more(above) == whole
    else:
        assert whole == (below if isinstance(below, Differs) else above)


@pytest.mark.parametrize(
    "other",
    [(8, b"a", b"1"), (7, b"b", b"1"), (7, b"a", b"2"), (7, None, b"1"), (7, b"a", None),
     (7, b"", b"1"), (7, b"a", b""), (7, b"a", b"1" * 9)],
)
def test_each_part_of_a_record_is_compared(other: Content) -> None:
    expected = Expected(live=digests_of({3: A}))
    assert compared(SPAN, digests_of({3: A}), expected) == Agreement(records=1)
    assert compared(SPAN, digests_of({3: other}), expected) == Differs(
        offset=3, difference=Difference.CHANGED
    )
    # As a dropped record, only with the source's content.
    retired = Expected(
        live=NO_RECORDS, sources=(digests_of({3: A}),), local=LocalCopies(gone_before=9)
    )
    assert compared(SPAN, digests_of({3: other}), retired) == Differs(
        offset=3, difference=Difference.FOREIGN
    )


def test_a_record_of_another_history_is_neither_foreign_nor_dropped() -> None:
    expected = Expected(
        live=digests_of({1: A}), others=(digests_of({3: A}),), local=LocalCopies(gone_before=9)
    )
    assert compared(SPAN, digests_of({1: A, 3: A}), expected) == Agreement(records=2)
    assert compared(SPAN, digests_of({1: A}), expected) == Agreement(records=1)


def test_a_record_that_brokers_alone_may_still_have_is_no_difference() -> None:
    given = digests_of({3: A})
    unknown = Expected(live=NO_RECORDS)
    assert compared(SPAN, given, unknown) == Agreement(records=1)
    for local in (
        LocalCopies(gone_before=4),
        LocalCopies(uploads=(OffsetSpan(start=3, end=4),)),
    ):
        assert compared(SPAN, given, replace(unknown, local=local)) == Differs(
            offset=3, difference=Difference.FOREIGN
        )
    for local in (
        LocalCopies(gone_before=3),
        LocalCopies(uploads=(OffsetSpan(start=4, end=5), OffsetSpan(start=1, end=3))),
    ):
        assert compared(SPAN, given, replace(unknown, local=local)) == Agreement(records=1)


def test_the_first_dropped_record_is_that_of_any_source() -> None:
    live = digests_of({1: A, 5: A})
    assert first_dropped(live, (digests_of({1: A, 5: A}),)) is None
    assert first_dropped(live, (digests_of({5: A, 9: A}), digests_of({1: A, 7: A}))) == 7
    assert first_dropped(NO_RECORDS, ()) is None


def test_records_are_joined_in_order() -> None:
    joined = joined_records([digests_of({1: A}), digests_of({4: A, 6: A})])
    assert joined.offset.tolist() == [1, 4, 6]
    assert joined.content.shape == (3, 7)
    assert joined_records([]) is NO_RECORDS
