"""Runs that publish and are killed, held back or refused: the next one completes.

`make soak` kills and holds runs back at every instant (`killed_publishing`, `held_publishing`), and
cuts their network (`cut_publishing`).
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import METADATA_TOPIC
from tests.faults.publishing_kills.forked_runs import ForkServer, stopped
from tests.faults.publishing_kills.held_publishing import overtaken, overtaken_twice
from tests.faults.publishing_kills.killed_publishing import KilledTopic, outcomes
from tests.faults.publishing_kills.publishing_instants import Instant
from tests.faults.publishing_kills.served_topic import ServedTopic, served_topic
from tests.jobs.commands import tierfold
from tierfold.jobs.pipeline.partition_report import COMPACTED, FAILED, PUBLISHED


@pytest.mark.soak
def test_a_run_that_another_one_overtakes_within_a_look_does_not_take_its_segments_for_foreign(
    killed: KilledTopic,
) -> None:
    overtaken_twice(killed, Instant.parsed("before replay 2"))


def commits_in(served: ServedTopic) -> list[Path]:
    return sorted((served.catalog / "partitions" / "_delta_log").glob("*.json"))


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as forks:
        yield forks


@pytest.fixture(scope="module")
def served(
    kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServedTopic]:
    folder = tmp_path_factory.mktemp("publishing-kills")
    with served_topic(kafka, folder, "publishing-kills", 1) as topic:
        yield topic


@pytest.fixture
def killed(served: ServedTopic, server: ForkServer, tmp_path: Path) -> KilledTopic:
    return KilledTopic(served=served, server=server, folder=tmp_path)


@pytest.mark.parametrize(
    ("instant", "signum"),
    [
        pytest.param("after commit 1", signal.SIGKILL, marks=pytest.mark.soak),
        pytest.param("after send 1", signal.SIGTERM, marks=pytest.mark.soak),
        ("after flush 2", signal.SIGKILL),
    ],
)
def test_what_a_killed_run_left_unpublished_the_next_one_publishes(
    killed: KilledTopic, instant: str, signum: signal.Signals
) -> None:
    killed.served.add_round()
    killed.killed(Instant.parsed(instant), signum)
    killed.must_be_completed()


@pytest.mark.soak
@pytest.mark.parametrize("instant", ["before look 2", "before flush 2"])
def test_a_late_send_of_a_run_that_was_overtaken_changes_nothing(
    killed: KilledTopic, instant: str
) -> None:
    overtaken(killed, Instant.parsed(instant))


@pytest.fixture
def impatient(tmp_path: Path) -> Path:
    """Settings of a run that does not wait long for brokers."""
    config = tmp_path / "impatient.toml"
    config.write_text('[cluster]\n"request.timeout.ms" = 1000\n', encoding="utf-8")
    return config


@pytest.mark.soak
def test_while_brokers_are_away_nothing_is_committed(
    killed: KilledTopic, impatient: Path
) -> None:
    served = killed.served
    served.add_round()
    before = commits_in(served)
    with served.kafka.halted():
        ran = tierfold(*served.compacting, "--config", impatient)
    assert ran.code == 3, ran
    assert any(server in ran.stderr for server in served.servers.split(","))
    assert commits_in(served) == before
    killed.must_be_completed()


@pytest.mark.soak
def test_what_was_published_is_reported_though_brokers_are_away_by_then(
    killed: KilledTopic, impatient: Path
) -> None:
    served = killed.served
    served.add_round()
    killed.killed(Instant.parsed("after commit 1"), signal.SIGKILL)
    # Before it plans again what it has published.
    run = killed.start(Instant.parsed("after commit 4"), signal.SIGSTOP, "--config", impatient)
    with stopped(run):
        served.kafka.halt()
    try:
        ran = run.ended()
    finally:
        served.kafka.go_on()
    assert ran.code == 0, ran
    assert set(outcomes(ran).values()) == {PUBLISHED}
    killed.must_be_completed()


@pytest.mark.soak
def test_nothing_more_is_compacted_once_nothing_can_be_published(
    kafka: KafkaCluster, killed: KilledTopic
) -> None:
    in_chunks = ("--set", "chunk.bytes=1")
    folder = killed.served.catalog.parent  # One catalog publishes to a tier.
    with served_topic(kafka, folder, "refused", 2, options=in_chunks) as served:
        killed = replace(killed, served=served)
        killed.must_be_completed()
        served.append(partition=0)
        for _ in range(3):
            served.append(partition=1)
        served.topic.wait_until_tiered()
        run = killed.start(Instant.parsed("before look 1"), signal.SIGSTOP)
        with stopped(run):
            alter(kafka, METADATA_TOPIC, {"message.timestamp.before.max.ms": str(2**62)})
        try:
            ran = run.ended()
        finally:
            alter(kafka, METADATA_TOPIC, {"message.timestamp.before.max.ms": None})
        assert ran.code == 3, ran
        assert outcomes(ran) == {("refused", 0): FAILED, ("refused", 1): COMPACTED}
        assert "kafka-configs.sh" in ran.stdout
        row = served.rows[1]
        assert row.cleaner_offset is not None
        assert row.cleaner_offset < served.ends[1]
        served.must_read_alike()
        killed.must_be_completed()
