"""Three uploads of a partition, and a replacement of the first two.

    U V W     uploads of offsets 0 to 9, 10 to 19, 20 to 29
    R         a replacement of U and V
"""

from __future__ import annotations

from typing import Any, Final

from tests.compaction.builders import a_segment
from tests.compaction.looks import a_row, replacement, shown
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.publishing.steps import Step

U, V, W = a_segment(0, 9), a_segment(10, 19), a_segment(20, 29)
R: Final = replacement("R", 0, 19)
ROW: Final = a_row([R, W], [U, V])
SWAP: Final = ["FINISHED R", "DELETE_STARTED U", "DELETE_STARTED V"]


def late(name: str, start_offset: int, end_offset: int, **fields: Any) -> Segment:
    """An upload of a new leader."""
    return a_segment(start_offset, end_offset, segment_id=name * 21 + "A", **fields)


def names(step: Step) -> list[str]:
    """The events of a send, of the segments above."""
    return shown(step, R, U, V, W, names="RUVW")
