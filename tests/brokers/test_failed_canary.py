"""Until a canary has counted, one that finds something wrong stops every publication of a tier."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_plan_beside_brokers import NO_MARGIN
from tests.brokers.test_status_of_brokers import RECORDS, tierfold, topic_of
from tests.brokers.test_third_send import Published
from tests.brokers.test_whose_cluster import HOUR_MS
from tests.brokers.topics import FIRST_MS, Topic
from tests.faults.publishing_kills.served_topic import views_of
from tests.jobs.commands import ALWAYS, Ran
from tierfold.compaction.model.segment_ids import is_own_id
from tierfold.jobs.publishing import canary

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("own_note")]


def publication(ran: Ran, topic: Topic) -> tuple[str, int]:
    entry: dict[str, Any] = ran.partitions[topic.name, 0]
    return entry["publishing"], entry["events_sent"]


def test_once_it_fails_nothing_else_is_published(
    kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "CONFIRM_S", -1.0)
    first = kafka.create("canary-first")
    local_ms = time.time_ns() // 1_000_000 - FIRST_MS + HOUR_MS // 2
    alter(kafka, first.name, {"local.retention.ms": str(local_ms)})
    for _ in range(4):
        first.append(RECORDS)
    kafka.wait(lambda: len(first.logs()) == 3, "three uploads")
    second = topic_of(kafka, "canary-second")
    served = Published(kafka, tmp_path, first)

    def compact(*topics: Topic) -> Ran:
        named = [word for topic in topics for word in ("--topic", topic.name)]
        words = (*ALWAYS, *NO_MARGIN, *served._scope[:2], *named, "--publish", "--json")
        return tierfold(kafka, "compact", kafka.tier, *words)

    assert publication(compact(first), first)[0] == "published"
    assert publication(compact(first, second), second) == ("waits", 0)
    alter(kafka, first.name, {"local.retention.ms": "1"})
    first.wait_until_tiered()
    (live,) = (path for path in first.logs() if is_own_id(path.stem[21:]))
    sound = live.read_bytes()
    live.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    broken = compact(first, second)
    assert (broken.code, live.stem[21:] in broken.stderr) == (3, True), broken
    (view,) = views_of(kafka, second).values()
    assert not any(map(is_own_id, view.segments))
    live.write_bytes(sound)
    mended = compact(first, second)
    assert mended.code == 0, mended
    assert publication(mended, second)[0] == "published", mended
