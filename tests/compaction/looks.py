"""Looks at partitions of a few offsets: what the row says, and what brokers have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

from tests.compaction.broker_events import FINISHED, added, updated
from tests.compaction.builders import KEY, LINEAGE, a_segment, a_state, retired
from tests.compaction.hash_keys import FINGERPRINT
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.brokers.metadata_fold import MetadataFold, MetadataRecord
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segment_ids import SegmentMark, id_text, marked
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.publishing.look import Look, PublishingLimits
from tierfold.compaction.publishing.steps import Send, Step

NOW_MS: Final = 10_000_000_000
LIMITS: Final = PublishingLimits(grace_ms=3_600_000, upload_wait_ms=3_600_000)
LONG_AGO_MS: Final = NOW_MS - 10 * LIMITS.grace_ms


def own(name: str, fingerprint: int = FINGERPRINT, *, is_restored: bool = False) -> str:
    """The id that a run of a catalog makes, the same for each name."""
    drawn = bytearray(blake2b(name.encode(), digest_size=16).digest())
    drawn[0] &= 0x7F  # Without a leading `-`.
    drawn[8] = drawn[8] & 0x3F | 0x80
    return marked(id_text(bytes(drawn)), SegmentMark(fingerprint, is_restored=is_restored))


def replacement(name: str, start_offset: int, end_offset: int, **fields: Any) -> Segment:
    """A segment that a run of this catalog wrote."""
    defaults = {"segment_id": own(name), "origin": Compacted("run")}
    return a_segment(start_offset, end_offset, **defaults | fields)


def started(segment: Segment) -> Event:
    """`COPY_SEGMENT_STARTED` of a segment as the row has it."""
    return added("", segment.own_start_offset, segment.end_offset)._replace(
        segment_id=segment.segment_id, leader_epochs=segment.leader_epochs
    )


def given(segment: Segment, state: Any) -> Event:
    """The event that gives a segment another state."""
    return updated("", state)._replace(segment_id=segment.segment_id)


def whole(*segments: Segment) -> list[Event]:
    """Each was started and finished."""
    return [event for one in segments for event in (started(one), given(one, FINISHED))]


def a_row(live: Sequence[Segment], gone: Sequence[Segment] = (), **fields: Any) -> PartitionState:
    """A row with these live and these retired segments."""
    row = a_state(live, retired=tuple(map(retired, gone)))
    return replace(row, **{"epoch": 1, "owner_run": "run", **fields})


def a_look(
    row: PartitionState,
    events: Iterable[Event | tuple[Event, int]],
    *,
    log_start: int = 0,
    high_watermark: int = 1000,
    **fields: Any,
) -> Look:
    """What one look shows; events without a timestamp were sent long ago."""
    fold = MetadataFold(1)
    fold.ask(KEY, row.named_ids)
    timed = (
        found if isinstance(found[0], tuple) else (found, LONG_AGO_MS) for found in events
    )
    fold.apply(
        MetadataRecord(0, offset, timestamp_ms, encode(event), None)
        for offset, (event, timestamp_ms) in enumerate(timed)
    )
    defaults = Look(
        row=row,
        view=fold.view(KEY),
        naming=fold.naming(KEY),
        offsets=PartitionOffsets(
            log_start=log_start, high_watermark=high_watermark, last_stable=high_watermark
        ),
        lineage=LINEAGE,
        limits=LIMITS,
        fingerprint=FINGERPRINT,
        now_ms=NOW_MS,
        whole=row.named_ids,
        present=row.named_ids,
    )
    return replace(defaults, **fields)


def shown(step: Step | Any, *segments: Segment, names: Sequence[str] = ()) -> list[str]:
    """The events of a send in words, `FINISHED R`; segments are named in the order of `names`."""
    assert isinstance(step, Send), step
    by_id = dict(zip((one.segment_id for one in segments), names, strict=True))
    return [f"{_state_of(event)} {by_id[event.segment_id]}" for event in step.events]


def _state_of(event: Event) -> str:
    return "STARTED" if not hasattr(event, "state") else event.state.name.removeprefix("COPY_")
