"""`status` beside a real cluster: what brokers have, and how the catalog differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import Topic
from tests.jobs.commands import ALWAYS, Ran, told
from tests.jobs.commands import tierfold as command
from tests.jobs.scripted_runs import scripted
from tests.storage.call_scripts import fails
from tierfold.compaction.model.errors import UnreadableObject

UNREADABLE = UnreadableObject("no answer", where="the folder", remedy="Mount it.")
RECORDS = [(b"key-%d" % n, b"value") for n in range(4)]


def tierfold(kafka: KafkaCluster, *arguments: str | Path) -> Ran:
    return command(*map(str, arguments), "--bootstrap-server", kafka.servers)


def topic_of(kafka: KafkaCluster, name: str) -> Topic:
    """A topic of three segments in the tier."""
    topic = kafka.create(name)
    for _ in range(3):
        topic.append(RECORDS)
    topic.wait_until_tiered()
    return topic


def brokers_of(ran: Ran, topic: str) -> dict[str, Any]:
    found: dict[str, Any] = ran.partitions[topic, 0]["brokers"]
    return found


def differing(brokers: dict[str, Any]) -> dict[str, int]:
    return {name: count for name, count in brokers["differences"].items() if count}


def test_brokers_have_what_they_uploaded(kafka: KafkaCluster) -> None:
    topic = topic_of(kafka, "shown")
    ran = tierfold(kafka, "status", kafka.tier, "--topic", "shown", "--json", "--segments")
    brokers = brokers_of(ran, "shown")
    sizes = [path.stat().st_size for path in topic.logs()]
    assert brokers["states"] == {
        "COPY_STARTED": {"segments": 0, "bytes": 0},
        "COPY_FINISHED": {"segments": 3, "bytes": sum(sizes)},
        "DELETE_STARTED": {"segments": 0, "bytes": 0},
    }
    assert [segment["id"] for segment in brokers["segments"]] == [
        path.stem.partition("-")[2] for path in topic.logs()
    ]
    assert all(segment["is_referenced"] for segment in brokers["segments"])
    assert brokers["offsets"] == {"log_start": 0, "high_watermark": 12, "last_stable": 12}
    assert differing(brokers) == {}
    assert ran.document["cluster"]["metadata_topic_id"] == kafka.metadata.id
    alone = tierfold(kafka, "status", "--topic", "shown", "--json", "--segments")
    assert alone.document["tier"] is None
    assert brokers_of(alone, "shown") == {
        **brokers,
        "differences": None,
        "beside_catalog": None,
    }


def test_a_compacted_tier_differs_from_what_brokers_have(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic_of(kafka, "swapped")
    catalog = ("--catalog", tmp_path / "catalog", "--topic", "swapped")
    done = command("compact", str(kafka.tier), *ALWAYS, *map(str, catalog), "--engine", "local")
    assert done.code == 0, done
    ran = tierfold(kafka, "status", kafka.tier, *catalog, "--json")
    brokers = brokers_of(ran, "swapped")
    assert differing(brokers) == {"not_served": 1, "retired_but_served": 3, "never_named": 1}
    shown = tierfold(kafka, "status", kafka.tier, *catalog)
    assert not told(shown.stdout, "brokers of cluster", "replayed; nothing was sent."), shown


def test_the_offsets_of_a_topic_that_is_no_more_are_unknown(kafka: KafkaCluster) -> None:
    old = topic_of(kafka, "replaced")
    old.delete()
    new = kafka.create("replaced")
    ran = tierfold(kafka, "status", "--topic", "replaced", "--json")
    found = {entry["topic_id"]: entry["brokers"] for entry in ran.entries}
    assert found[old.id]["offsets"] is None
    assert new.id in found[old.id]["offsets_unknown"]
    new.delete()
    ran = tierfold(kafka, "status", "--topic", "replaced")
    assert "The cluster has no topic replaced." in ran.stdout


def test_a_topic_that_brokers_do_not_have_is_refused_as_mistyped(kafka: KafkaCluster) -> None:
    topic_of(kafka, "present")
    tierfold(kafka, "status", "--topic", "presemt").refuses("topic presemt", "present")


def test_a_partition_that_cannot_be_listed_is_not_compared(kafka: KafkaCluster) -> None:
    topic_of(kafka, "unlisted")
    with scripted(fails("list", UNREADABLE).where(lambda key: "/unlisted-0-" in key)):
        ran = tierfold(kafka, "status", kafka.tier, "--topic", "unlisted", "--json")
    brokers = brokers_of(ran, "unlisted")
    assert ran.code == 3
    assert brokers["states"]["COPY_FINISHED"]["segments"] == 3
    assert brokers["differences"] is None
