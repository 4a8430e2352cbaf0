"""Why nothing is named again: each message has what was found and a command that Kafka takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.broker_events import added
from tests.compaction.builders import KEY
from tierfold.compaction.brokers.cluster_configs import Configs, ConfigSource, ConfigValue
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.planning.rebuild_refusals import copying_again, step_refusal, unknown_note
from tierfold.compaction.publishing.lost_metadata import (
    LostAlready,
    NothingLost,
    RebuildStep,
    StopCopying,
)
from tierfold.compaction.publishing.ranges import OffsetRange
from tierfold.compaction.publishing.steps import RefusalCode, Refused

SERVER = "broker-1:9092"
ALTER = f"kafka-configs.sh --bootstrap-server {SERVER} --alter --entity-type topics"
FOUND = (added(1, 0, 9), added(2, 10, 19))
LOST = LostAlready(
    log_start=20, ranges=(OffsetRange(0, 19),), segments=FOUND, has_rest=True
)


def topic(**settings: str) -> Configs:
    return {
        name.replace("_", "."): ConfigValue(text, ConfigSource.TOPIC)
        for name, text in settings.items()
    }


def refusal_of(step: RebuildStep, **settings: str) -> Refusal:
    found = step_refusal(step, "offset 0 is out of range", topic(**settings), "orders", SERVER)
    assert found is not None
    return found


def test_brokers_that_copy_on_must_stop_first() -> None:
    found = refusal_of(StopCopying(segments=FOUND))
    assert found.reason is RefusalReason.STILL_COPYING
    assert "from offset 0 on (offset 0 is out of range)" in found.detail
    changes = "remote.log.copy.disable=true,local.retention.ms=-2"
    assert f"`{ALTER} --entity-name orders --add-config {changes}`" in found.remedy
    # Kafka takes it only if local data stay in every respect.
    bounded = refusal_of(StopCopying(segments=FOUND), local_retention_bytes="6000")
    assert f"--add-config {changes},local.retention.bytes=-2`" in bounded.remedy
    as_retention = refusal_of(StopCopying(segments=FOUND), local_retention_bytes="-2")
    assert f"--add-config {changes}`" in as_retention.remedy


def test_what_is_lost_already_is_said_in_offsets_and_bytes() -> None:
    found = refusal_of(LOST)
    assert found.reason is RefusalReason.LOG_START_MOVED
    assert "log start to offset 20" in found.detail
    ids = ", ".join(one.segment_id for one in LOST.segments)
    assert f"offsets 0 to 19 (2 segments, 2 000 bytes: {ids})" in found.detail
    assert "move the objects of these segments out" in found.remedy
    assert "the topic goes on from offset 20" in found.remedy
    assert "From offset 20 on nothing is lost." in found.detail
    assert "The objects are in the tier" in found.detail
    assert "The tier has nothing beyond it." in refusal_of(replace(LOST, has_rest=False)).detail
    alone = refusal_of(replace(LOST, segments=LOST.segments[:1]))
    assert "move the objects of this segment out" in alone.remedy
    many = refusal_of(replace(LOST, segments=LOST.segments * 4))
    assert f"{LOST.segments[0].segment_id} and 3 more, all of which --json lists" in many.detail


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (RefusalCode.UNCOVERED, RefusalReason.GAP),
        (RefusalCode.BEYOND_LOG, RefusalReason.TIER_BEYOND_LOG),
        (RefusalCode.ANOTHER_CATALOG, RefusalReason.ANOTHER_CATALOG),
        (RefusalCode.CATALOG_SET_BACK, RefusalReason.CATALOG_SET_BACK),
        (RefusalCode.NO_ORDER, RefusalReason.OVERLAP),
    ],
)
def test_what_does_not_fit_has_the_codes_of_other_verbs(
    code: RefusalCode, reason: RefusalReason
) -> None:
    found = refusal_of(Refused(code=code, why="it does not fit"))
    assert (found.reason, found.detail) == (reason, "it does not fit")
    assert ("an upload has just ended" in found.remedy) is (code is RefusalCode.NO_ORDER)


def test_what_nothing_names_is_moved_out_or_left_alone() -> None:
    ids = [one.segment_id for one in FOUND]
    assert f"`tierfold forget TIER {KEY} --leave-alone {','.join(ids)}`" in unknown_note(ids, KEY)
    many = unknown_note(ids * 4, KEY)
    assert "has 8 whole uploads" in many
    assert f"{ids[0]} and 3 more. Other verbs" in many


def test_nothing_lost_is_no_refusal() -> None:
    assert step_refusal(NothingLost(), "", topic(), "orders", SERVER) is None


@pytest.mark.parametrize(
    ("configs", "changes"),
    [
        (topic(local_retention_ms="1000"), "remote.log.copy.disable=false"),
        (
            topic(local_retention_ms="-2"),
            "remote.log.copy.disable=false,local.retention.ms=86400000",
        ),
        ({}, "remote.log.copy.disable=false,local.retention.ms=86400000"),
    ],
)
def test_copying_goes_on_with_a_finite_local_retention(configs: Configs, changes: str) -> None:
    command = copying_again(configs, "orders", SERVER)
    assert command == f"{ALTER} --entity-name orders --add-config {changes}"
