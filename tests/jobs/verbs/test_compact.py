"""`compact` cleans a sound tier, a second run finds nothing to do, and two runs do not collide."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.commands import ALWAYS, Ran, status_of, tierfold, told
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import (
    RECORDS_PER_SEGMENT,
    SAMPLE,
    files_below,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    made_tier,
    put_segment,
    put_updates,
    sample_copy,
)
from tests.storage.call_scripts import at, fails
from tests.storage.legacy_messages import message
from tests.storage.live_segments import data
from tests.storage.scripted_catalog import rival_claims
from tierfold.compaction.cleaning.counts import RECORD_OUTCOMES
from tierfold.compaction.model.errors import InvariantBroken
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER

SEGMENT_EACH: Final = (*ALWAYS, "--set", "segment.bytes=1", "--json")
"""Every segment is its own group."""

ORDERS, RECREATED = key_of("orders"), key_of("recreated", incarnation=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One tier, two runs."""

    tier: Path
    sources: dict[str, str]
    """Every file and its digest before the first run."""
    planned: Ran
    first: Ran
    after: dict[str, str]
    status: list[dict[str, Any]]
    """After the first run."""
    values: dict[str, dict[bytes | None, bytes | None]]
    """The live values after the first run, by topic id and partition."""
    emptied: dict[str, str]
    """Every file before the second run, the logs' content zeroed."""
    second: Ran
    in_the_end: dict[str, str]

    def lives(self, topic: str, partition: int = 0) -> list[dict[str, Any]]:
        """The live segments of a partition after the first run."""
        (found,) = (
            report
            for report in self.status
            if (report["topic"], report["partition"]) == (topic, partition)
        )
        segments: list[dict[str, Any]] = found["segments"]
        return segments


def a_mixed_tier(tier: Path) -> Path:
    """The sample, partitions of every shape that can be compacted, and one that cannot."""
    sample_copy(tier)
    # No index lists these aborts now; only their markers show them.
    for index in tier.glob("kafka-tiered-storage/*/*.txnindex"):
        index.unlink()
    for key in (ORDERS, key_of("orders", 1), key_of("recreated"), RECREATED):
        put_updates(tier, key, 0)
        put_updates(tier, key, 1)
    head = key_of("head-goes")
    for offset in range(3):
        batch = data(offset, (b"k", f"{offset}".encode()))
        put_segment(tier, head, [batch], start_offset=offset)
    middle = key_of("middle-goes")
    for offset, name in enumerate((b"a", b"k", b"k")):
        batch = data(offset, (name, f"{offset}".encode()))
        put_segment(tier, middle, [batch], start_offset=offset)
    keyless = key_of("keyless")
    for offset in range(2):
        put_segment(tier, keyless, [data(offset, (None, b"v"))], start_offset=offset)
    old = [message(0, b"v"), message(1, b"w", key=b"l"), message(2, b"x")]
    put_segment(tier, key_of("legacy"), old, start_offset=0)
    broken = message(0, b"no gzip", attributes=Codec.GZIP)
    put_segment(tier, key_of("lame"), [broken], start_offset=0)
    return tier


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    tier = a_mixed_tier(tmp_path_factory.mktemp("a tier, 100% #1 ö"))
    sources = files_below(tier)
    planned = tierfold("plan", tier, *SEGMENT_EACH)
    first = tierfold("compact", tier, *SEGMENT_EACH)
    after = files_below(tier)
    status = tierfold("status", tier, "--json", "--segments").entries
    values = {
        f"{entry['topic_id']} {entry['partition']}": live_values(entry)
        for entry in status
        if entry["topic"] != "lame"
    }
    # A run that opened a segment now would find no batch and fail; the sizes in the listing stay.
    # Access times cannot show this, because a mounted tier may not keep them.
    for log in tier.glob("kafka-tiered-storage/*/*.log"):
        log.write_bytes(bytes(log.stat().st_size))
    emptied = files_below(tier)
    second = tierfold("compact", tier, *SEGMENT_EACH[:-1], "--topic", "[!l]*")
    return Course(
        tier=tier,
        sources=sources,
        planned=planned,
        first=first,
        after=after,
        status=status,
        values=values,
        emptied=emptied,
        second=second,
        in_the_end=files_below(tier),
    )


def values_of(course: Course, topic: str, partition: int = 0) -> dict[bytes | None, bytes | None]:
    """The live values of a topic that was never recreated."""
    return course.values[f"{key_of(topic).topic_id} {partition}"]


def test_all_that_can_be_compacted_is_and_the_rest_says_why(course: Course) -> None:
    assert course.first.code == 3
    outcomes = course.first.outcomes
    assert outcomes.pop(("lame", 0)) == "failed"
    assert set(outcomes.values()) == {"compacted"}
    assert len(course.first.entries) == len(outcomes) + 2
    reason = course.first.partitions["lame", 0]["reason"]
    assert not told(reason, ".log", "at byte 0", "the gzip payload cannot be")
    assert values_of(course, "legacy") == {b"l": b"w", b"k": b"x"}


