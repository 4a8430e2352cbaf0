"""docs/migration.md as somebody follows it: an archive, a tiered topic, other settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from tests.brokers.altered_settings import alter
from tests.brokers.archivist import ORDERS, SOON, Archivist, cleaned_log
from tests.brokers.cluster import KafkaCluster
from tests.brokers.kafka_page import Operator, commands_of, settings_of
from tests.brokers.topics import CALL_S, Topic
from tests.jobs.log_dirs import WrittenLogDir
from tests.storage.live_segments import NOW_MS, data
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft

DAY_MS: Final = 86_400_000
TIERED: Final = "Let brokers tier it"
COMPACTED: Final = "Let tierfold compact it"
STRATEGY: Final = "Another strategy for an archive"
POLICY: Final = "Another policy for an archive"


def test_an_archive_is_made_and_brought_up_to_date(tmp_path: Path) -> None:
    logs = cleaned_log(tmp_path / "data")
    archivist = Archivist(logs.path, tmp_path)
    dry_run, upload, compact, verify = commands_of("To an archive")
    assert "2 segments to upload: no copy lag is set" in archivist.types(dry_run).stdout
    for command in (upload, compact, verify):
        archivist.types(command)
    assert archivist.values() == {b"a": b"2", b"b": b"1", b"c": b"2"}
    assert (archivist.row()["live_segments"], archivist.row()["cleaner_offset"]) == (1, 20)
    logs.roll(ORDERS, [data(20, (b"c", b"3"))], 29)
    archivist.archives()
    assert archivist.values() == {b"a": b"2", b"b": b"1", b"c": b"3"}


def at(offset: int, *records: tuple[bytes, bytes, int]) -> BatchDraft:
    """A batch with a key, a value and a time of each record, in milliseconds after `NOW_MS`."""
    drafts = (
        RecordDraft(offset=offset + n, timestamp_ms=NOW_MS + time_ms, key=key, value=value)
        for n, (key, value, time_ms) in enumerate(records)
    )
    return BatchDraft(base_offset=offset, records=tuple(drafts), leader_epoch=3)


@pytest.mark.soak
def test_another_strategy_and_back(tmp_path: Path) -> None:
    logs = WrittenLogDir(tmp_path / "data")
    logs.begin(ORDERS)
    archivist = Archivist(logs.path, tmp_path)
    logs.roll(ORDERS, [at(0, (b"a", b"removed", 900), (b"b", b"1", 100))], 9)
    logs.roll(ORDERS, [at(10, (b"a", b"2", 500))], 19)
    archivist.archives()
    by_offset = {b"a": b"2", b"b": b"1"}
    assert archivist.values() == by_offset
    (timestamps,) = settings_of(STRATEGY)
    plan, compact = commands_of(STRATEGY)
    archivist.writes(timestamps)
    (note,) = archivist.types(plan, "--json").entry["notes"]
    assert note.startswith("the compaction strategy was offset and is timestamp now")
    archivist.types(compact, *SOON)
    assert (archivist.values(), archivist.row()["cleaner_offset"]) == (by_offset, 20)
    # Late records: the one of a clean key stays, also below the cleaner offset.
    logs.roll(ORDERS, [at(20, (b"a", b"late", 400), (b"b", b"3", 300))], 29)
    archivist.archives()
    assert archivist.values() == {b"a": b"2", b"b": b"3"}
    assert archivist.row()["cleaner_offset"] == 30
    assert archivist.types(plan, "--json").entry["notes"] == []
    (offsets,) = settings_of("To an archive")
    archivist.writes(offsets)
    archivist.types(compact, *SOON)
    assert archivist.values() == {b"a": b"2", b"b": b"3"}
    logs.roll(ORDERS, [at(30, (b"b", b"4", 0))], 39)
    archivist.archives()
    assert archivist.values() == {b"a": b"2", b"b": b"4"}


@pytest.mark.soak
def test_another_policy_and_back(tmp_path: Path) -> None:
    logs = WrittenLogDir(tmp_path / "data")
    logs.begin(ORDERS)
    archivist = Archivist(logs.path, tmp_path)
    logs.roll(ORDERS, [at(0, (b"old", b"1", 0), (b"both", b"1", 0))], 9)
    archivist.archives()
    logs.roll(ORDERS, [at(10, (b"both", b"2", 40 * DAY_MS))], 19)
    archivist.now_ms = NOW_MS + 41 * DAY_MS
    _, upload, compact, _ = commands_of("To an archive")
    archivist.types(upload)
    (both,) = settings_of(POLICY)
    dry_run, vacuum = commands_of(POLICY)
    archivist.types(vacuum)  # As long as the policy is only `compact`, nothing expires.
    assert archivist.row()["log_start_offset"] == 0
    archivist.writes(both)
    assert "retention.ms" in archivist.types(dry_run).stdout
    assert archivist.row()["log_start_offset"] == 0
    archivist.types(vacuum)
    assert (archivist.row()["log_start_offset"], archivist.row()["cleaner_offset"]) == (10, 10)
    assert archivist.values() == {b"both": b"2"}
    (only_compact,) = settings_of("To an archive")
    archivist.writes(only_compact)
    archivist.now_ms = NOW_MS + 400 * DAY_MS
    archivist.types(vacuum)
    archivist.types(compact, *SOON)
    assert archivist.values() == {b"both": b"2"}
    assert archivist.row()["cleaner_offset"] == 20


@pytest.fixture(scope="module")
def compacting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker that cleans, and writes its checkpoints, all the time."""
    settings = {
        "log.cleaner.backoff.ms": "100",
        "log.flush.offset.checkpoint.interval.ms": "200",
        "replica.high.watermark.checkpoint.interval.ms": "200",
    }
    folder = tmp_path_factory.mktemp("compacting")
    with KafkaCluster(folder, settings=settings) as running:
        yield running


