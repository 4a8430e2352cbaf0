"""`doctor` on a real cluster with one of each illness, and what it says leads out.

The screen and the document are recorded: `python -m tests.brokers.record_doctor`.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from tests.brokers.altered_settings import alter, set_as_printed
from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.illnesses import COMPACTED, RECORDS, SMALL, STRANGE, Illnesses, key_of
from tests.brokers.test_status_of_brokers import topic_of
from tests.brokers.topics import METADATA_TOPIC
from tests.brokers.versions import WITHOUT_COMPILER
from tests.jobs.commands import ALWAYS, CLOCK, Ran
from tests.jobs.commands import tierfold as command
from tests.jobs.verbs.test_golden_documents import VARYING
from tierfold.compaction.brokers.metadata_partitions import metadata_partition
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.rules import DAY_MS

GOLDEN: Final = Path(__file__).parent / "golden_doctor"
LATER_MS: Final = 9 * DAY_MS
"""How far ahead `doctor` looks: what is done now is then settled."""
ILL: Final = {
    "stuck-upload": {"upload_stuck"},
    "stuck-deletion": {"deletion_stuck"},
    "gap": {"gap", "undeleted_objects"},
    "without-objects": {"not_in_tier"},
    "without-folder": {"not_in_tier"},
    "never-named": {"never_named"},
    "another-catalog": {"another_catalog"},
    "overlapping": {"overlapping_uploads"},
    "unfound": {"unfound_offsets", "overlapping_uploads"},
    "small": {"small_segments"},
    "swapped": {"vacuum_due", "orphans"},
    "unpublished": {"unpublished"},
    "deleted": {"topic_deleted"},
    "unknown": {"topic_unknown"},
    "expiring": {"retention_ms"},
    "by-size": {"retention_bytes", "kafka_20732"},
    "empty-policy": {"empty_policy"},
    "local-for-ever": {"local_retention"},
    "": {"metadata_settings", "late_sends"},
    "healthy": set[str](),
}
"""By topic, the codes of its findings; those of the cluster stand under no name."""


class Examined:
    """A cluster with all illnesses, and what `doctor` says of it."""

    def __init__(self, kafka: KafkaCluster, folder: Path) -> None:
        self.kafka, self.ill = kafka, Illnesses(kafka, folder)
        self.ill.make()
        config = folder / "tierfold.toml"
        tables = (f'[topics.{name}]\n"cleanup.policy" = "compact"\n' for name in COMPACTED)
        config.write_text("".join(tables), encoding="utf-8")
        self._words = ("--config", str(config))

    def doctor(self, *more: str) -> Ran:
        """Look at tier and brokers, nine days later."""
        now_ms = time.time_ns() // 1_000_000 + LATER_MS
        return self.ill.tierfold("doctor", *self._words, *more, CLOCK, str(now_ms))

    def findings(self, *more: str) -> dict[str, dict[str, dict[str, Any]]]:
        """By topic and code."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for one in self.doctor(*more, "--json").document["findings"]:
            found.setdefault(one["topic"] or "", {})[one["code"]] = one
        return found

    def codes(self, topic: str) -> set[str]:
        """The codes of one topic, of which the tier may have nothing by now."""
        return set(self.findings("--topic", f"{topic}*").get(topic, {}))

    def recovers(self, topic: str, code: str) -> None:
        """Wait until the topic has no such finding any longer."""
        self.kafka.wait(lambda: code not in self.codes(topic), f"{topic} without {code}")

    def texts(self) -> dict[str, str]:
        """The screen and the document, without what differs from run to run."""
        screen, document = self.doctor(), self.doctor("--json")
        assert (screen.code, document.code) == (3, 3)
        parts = {name: document.document[name] for name in ("outcome", "findings", "topics")}
        lines = [line.rstrip() for line in screen.stdout.splitlines()]
        text = "\n".join(lines) + "\n"
        return {
            "screen.txt": self._masked(text),
            "document.json": self._masked(json.dumps(parts, indent=1, ensure_ascii=False)) + "\n",
        }

    def _masked(self, text: str) -> str:
        numbers: dict[str, str] = {}

        def numbered(found: re.Match[str]) -> str:
            return numbers.setdefault(found[0], f"<id {len(numbers) + 1}>")

        text = text.replace(str(self.kafka.tier), "<tier>").replace(self.kafka.servers, "<server>")
        text = VARYING["id"].sub(numbered, text)
        text = re.sub(r"(?<=the oldest )[\d.]+ d", "9 d", text)
        text = re.sub(r"(?m)^Took .*$|^__remote_log_metadata has .*$", "<varying>", text)
        return re.sub(r'(?<="usd_per_month": )[\d.e-]+', "0", text)


