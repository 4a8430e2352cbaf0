"""What the step makes of late, repeated and half-taken events, as they were tried on brokers.

Every case is a row of the catalog, what brokers have taken, and events that come late. Then runs
look and send until there is nothing to do, and a find at every offset says what readers get.

Rule: SWAP.md 1 ("Why in this order") and 2 (the table of late events).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import pytest

from tests.compaction.broker_events import FINISHED, GONE, LISTED
from tests.compaction.builders import a_segment, retired
from tests.compaction.looks import a_look, a_row, given, replacement, shown, started, whole
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.publishing.event_check import Checked, checked
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import (
    Copy,
    Done,
    Merge,
    Purpose,
    RefusalCode,
    Refused,
    Retire,
    Send,
    Step,
)

U, V, W, X = (a_segment(start, start + 9) for start in (0, 10, 20, 30))
R = replacement("R", 0, 19)
Q = replacement("Q", 0, 19)
"""Another run's, of the same sources or of R."""
COPY = replacement("copy", 0, 19)
"""What a copy of R is written as."""
SEGMENTS: Final = dict(zip("UVWXRQC", (U, V, W, X, R, Q, COPY), strict=True))
NAMES: Final = {one.segment_id: name for name, one in SEGMENTS.items()}

UPLOADS: Final = whole(U, V, W, X)
SWAP: Final = [given(R, FINISHED), given(U, LISTED), given(V, LISTED)]
SWAPPED: Final = [*UPLOADS, started(R), *SWAP]
DELETED: Final = [*SWAPPED, given(U, GONE), given(V, GONE)]
REPLACED: Final = [*DELETED, *whole(Q), given(R, LISTED)]
"""Q has taken R's place."""
OVER: Final = [*REPLACED, given(R, GONE)]

AFTER_SWAP: Final = a_row([R, W, X], [U, V])
AFTER_REPLACING: Final = a_row([Q, W, X], [U, V, R])


def read_from(row: PartitionState, topic: Sequence[Event]) -> str:
    """What readers find from offset 0 on: each segment once; `.`: out of range."""
    view = a_look(row, topic).view
    found = [view.find(0, offset) for offset in range(X.next_offset)]
    names = ["." if one is None else NAMES[one.added.segment_id] for one in found]
    return "".join(name for name, _ in groupby(names))


def in_words(step: Step) -> str:
    """A send's purpose and events; of another step, its name."""
    if not isinstance(step, Send):
        return type(step).__name__
    events = shown(step, *SEGMENTS.values(), names=list(SEGMENTS))
    return f"{step.purpose}: {', '.join(events).replace('DELETE_STARTED', 'LISTED')}"


def mended(row: PartitionState, topic: Sequence[Event]) -> list[str]:
    """The steps until there is nothing to do; after them readers find all that is live."""
    steps: list[str] = []
    events = [*topic]
    while (step := next_step(look := a_look(row, events))) != Done():
        steps.append(in_words(step))
        match step:
            case Send():
                assert isinstance(checked(look, step.events), Checked)
                events += step.events
            case Copy():
                row = _copied(row)
            case Retire():
                ids = step.segment_ids
                gone = [retired(one) for one in SEGMENTS.values() if one.segment_id in ids]
                row = replace(row, retired=(*row.retired, *gone))
            case _:
                raise AssertionError(step)
        assert len(steps) < 9, steps
    live = [NAMES[one.segment_id] for one in row.segments]
    assert read_from(row, events) == "".join(live), steps
    return steps


def _copied(row: PartitionState) -> PartitionState:
    old, *others = row.segments
    return replace(row, segments=(COPY, *others), retired=(*row.retired, retired(old)))


def test_a_first_event_of_what_brokers_have_whole() -> None:
    """"STARTED of a live id, or of one that is being deleted": none."""
    for row, topic in ((AFTER_SWAP, SWAPPED), (AFTER_REPLACING, REPLACED)):
        assert mended(row, [*topic, started(R)]) == []