def compacted_topic(cluster: KafkaCluster, name: str) -> Topic:
    """A topic that the broker compacts itself, of old records; it has cleaned some."""
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "60000",
        "message.timestamp.before.max.ms": str(2**63 - 1),
        "min.cleanable.dirty.ratio": "0.0",
        "file.delete.delay.ms": "20",
    }
    admin = cluster.admin()
    asked = NewTopic(name, 1, config=config, replica_assignment=[[1]])
    admin.create_topics([asked])[name].result(CALL_S)
    topic = Topic(cluster, name)
    for number in range(4):
        topic.append([(b"a", b"%d" % number), (b"b", b"%d" % number), (b"c-%d" % number, b"1")])
    cluster.wait(lambda: len(topic.read()) < 12, "the broker's own compaction")
    return topic


REFUSED: Final = "Remote log storage only supports topics with cleanup.policy=delete"


def newest(topic: Topic, below: int | None = None) -> dict[bytes | None, bytes | None]:
    """The newest value of each key, as a consumer reads them; `below`: only up to this offset."""
    return {one.key: one.value for one in topic.read() if below is None or one.offset < below}


@pytest.mark.soak
@pytest.mark.jvm
def test_a_compacted_topic_becomes_an_archive_and_then_a_tiered_one(
    compacting: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = compacted_topic(compacting, "sales-by-brokers")
    before = newest(topic)
    archivist = Archivist(compacting.brokers[0].data, tmp_path, topic.name)

    _, upload, *_ = commands_of("To an archive")

    def is_uploaded() -> bool:
        (found,) = archivist.types(upload, "--json").entries
        return bool(found["reason"] == "the tier has all rolled segments")

    compacting.wait(is_uploaded, "the broker's checkpoints")
    archivist.archives()
    assert archivist.values() == newest(topic, below=9)
    operator = Operator(compacting, tmp_path, topic.name)
    (tier, status), (init, *verbs) = commands_of(TIERED), commands_of(COMPACTED)
    with pytest.raises(KafkaException, match=REFUSED):
        alter(compacting, topic.name, {"remote.storage.enable": "true"})
    operator.types(tier)
    with pytest.raises(KafkaException, match=REFUSED):
        alter(compacting, topic.name, {"cleanup.policy": "compact"})
    topic.wait_until_tiered()
    assert newest(topic) == before
    assert topic.name in operator.types(status).stdout
    monkeypatch.chdir(tmp_path)
    assert operator.types(init).code == 0
    written = operator.settings.read_text(encoding="utf-8")
    assert "\n#publish = true\n" in written
    assert f'[topics."{topic.name}"]\n#"cleanup.policy" = "compact"\n' in written
    (settings,) = settings_of(COMPACTED)
    operator.writes(settings)
    plan, compact, look = (operator.types(verb) for verb in verbs)
    assert [one.code for one in (plan, compact, look)] == [0, 0, 0]
    assert "1 partition: compacted." in compact.stdout
    assert "open: " not in look.stdout
    assert newest(topic) == before


@pytest.mark.soak
@pytest.mark.jvm
def test_with_a_finite_retention_brokers_delete_the_newest_value_of_old_keys(
    compacting: KafkaCluster,
) -> None:
    """Why the page's command sets `retention.ms`, too."""
    topic = compacted_topic(compacting, "sales-without-retention")
    alter(compacting, topic.name, {"cleanup.policy": "delete", "remote.storage.enable": "true"})
    compacting.wait(lambda: newest(topic) == {}, "the end of all keys")