def test_every_partition_reports_its_round_and_counts_that_add_up(course: Course) -> None:
    planned = {(entry["topic_id"], entry["partition"]): entry for entry in course.planned.entries}
    for report in course.first.entries:
        if report["topic"] == "lame":
            continue
        plan = planned[report["topic_id"], report["partition"]]
        assert report["first_dirty"] == plan["first_dirty"] == 0
        assert report["next_offset"] == plan["next_offset"] > 0
        assert report["bytes_in"] == plan["bytes_in"]
        assert report["epoch"] == 1
        counts = report["counts"]
        assert sum(counts[name] for name in RECORD_OUTCOMES) == counts["records_in"] > 0
        sizes = [counts[f"{name}_bytes"] for name in RECORD_OUTCOMES]
        assert sum(sizes) == counts["record_bytes_in"] > 0


def test_one_document_on_stdout_and_spark_elsewhere(course: Course) -> None:
    assert course.first.entries
    assert '"partitions"' not in course.first.stderr


def test_the_latest_value_of_every_key_stays(course: Course) -> None:
    for partition in (0, 1):
        assert course.values[f"{ORDERS.topic_id} {partition}"] == latest_updates(2)


def test_a_recreated_topic_is_compacted_beside_the_one_before(course: Course) -> None:
    assert RECREATED.topic_id != key_of("recreated").topic_id
    for key in (key_of("recreated"), RECREATED):
        assert course.values[f"{key.topic_id} 0"] == latest_updates(2)


def test_groups_of_which_nothing_is_left_give_their_offsets_to_a_neighbour(course: Course) -> None:
    (head,) = course.lives("head-goes")
    assert (head["start_offset"], head["end_offset"]) == (0, 2)
    assert values_of(course, "head-goes") == {b"k": b"2"}
    middle = course.lives("middle-goes")
    assert [(segment["start_offset"], segment["end_offset"]) for segment in middle] == [
        (0, 1),
        (2, 2),
    ]
    assert values_of(course, "middle-goes") == {b"a": b"0", b"k": b"2"}


def test_records_without_a_key_go_and_the_end_of_the_log_stays(course: Course) -> None:
    counts = course.first.partitions["keyless", 0]["counts"]
    assert (counts["without_key"], counts["kept"]) == (2, 0)
    (only,) = course.lives("keyless")
    assert (only["start_offset"], only["end_offset"]) == (0, 1)
    assert values_of(course, "keyless") == {}


def test_aborts_that_no_index_lists_are_trusted(course: Course) -> None:
    report = course.first.partitions["tiered", 0]
    (note,) = (note for note in report["notes"] if "have only their marker" in note)
    assert int(note.split()[0]) > 0
    assert report["counts"]["aborted"] > 0
    assert course.values[f"{report['topic_id']} 0"] == committed_values_of_the_sample()


def committed_values_of_the_sample() -> dict[bytes | None, bytes | None]:
    """Each key's last value outside aborted transactions, found batch by batch."""
    values: dict[int, tuple[bytes | None, bytes | None]] = {}
    open_offsets: dict[int, list[int]] = {}
    for log in sorted((SAMPLE / TIER_FOLDER).glob("*/*.log")):
        for batch in read_segment(log).batches():
            if batch.is_control:
                ended = open_offsets.pop(batch.producer_id, [])
                if batch.records[0].control_type is ControlType.ABORT:
                    for offset in ended:
                        del values[offset]
                continue
            values |= {record.offset: (record.key, record.value) for record in batch.records}
            if batch.is_transactional:
                offsets = open_offsets.setdefault(batch.producer_id, [])
                offsets += [record.offset for record in batch.records]
    return {values[offset][0]: values[offset][1] for offset in sorted(values)}


def test_what_was_there_before_is_there_still(course: Course) -> None:
    assert course.sources.items() <= course.after.items()
    assert not [name for name in course.after if name.endswith(".staged")]


def test_the_run_is_recorded_partition_by_partition(course: Course) -> None:
    run = json.loads(course.first.stdout)["run"]
    rows = [r for r in RunsTable(str(course.tier / "_tierfold")).read() if r.run == run]
    assert len(rows) == len(course.first.entries)
    assert {row.command for row in rows} == {"compact"}
    recorded = {(row.topic_id, row.partition): row for row in rows}
    for entry in course.first.entries:
        row = recorded[entry["topic_id"], entry["partition"]]
        assert (row.outcome, row.counts) == (entry["outcome"], entry["counts"])


def test_a_second_run_opens_no_segment_and_writes_no_object(course: Course) -> None:
    assert course.second.code == 0, course.second.stdout
    assert "Nothing to do: no segment was opened or written." in course.second.stdout
    assert course.in_the_end == course.emptied