def test_a_first_event_after_the_last_one() -> None:
    """"STARTED after DELETE_FINISHED": a dangling entry, cleared by its deletion."""
    late = [*OVER, started(R)]
    assert read_from(AFTER_REPLACING, late) == "QWX"
    swap = "swap: FINISHED Q, LISTED R"
    assert mended(AFTER_REPLACING, late) == [swap]
    assert mended(a_row([Q, W, X]), late) == ["Retire", swap]


def test_first_and_second_event_after_the_last_one() -> None:
    """"… and then FINISHED, its objects gone": FINISHED of the live segment repairs it."""
    late = [*OVER, started(R), given(R, FINISHED)]
    assert read_from(AFTER_REPLACING, late) == "RWX"
    assert mended(AFTER_REPLACING, late) == ["swap: FINISHED Q, LISTED R"]


def test_what_no_row_remembers_is_left_to_a_person_once_brokers_read_it() -> None:
    step = next_step(a_look(a_row([Q, W, X]), [*OVER, started(R), given(R, FINISHED)]))
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.CATALOG_SET_BACK


@pytest.mark.parametrize(
    ("row", "topic"),
    [
        (AFTER_SWAP, SWAPPED),
        (AFTER_SWAP, DELETED),
        (AFTER_REPLACING, REPLACED),
        (AFTER_REPLACING, OVER),
    ],
)
def test_the_same_second_send_once_more(row: PartitionState, topic: list[Event]) -> None:
    """"the same second send again", also after the third, also after R was itself replaced: none.
    """
    assert mended(row, [*topic, *SWAP]) == []


def test_the_second_send_of_a_replacement_that_brokers_deleted() -> None:
    """"the second send after the other run *cancelled* the replacement": a hole.

    No step cancels one; brokers delete one themselves once the log start has passed it.
    """
    late = [*UPLOADS, started(R), given(R, LISTED), given(R, GONE), *SWAP]
    assert read_from(AFTER_SWAP, late) == ".WX"
    assert mended(AFTER_SWAP, late) == [
        "Copy",
        "start: STARTED C",
        "swap: FINISHED C",
    ]
    lost = a_look(AFTER_SWAP, late, whole=frozenset())
    step = next_step(lost)
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.DELETED_BY_BROKERS


def test_the_second_send_of_a_replacement_that_another_took_the_place_of() -> None:
    """"the second send after the other run swapped the same sources to R_B and left R_A in
    COPY_STARTED": R_A serves.
    """
    swapped = [*UPLOADS, started(R), *whole(Q), given(U, LISTED), given(V, LISTED)]
    drop = "swap: FINISHED Q, LISTED R"
    assert mended(AFTER_REPLACING, swapped) == [drop], "the other run never leaves it so"
    late = [*swapped, *SWAP]
    assert read_from(AFTER_REPLACING, late) == "RWX"
    assert mended(AFTER_REPLACING, late) == [drop]


def test_the_second_send_of_a_replacement_that_one_batch_dropped() -> None:
    """"the second send after one batch FINISHED(R_B), DELETE_STARTED(R_A),
    DELETE_STARTED(sources)": none, also after everything is deleted.
    """
    before = [*UPLOADS, started(R), started(Q)]
    step = next_step(a_look(AFTER_REPLACING, before))
    assert in_words(step) == "swap: FINISHED Q, LISTED U, LISTED R, LISTED V"
    assert isinstance(step, Send)
    dropped = [*before, *step.events]
    assert mended(AFTER_REPLACING, [*dropped, *SWAP]) == []
    over = [*dropped, given(U, GONE), given(V, GONE), given(R, GONE)]
    assert mended(AFTER_REPLACING, [*over, *SWAP]) == []


def test_an_old_segment_that_is_finished_again_and_then_deleted() -> None:
    """"FINISHED(old) while old and new are both FINISHED, then DELETE_STARTED(old)": a hole."""
    both = [*SWAPPED, *whole(Q)]
    assert read_from(AFTER_REPLACING, both) == "QWX"
    late = [*both, given(R, FINISHED), given(R, LISTED)]
    assert read_from(AFTER_REPLACING, late) == ".WX"
    assert mended(AFTER_REPLACING, late) == ["repair: FINISHED Q"]
    assert mended(AFTER_REPLACING, [*both, given(R, FINISHED)]) == ["swap: FINISHED Q, LISTED R"]