def examined(folder: Path) -> Iterator[Examined]:
    """Start a cluster of its own, and make it ill."""
    with KafkaCluster(folder, WITHOUT_COMPILER) as kafka:
        yield Examined(kafka, folder)


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Examined]:
    yield from examined(tmp_path_factory.mktemp("sick"))


@pytest.mark.soak
def test_each_illness_is_found_and_shown_as_recorded(sick: Examined) -> None:
    found = sick.findings()
    assert {topic: set(codes) for topic, codes in found.items()} == {
        topic: codes for topic, codes in ILL.items() if codes
    }
    recorded = {path.name: path.read_text(encoding="utf-8") for path in GOLDEN.iterdir()}
    assert sick.texts() == recorded


@pytest.mark.soak
def test_brokers_alone_and_the_listing_alone_say_what_they_know(sick: Examined) -> None:
    now = (CLOCK, str(time.time_ns() // 1_000_000 + LATER_MS))
    alone = command("doctor", "--bootstrap-server", sick.kafka.servers, "--json", *now)
    assert alone.code == 3
    by_brokers = {(one["topic"], one["code"]) for one in alone.document["findings"]}
    expected = {
        ("stuck-upload", "upload_stuck"),
        ("stuck-deletion", "deletion_stuck"),
        ("gap", "gap"),
        ("unfound", "unfound_offsets"),
        ("small", "small_segments"),
        ("empty-policy", "empty_policy"),
        (None, "metadata_settings"),
    }
    assert expected <= by_brokers
    assert not {"not_in_tier", "never_named", "orphans"} & {code for _, code in by_brokers}
    listing = command("doctor", str(sick.kafka.tier), "--json", *now)
    by_listing = {(one["topic"], one["code"]) for one in listing.document["findings"]}
    assert {("without-objects", "gap"), ("small", "small_segments")} <= by_listing


def _gone_below(offset: int) -> Callable[[Examined, str], None]:
    return lambda sick, topic: sick.ill.topics[topic].delete_records(offset)


def _taken_out(sick: Examined, topic: str) -> None:
    for path in sick.ill.topics[topic].folder().glob(f"*{STRANGE[0]}*"):
        path.unlink()


def _deleted_by_hand(sick: Examined, topic: str) -> None:
    finding = sick.findings("--topic", topic)[topic]["undeleted_objects"]
    segment_id = re.search(r"forgotten: (\S+) ", finding["detail"])
    assert segment_id is not None
    for path in sick.ill.topics[topic].folder().glob(f"*{segment_id[1]}*"):
        path.unlink()


def _brought_back(sick: Examined, topic: str) -> None:
    folder = sick.ill.topics[topic].folder()
    if (sick.ill.kept / folder.name).exists():
        (sick.ill.kept / folder.name).rename(folder)
        return
    for path in sick.ill.kept.glob("0*"):
        path.rename(folder / path.name)


def _folder_deleted(sick: Examined, topic: str) -> None:
    for folder in (sick.kafka.tier / "kafka-tiered-storage").glob(f"{topic}-0-*"):
        shutil.rmtree(folder)


def _compacted(sick: Examined, topic: str) -> None:
    assert sick.ill.compact(topic).code == 0


def _vacuumed(sick: Examined, topic: str) -> None:
    """As if the grace period were over: by a clock that is ahead."""
    now_ms = time.time_ns() // 1_000_000 + LATER_MS
    words = ("--topic", topic, "--publish", "--canary", "off", "--yes")
    ran = sick.ill.tierfold("vacuum", *words, CLOCK, str(now_ms))
    assert ran.code == 0, ran


def _set(sick: Examined, topic: str) -> None:
    for finding in sick.findings("--topic", topic)[topic].values():
        part = RefusalPart(code="", detail="", remedy=finding["remedy"])
        set_as_printed(sick.kafka, part.command)


WAYS_OUT: Final[list[tuple[str, str, Callable[[Examined, str], None]]]] = [
    ("stuck-upload", "upload_stuck", _gone_below(12)),
    ("stuck-deletion", "deletion_stuck", _gone_below(12)),
    ("gap", "undeleted_objects", _deleted_by_hand),
    ("gap", "gap", _gone_below(8)),
    ("without-objects", "not_in_tier", _brought_back),
    ("without-folder", "not_in_tier", _brought_back),
    ("never-named", "never_named", _taken_out),
    ("empty-policy", "empty_policy", _set),
    ("expiring", "retention_ms", _set),
    ("by-size", "kafka_20732", _set),
    ("local-for-ever", "local_retention", _set),
    ("deleted", "topic_deleted", _folder_deleted),
]
"""Topic, code, and what the remedy says; none needs the metadata topic as it was."""

AFTER_THE_METADATA_TOPIC: Final[list[tuple[str, str, Callable[[Examined, str], None]]]] = [
    ("swapped", "orphans", _vacuumed),
    ("swapped", "vacuum_due", _vacuumed),
    ("unpublished", "unpublished", _compacted),
    ("unfound", "unfound_offsets", _compacted),
    ("overlapping", "overlapping_uploads", _compacted),
    ("small", "small_segments", _compacted),
]
"""The same, once the metadata topic is set up as it should be."""


@pytest.mark.soak
def test_what_it_says_leads_out(sick: Examined) -> None:
    for topic, code, mend in WAYS_OUT:
        mend(sick, topic)
        sick.recovers(topic, code)
    for finding in sick.findings("--topic", "swapped")[""].values():
        part = RefusalPart(code="", detail="", remedy=finding["remedy"])
        set_as_printed(sick.kafka, part.command)
    assert "" not in sick.findings("--topic", "swapped")
    for topic, code, mend in AFTER_THE_METADATA_TOPIC:
        mend(sick, topic)
        sick.recovers(topic, code)


@pytest.mark.soak
def test_larger_segments_add_fewer_records(sick: Examined) -> None:
    topic = sick.ill.uploaded("larger", 2)
    longer = {"segment.ms": "604800000", "local.retention.ms": "-2"}
    alter(sick.kafka, topic.name, longer)
    for _ in range(SMALL):
        topic.append(RECORDS)
    time.sleep(2)
    assert len(topic.logs()) == 2


@pytest.mark.soak
def test_a_record_that_stops_brokers_comes_first(sick: Examined) -> None:
    """Last, as no broker of this cluster reads its metadata any longer."""
    place = metadata_partition(key_of(sick.ill.topics["healthy"]), METADATA_PARTITIONS)
    producer = Producer(sick.kafka.client_settings())
    producer.produce(METADATA_TOPIC, None, partition=place)
    assert producer.flush(30) == 0
    ran = sick.doctor("--topic", "healthy")
    assert ran.code == 3
    assert "First: healthy-0: The record at offset" in ran.stdout
    assert "[metadata_stops_brokers]. Brokers stop reading metadata there" in ran.stdout


@pytest.mark.soak
def test_500_healthy_partitions_have_no_finding(kafka: KafkaCluster) -> None:
    topic = kafka.create("fleet", partitions=500)
    for partition in range(500):
        topic.append(RECORDS, partition)
    topic.wait_until_tiered()
    server, scope = ("--bootstrap-server", kafka.servers), ("--topic", "fleet")
    for words in ((str(kafka.tier), *server), server, (str(kafka.tier),)):
        ran = command("doctor", *words, *scope, "--json")
        assert (ran.code, len(ran.entries)) == (0, 500)
        assert ran.document["findings"] == []


def test_a_healthy_topic_and_one_without_objects(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = topic_of(kafka, "examined")
    words = ("--topic", "examined", "--bootstrap-server", kafka.servers)

    def findings(*more: str) -> list[str]:
        ran = command("doctor", *more, *words, "--json")
        assert ran.code == (3 if ran.document["outcome"] == "failed" else 0)
        return [one["code"] for one in ran.document["findings"]]

    before = {path: path.stat().st_mtime_ns for path in kafka.tier.rglob("*")}
    assert findings(str(kafka.tier)) == findings() == []
    (summary,) = command("doctor", str(kafka.tier), *words, *ALWAYS, "--json").document["topics"]
    assert (summary["segments"], summary["is_compacted"], summary["in_the_way"]) == (3, True, [])
    assert before == {path: path.stat().st_mtime_ns for path in kafka.tier.rglob("*")}
    second = topic.logs()[1].stem[21:]
    for path in topic.folder().glob(f"*{second}*"):
        path.rename(tmp_path / path.name)
    assert findings(str(kafka.tier)) == ["not_in_tier"]
    assert findings() == []
    for path in tmp_path.glob("0*"):
        path.rename(topic.folder() / path.name)
    assert findings(str(kafka.tier)) == []
    # A partition of which the tier has nothing is examined, too.
    topic.folder().rename(tmp_path / "moved")
    ran = command("doctor", str(kafka.tier), "--bootstrap-server", kafka.servers, "--json")
    found = {(one["topic"], one["code"]) for one in ran.document["findings"]}
    assert ("examined", "not_in_tier") in found
    (tmp_path / "moved").rename(topic.folder())
