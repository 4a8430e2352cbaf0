"""A log that an unclean election cuts off is refused at every instant, and `forget` leads out.

A partition without a row, and one whose row has the tail that is cut off and was compacted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.cut_logs import CUT_AT, NEW_END, TAIL_END, CutLog, cut_log
from tests.brokers.test_forget_beside_brokers import Swapped
from tests.brokers.test_plan_beside_brokers import NO_MARGIN, Planned
from tests.brokers.test_status_of_brokers import tierfold
from tests.jobs.commands import Ran, told


@pytest.fixture(scope="module")
def log(kafka: KafkaCluster) -> Iterator[CutLog]:
    with cut_log(kafka, "cut") as log:
        yield log


def planned_to(planned: Planned) -> int:
    """The end of what is planned."""
    (entry,) = planned.plan(*NO_MARGIN).entries
    assert entry["outcome"] == "planned", entry
    end: int = entry["next_offset"]
    return end


def is_refused(planned: Planned, *words: str) -> None:
    (entry,) = planned.plan(*NO_MARGIN).entries
    assert entry["outcome"] == "refused", entry
    assert not told(entry["reason"], *words), entry


def forget(planned: Planned) -> Ran:
    tier, name = planned.kafka.tier, f"{planned.topic.name}-0"
    catalog = planned._scope[:2]
    return tierfold(planned.kafka, "forget", tier, name, *catalog, "--json")


@pytest.mark.soak
def test_it_is_refused_at_every_instant(kafka: KafkaCluster, log: CutLog, tmp_path: Path) -> None:
    new = Planned(kafka, tmp_path / "new", log.topic)
    assert planned_to(new) == TAIL_END + 1
    known = Swapped(kafka, tmp_path / "known", log.topic)  # And compacted.
    assert known.row.next_offset == TAIL_END + 1

    log.depose()
    for planned in (new, known):
        is_refused(planned, "once the partition has a leader")

    log.elect()
    for planned in (new, known):
        is_refused(planned, "the brokers' log ends at offset 29", "the tier has offsets up to 59")

    log.write_on()
    assert log.topic.offsets() == (0, NEW_END + 1)
    for planned in (new, known):
        is_refused(
            planned,
            "the tier has leader epoch 0 up to offset 59, but in the brokers' log it ends at",
            "offset 29",
            "once the new leader has uploaded",
        )
    # Its way out must not take over what was cut off.
    assert forget(known).entries[0]["outcome"] == "refused"

    log.upload()
    is_refused(new, "outside the leader epoch lineage", "offsets 30 to 39", "tierfold forget")
    is_refused(known, "up to offset 59", "tierfold forget")
    for planned in (new, known):
        done = forget(planned)
        assert done.entries[0]["outcome"] == "forgotten", done
    gone = (entry.segment for entry in known.row.retired)
    offsets = {(segment.start_offset, segment.end_offset) for segment in gone}
    assert offsets == {(0, TAIL_END), *((at, at + 9) for at in range(CUT_AT, TAIL_END, 10))}
    for planned in (new, known):
        assert planned_to(planned) == NEW_END + 1