def test_two_late_sends_after_the_whole_life_of_a_replacement() -> None:
    """"two suspended runs, one late send each": R is FINISHED again, its objects are gone."""
    late = [*OVER, started(R), *SWAP]
    assert read_from(AFTER_REPLACING, late) == "RWX"
    assert mended(AFTER_REPLACING, late) == ["swap: FINISHED Q, LISTED R"]


def test_two_late_sends_after_which_a_person_retired_the_replacement() -> None:
    """No row remembered R; `forget` retires it, since others have all of its records."""
    late = [*OVER, started(R), *SWAP]
    assert mended(a_row([Q, W, X], [R]), late) == ["swap: FINISHED Q, LISTED R"]


def test_a_replacement_beside_its_sources_serves_from_its_start() -> None:
    """"FINISHED alone, before the deletes": no error; the sources serve behind it."""
    half = [*UPLOADS, *whole(R)]
    assert read_from(AFTER_SWAP, half) == "RVWX"
    assert mended(AFTER_SWAP, half) == ["swap: FINISHED R, LISTED U, LISTED V"]


def test_deletions_that_come_in_another_order() -> None:
    """"Deletes must ascend": the floor is a middle source that ends too early."""
    longer = replacement("longer", 0, 29)
    row = a_row([longer, X], [U, V, W])
    events = [*UPLOADS, *whole(longer)]
    look = a_look(row, [*events, given(W, LISTED)])
    assert [look.view.find(0, offset) is None for offset in (19, 20, 29, 30)] == [
        *(False, True, True, False)
    ]
    step = next_step(look)
    assert isinstance(step, Send)
    assert [event.segment_id for event in step.events] == [
        *(one.segment_id for one in (longer, U, V))
    ]
    look = a_look(row, [*events, given(W, LISTED), *step.events])
    assert all(look.view.find(0, offset) for offset in range(40))
    assert next_step(look) == Done()


def test_deletions_without_the_replacement() -> None:
    """"Deletes before FINISHED": a gap, at which every consumer that reaches it fails."""
    half = [*UPLOADS, started(R), given(U, LISTED), given(V, LISTED)]
    assert read_from(AFTER_SWAP, half) == ".WX"
    assert mended(AFTER_SWAP, half) == ["swap: FINISHED R"]


def test_at_the_head_of_the_log_a_replacement_shields_its_sources() -> None:
    """"At the head of the log the order protects the data themselves": FINISHED comes first."""
    step = next_step(a_look(AFTER_SWAP, [*UPLOADS, started(R)]))
    assert in_words(step) == "swap: FINISHED R, LISTED U, LISTED V"
    cut = a_look(AFTER_SWAP, [*UPLOADS, started(R)], log_start=5)
    assert in_words(next_step(cut)) == "swap: FINISHED R, LISTED U, LISTED V"


def test_an_upload_that_loses_its_place_to_a_replacement() -> None:
    """"Never beside a live segment": all between R's end and the upload's end is out of range."""
    upload = a_segment(0, 25, segment_id="n" * 21 + "A")
    before = [*UPLOADS, started(R)]
    step = next_step(a_look(AFTER_SWAP, [*before, *whole(upload)]))
    assert isinstance(step, Retire), "seen in time, and R and W have all its offsets"
    assert step.segment_ids == (upload.segment_id,)
    late = [*whole(U, V), started(R), *whole(upload), *SWAP]
    row = a_row([R], [U, V])
    look = a_look(row, late)
    assert [look.view.find(0, offset) is None for offset in (0, 19, 20, 25)] == [
        *(False, False, True, True)
    ]
    step = next_step(look)
    assert isinstance(step, Send)
    assert (step.purpose, [event.segment_id for event in step.events]) == (
        Purpose.REPAIR,
        [upload.segment_id],
    )
    look = a_look(row, [*late, *step.events])
    assert all(look.view.find(0, offset) for offset in range(26))
    step = next_step(look)
    assert isinstance(step, Merge)
    assert step.segment_ids == (R.segment_id, upload.segment_id)