# Two runs at once, and what happens in between.


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A tier of two partitions."""
    tier = made_tier(tmp_path / "tier")
    for topic in ("orders", "payments"):
        put_updates(tier, key_of(topic), 0)
        put_updates(tier, key_of(topic), 1)
    return tier


def test_a_run_whose_partition_was_taken_over_is_fenced(two: Path) -> None:
    live = [segment["id"] for segment in status_of(two)["orders", 0]["segments"]]
    with scripted(at("commit 1", rival_claims(str(two / "_tierfold"), ORDERS))):
        ran = tierfold("compact", two, *ALWAYS, "--json")
    assert ran.code == 4
    assert ran.outcomes == {("orders", 0): "fenced", ("payments", 0): "compacted"}
    assert "run rival holds epoch 2" in ran.entry["reason"]
    status = status_of(two)["orders", 0]
    assert [segment["id"] for segment in status["segments"]] == live
    assert (len(status["orphans"]), status["cleaner_offset"]) == (1, None)
    again = tierfold("compact", two, *ALWAYS, "--json")
    assert (again.code, again.entry["epoch"]) == (0, 3)
    assert live_values(status_of(two)["orders", 0]) == latest_updates(2)


def test_a_run_that_comes_second_to_the_claim_leaves_the_partition_alone(two: Path) -> None:
    tierfold("compact", two, *ALWAYS)
    put_updates(two, ORDERS, 2)
    before = files_below(folder_of(two, ORDERS))
    with scripted(at("claim", rival_claims(str(two / "_tierfold"), ORDERS))):
        ran = tierfold("compact", two, *ALWAYS, "--json")
    ran.ends(0, "left", "another run changed it since this run planned it")
    assert files_below(folder_of(two, ORDERS)) == before


def test_an_object_that_vanishes_after_the_claim_stops_its_partition_alone(two: Path) -> None:
    victim = sorted(folder_of(two, ORDERS).glob("*.log"))[0]
    content = victim.read_bytes()
    with scripted(at("claim", victim.unlink, is_done=True)):
        ran = tierfold("compact", two, *ALWAYS, "--json")
    assert ran.code == 3
    assert ran.outcomes == {("orders", 0): "failed", ("payments", 0): "compacted"}
    reason = ran.entry["reason"]
    assert not told(reason, str(victim), "it is not there, or no longer", "restore it")
    # The run released its claim, so no later run has to take over.
    assert status_of(two)["orders", 0]["owner_run"] == ""
    victim.write_bytes(content)
    again = tierfold("compact", two, *ALWAYS, "--json")
    assert again.outcomes == {("orders", 0): "compacted", ("payments", 0): "nothing_to_do"}
    assert live_values(status_of(two)["orders", 0]) == latest_updates(2)


def test_a_catalog_that_vanishes_before_the_commit_publishes_nothing(two: Path) -> None:
    live = {place: report["segments"] for place, report in status_of(two).items()}
    catalog = two / "_tierfold"
    with scripted(at("commit", lambda: catalog.rename(two / "away"))):
        ran = tierfold("compact", two, *ALWAYS, "--json")
    assert (ran.code, set(ran.outcomes.values())) == (4, {"lost_race"})
    shutil.rmtree(catalog, ignore_errors=True)
    (two / "away").rename(catalog)
    assert {place: report["segments"] for place, report in status_of(two).items()} == live


def test_a_catalog_that_cannot_be_read_at_the_commit_is_reported_per_partition(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierfold.jobs.pipeline.held_partitions.READ_BACK_AFTER_MS", (0, 1))
    log = two / "_tierfold" / "partitions" / "_delta_log"

    def damage() -> None:
        for commit in log.glob("*.json"):
            commit.write_bytes(b"rubbish")

    with scripted(at("commit", damage)):
        ran = tierfold("compact", two, *ALWAYS, "--json")
    assert ran.code == 3
    assert set(ran.outcomes.values()) == {"unknown"}
    reason = ran.entry["reason"]
    words = ("_tierfold/partitions", "the commit file is cut short", "the next run finds out")
    assert not told(reason, *words)


def test_a_bug_of_ours_has_an_exit_code_of_its_own(two: Path) -> None:
    bug = InvariantBroken("a rule is broken", where="row", remedy="Please report this bug.")
    with scripted(fails("claim", bug)):
        ran = tierfold("compact", two, *ALWAYS, "--set", "tier.binding=detached")
    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr == "tierfold: row: a rule is broken. Please report this bug.\n"


def test_a_partition_renamed_behind_the_catalogs_back_is_refused(two: Path) -> None:
    tierfold("compact", two, *ALWAYS)
    folder = folder_of(two, ORDERS)
    folder.rename(folder.with_name(folder.name.replace("orders", "renamed")))
    ran = tierfold("compact", two, *ALWAYS, "--json")
    assert ran.code == 3
    reason = ran.partitions["renamed", 0]["reason"]
    assert not told(reason, ORDERS.topic_id, "orders-0", "renamed-0")


def test_new_segments_are_compacted_onto_what_is_clean(two: Path) -> None:
    tierfold("compact", two, *ALWAYS)
    put_updates(two, ORDERS, 2)
    ran = tierfold("compact", two, *ALWAYS, "--json")
    report = ran.entry
    spans = (report["first_dirty"], report["next_offset"], report["epoch"])
    assert spans == (2 * RECORDS_PER_SEGMENT, 3 * RECORDS_PER_SEGMENT, 2)
    status = status_of(two)["orders", 0]
    assert live_values(status) == latest_updates(3)
    assert [retired["retired_by_epoch"] for retired in status["retired"]] == [1, 1, 2, 2]
