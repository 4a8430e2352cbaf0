"""Who wrote a segment, whose bytes it has, who names it."""

from __future__ import annotations

import pytest

from tests.compaction.builders import a_segment
from tierfold.compaction.model.origins import UPLOADED, Compacted, Copied, Origin, origin_of
from tierfold.compaction.model.segments import uploads_of

UPLOAD_COPIED = Copied(run="r", copy_of="copied", upload="first")
COPY_OF_COMPACTED = Copied(run="r", copy_of="copied", upload="")


@pytest.mark.parametrize(
    ("origin", "run", "upload", "is_named"),
    [
        (UPLOADED, "", "own", True),
        (Compacted("r"), "r", "", False),
        (UPLOAD_COPIED, "r", "first", False),
        (COPY_OF_COMPACTED, "r", "", False),
    ],
)
def test_three_questions(origin: Origin, run: str, upload: str, is_named: bool) -> None:
    segment = a_segment(0, 9, segment_id="own", origin=origin)
    assert segment.written_by_run == run
    assert (segment.upload_id, segment.is_upload) == (upload, bool(upload))
    assert segment.is_named_by_brokers is is_named
    stored = (segment.written_by_run, segment.copy_of, segment.copied_upload)
    assert origin_of(*stored) == origin


def test_of_copies_of_an_upload_only_the_last_counts() -> None:
    upload = a_segment(0, 9, segment_id="first")
    later = a_segment(10, 19, segment_id="later")
    compacted = a_segment(0, 19, segment_id="c", origin=Compacted("r"))
    copy = a_segment(0, 9, segment_id="copy", origin=UPLOAD_COPIED)
    assert uploads_of([later, compacted, upload]) == [upload, later]
    assert uploads_of([later, upload, copy]) == [copy, later]
    assert uploads_of([later, copy, upload]) == [upload, later]
