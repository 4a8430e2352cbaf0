"""Until a canary has counted, one that finds something wrong stops every publication of a tier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_plan_beside_brokers import NO_MARGIN
from tests.brokers.test_status_of_brokers import tierfold, topic_of
from tests.brokers.test_third_send import Published, still_local
from tests.brokers.topics import Topic
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
    first = still_local(kafka, "canary-first")
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
    last = compact(first, second)
    assert last.code == 0, last
    assert publication(last, second)[0] == "published", last
