"""`plan`, `verify` and a dry run of `compact` beside a real cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.brokers.altered_settings import alter, carry_out
from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_status_of_brokers import tierfold, topic_of
from tests.brokers.topics import Topic
from tests.jobs.commands import ALWAYS, Ran, told
from tests.jobs.commands import tierfold as command

NO_MARGIN = ("--set", "tail.margin.segments=0")


class Planned:
    """One topic in the tier of the cluster, beside a catalog of its own."""

    def __init__(self, kafka: KafkaCluster, folder: Path, topic: Topic) -> None:
        self.kafka, self.topic = kafka, topic
        self._scope = ("--catalog", str(folder / "catalog"), "--topic", topic.name)

    def plan(self, *more: str) -> Ran:
        return tierfold(self.kafka, "plan", self.kafka.tier, *ALWAYS, *self._scope, *more, "--json")

    def alone(self, verb: str, *more: str) -> Ran:
        """A verb without the cluster."""
        return command(verb, str(self.kafka.tier), *self._scope, *more)

    def compact(self) -> None:
        ran = self.alone("compact", *ALWAYS, "--engine", "local")
        assert ran.code == 0, ran


def but_of_the_catalog(ran: Ran) -> list[str]:
    """The warnings without the one that the run would make the catalog."""
    warnings: list[str] = ran.document["warnings"]
    others = [one for one in warnings if "there is no catalog" not in one]
    assert len(others) == len(warnings) - 1
    return others


def test_a_plan_beside_brokers_leaves_the_newest_segment_alone(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    planned = Planned(kafka, tmp_path, topic_of(kafka, "planned"))
    (entry,) = planned.plan().entries
    assert (entry["outcome"], entry["segments_in"], entry["next_offset"]) == ("planned", 2, 8)
    assert "tail.margin.segments=1" in entry["reason"]
    (entry,) = planned.plan(*NO_MARGIN).entries
    assert (entry["segments_in"], entry["next_offset"]) == (3, 12)
    dry = tierfold(
        kafka, "compact", kafka.tier, *ALWAYS, *planned._scope, *NO_MARGIN, "--dry-run", "--json"
    )
    assert dry.entries == [entry]


def test_where_publishing_is_not_on_compact_changes_nothing(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    planned = Planned(kafka, tmp_path, topic_of(kafka, "unpublished"))
    settings = tmp_path / "tierfold.toml"
    settings.write_text(f'[cluster]\n"bootstrap.servers" = "{kafka.servers}"\n')
    by_table = ("--config", str(settings), *NO_MARGIN, "--json")
    before = {path: path.stat().st_mtime_ns for path in kafka.tier.rglob("*")}
    for ran in (
        tierfold(kafka, "compact", kafka.tier, *ALWAYS, *planned._scope, *NO_MARGIN, "--json"),
        planned.alone("compact", *ALWAYS, *by_table),
    ):
        (entry,) = ran.entries
        assert (ran.code, entry["outcome"], entry["segments_in"]) == (0, "left", 3)
        assert "publishing to these brokers is not on" in entry["reason"]
        assert (entry["events_planned"], entry["events_sent"]) == (2 + 2 * 3, 0)
        assert (ran.document["publishing"], ran.document["run"]) == ("off", None)
        (said,) = but_of_the_catalog(ran)
        assert not told(said, "1 partition", "--publish", "publish = true under [cluster]")
    (entry,) = planned.plan(*NO_MARGIN, "--set", "publish=false").entries
    assert (entry["outcome"], entry["segments_in"]) == ("left", 3)
    assert "publish is false in the topic's settings" in entry["reason"]
    ran = planned.plan(*NO_MARGIN, "--publish")
    assert (ran.document["publishing"], but_of_the_catalog(ran)) == ("on", [])
    assert ran.entries[0]["outcome"] == "planned"
    # What `plan` refuses is refused.
    alter(kafka, "unpublished", {"retention.bytes": "1000000000"})
    refused = tierfold(kafka, "compact", kafka.tier, *ALWAYS, *planned._scope, "--json")
    assert (refused.code, refused.entries[0]["outcome"]) == (3, "refused")
    assert "[retention_bytes]" in refused.entries[0]["reason"]
    assert not (tmp_path / "catalog").exists()
    assert {path: path.stat().st_mtime_ns for path in kafka.tier.rglob("*")} == before


@pytest.mark.soak
def test_a_tier_that_was_compacted_before_its_cluster_was_given(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "compacted-before")
    planned = Planned(kafka, tmp_path, topic)
    for _ in range(3):
        planned.compact()
        topic.append([(b"key-0", b"new"), (b"key-9", b"value")])
        topic.wait_until_tiered()
    (entry,) = planned.plan(*NO_MARGIN).entries
    (without,) = command(
        "plan", str(kafka.tier), *ALWAYS, *planned._scope, "--json"
    ).entries
    for name in ("outcome", "segments_in", "bytes_in", "first_dirty", "next_offset"):
        assert entry[name] == without[name]
    ran = tierfold(kafka, "verify", kafka.tier, *planned._scope, "--engine", "local", "--json")
    assert ran.code == 0, ran
    assert ran.entries[0]["outcome"] == "sound"


def test_objects_that_brokers_never_had_refuse_until_they_are_moved_out(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "with-a-copy")
    planned = Planned(kafka, tmp_path, topic)
    last = topic.logs()[-1]
    old_id, new_id = last.stem.partition("-")[2], "A" * 21 + "Q"
    copies = []
    for path in topic.folder().glob(f"*{old_id}*"):
        copies.append(path.with_name(path.name.replace(old_id, new_id)))
        copies[-1].write_bytes(path.read_bytes())
    ran = planned.plan()
    assert ran.code == 3
    (entry,) = ran.entries
    assert new_id in entry["reason"]
    assert "Do not restart a broker" in entry["reason"]
    for path in copies:  # As the message says.
        path.rename(tmp_path / path.name)
    assert planned.plan().code == 0


def test_the_log_begins_where_brokers_say(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = topic_of(kafka, "cut-off")
    planned = Planned(kafka, tmp_path, topic)
    (first, *_) = topic.logs()
    planned.compact()
    topic.append([(b"key-0", b"new")])
    topic.append([(b"key-0", b"newer")])
    topic.wait_until_tiered()
    topic.delete_records(4)
    kafka.wait(lambda: not first.exists(), "the first segment's deletion")
    (entry,) = planned.plan(*NO_MARGIN).entries
    assert (entry["outcome"], entry["next_offset"]) == ("planned", 14)
    status = tierfold(kafka, "status", kafka.tier, *planned._scope, "--json")
    assert status.entries[0]["brokers"]["offsets"]["log_start"] == 4


def test_a_topic_that_the_cluster_does_not_have_is_left_alone(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic = topic_of(kafka, "of-another-cluster")
    folder = topic.folder()
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    topic.delete()
    folder.mkdir(exist_ok=True)
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    planned = Planned(kafka, tmp_path, topic)
    (entry,) = planned.plan().entries
    assert entry["outcome"] == "nothing_to_do"
    assert entry["reason"] == "left alone: the cluster has no topic of-another-cluster"
    ran = tierfold(kafka, "verify", kafka.tier, *planned._scope, "--engine", "local", "--json")
    assert ran.entries[0]["outcome"] == "left"
    assert ran.entries[0]["reason"] == "the cluster has no topic of-another-cluster"


def test_a_precondition_refuses_the_plan_until_its_command_was_carried_out(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    planned = Planned(kafka, tmp_path, topic_of(kafka, "unprepared"))
    ten_years = {"retention.ms": "315360000000"}  # Records of tests are older than the default.
    alter(kafka, "unprepared", ten_years | {"local.retention.ms": None})
    ran = planned.plan(*NO_MARGIN)
    (entry,) = ran.entries
    assert (ran.code, entry["outcome"]) == (3, "refused")
    assert "retention.ms is 315360000000 (topic)" in entry["reason"]
    assert "[retention_ms]" in entry["reason"]
    command_line = re.search(r"`(kafka-configs[^`]+)`", entry["reason"])
    assert command_line is not None
    carry_out(kafka, command_line[1])
    assert planned.plan(*NO_MARGIN).entries[0]["outcome"] == "planned"
    # Only a topic that is compacted must be prepared.
    alter(kafka, "unprepared", {"retention.bytes": "1000000000"})
    (entry,) = planned.plan("--set", "cleanup.policy=delete").entries
    assert entry["outcome"] == "nothing_to_do"


def test_the_clusters_settings_decide_what_is_planned(kafka: KafkaCluster, tmp_path: Path) -> None:
    planned = Planned(kafka, tmp_path, topic_of(kafka, "lagging"))
    alter(kafka, "lagging", {"min.compaction.lag.ms": str(2**62)})
    (entry,) = planned.plan(*NO_MARGIN).entries
    assert entry["outcome"] == "nothing_to_do"
    assert "min.compaction.lag.ms" in entry["reason"]
    ran = planned.plan(*NO_MARGIN, "--set", "min.compaction.lag.ms=0")
    assert ran.entries[0]["outcome"] == "planned"
    assert ran.document["notes"] == [
        "topic lagging: min.compaction.lag.ms is 0 (--set min.compaction.lag.ms), but"
        f" {2**62} on the brokers (cluster: topic)"
    ]


def test_advice_is_on_the_settings_that_the_cluster_has(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    planned = Planned(kafka, tmp_path, topic_of(kafka, "advised"))
    by_time = ("--set", "compaction.strategy=timestamp")
    (alone,) = but_of_the_catalog(planned.alone("plan", *ALWAYS, *by_time, "--json"))
    assert "segment.ms = 604800000 (default)" in alone
    # On the cluster, segments roll after a minute.
    (beside,) = but_of_the_catalog(planned.plan(*by_time, "--publish"))
    assert "segment.ms" not in beside
    assert "max.compaction.lag.ms = 9223372036854775807 (cluster: Kafka's default)" in beside


def test_a_version_that_the_brokers_disprove_refuses_the_plan(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    planned = Planned(kafka, tmp_path, topic_of(kafka, "declared"))
    settings = tmp_path / "tierfold.toml"
    settings.write_text('[cluster]\n"kafka.version" = "3.9"\n')
    (entry,) = planned.plan("--config", str(settings)).entries
    assert entry["outcome"] == "refused"
    said = re.search(r'Write ("kafka.version" = "[0-9.]+")', entry["reason"])
    assert said is not None
    settings.write_text(f"[cluster]\n{said[1]}\n")
    assert planned.plan("--config", str(settings)).entries[0]["outcome"] == "planned"
