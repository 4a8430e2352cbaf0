"""`verify` and Spark's window find wrong results of every strategy, planted in one tier."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.jobs.commands import tierfold, told
from tests.jobs.tiers import INDEX_INTERVAL_BYTES, key_of, made_tier
from tests.pictures.batch_words import draft_of
from tests.storage.live_segments import EPOCHS, an_abort, log_of
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.origins import origin_of
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import (
    CleanerOffset,
    PartitionKey,
    PartitionState,
    RetiredSegment,
    Segment,
)
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stopping import Stopped, stoppable
from tierfold.jobs.pipeline.survey import known_partitions
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.second_opinion import SecondOpinion, second_opinions
from tierfold.jobs.verbs.verified import Verified
from tierfold.jobs.verbs.verify import Extent, verify
from tierfold.jobs.verbs.verify_targets import target_of
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER
from tierfold.storage.tiers.locations import location_of
from tierfold.storage.tiers.tier_uris import open_tier

WORDS: Final = (
    *("0:a=time@9#1", "1:a=version@5#9", "2:a=offset@1"),
    *("3:b=@9#9", "4:b=late@1#1"),
    *("5:c=1@1#1", "P7(6:c=x@99#99)", "7:P7:A"),
    *("8:d=1@1#1", "9:d=@2#2"),
    *("10:=keyless@1", "11:d=@1#1"),
    *("12:f=1@1#1", "13:f=1@2#2"),
    *("14:e=0@1#1", "15:e=1@1#1"),
)
"""The records of the originals, in two segments; record n is word n."""

LAST: Final = len(WORDS) - 1
RIGHT: Final = {
    "offset": (2, 4, 5, 11, 13, 15),
    "timestamp": (0, 3, 5, 9, 13, 15),
    "header=version": (1, 3, 5, 9, 13, 15),
}
"""By strategy the records that stay, of a, b, c, d, f and e; of d it is a tombstone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A topic: its strategy and its live records."""

    strategy: str
    live: tuple[str, ...]
    passes: tuple[int, ...] = (LAST + 1,)
    key: str = ""
    """The one that both opinions must name; empty: none."""
    is_seen_by_both: bool = True
    late: int = 0
    keys: int = 6
    """Of either side."""


def cases() -> dict[str, Case]:
    """By topic."""
    found = {}
    for strategy, right in RIGHT.items():
        good = Case(strategy=strategy, live=words(right))
        name, _, _ = strategy.partition("=")
        stale = next(other[0] for other in RIGHT.values() if other[0] != right[0])
        without = {n: words(rest for rest in right if rest != n) for n in right}
        found |= {
            f"{name}-right": good,
            f"{name}-tombstone-gone": replace(good, live=without[right[3]]),
            f"{name}-stale": replace(
                good, live=words((stale, *right[1:])), key="a", passes=(1, 2, LAST + 1)
            ),
            f"{name}-lost": replace(good, live=without[5], key="c"),
            f"{name}-changed": replace(
                good, live=(*without[5][:2], "5:c=2", *without[5][2:]), key="c"
            ),
            f"{name}-aborted": replace(
                good, live=(*without[5][:2], "6:c=x@99#99", *without[5][2:]), key="c"
            ),
            f"{name}-new": replace(
                good, live=(*words(right[:3]), "8:z=", *words(right[3:])), key="z", keys=7
            ),
            f"{name}-back": replace(good, live=words(sorted({*right, 8} - {right[3]})), key="d"),
            # The value is the same: only the stricter one tells the records apart.
            f"{name}-twin": replace(
                good, live=words(sorted({*right, 12} - {13})), key="f", is_seen_by_both=False
            ),
        }
        if strategy != "offset":
            back = replace(good, live=words(sorted({*right, 4} - {3})), key="b")
            found[f"{name}-older-back"] = replace(back, passes=(3, LAST + 1))
            found[f"{name}-late"] = replace(back, passes=(4, LAST + 1), key="", late=1)
            late_tombstone = words(sorted({*right, 11} - {9}))
            found[f"{name}-late-tombstone"] = replace(
                good, live=late_tombstone, passes=(10, LAST + 1)
            )
    return found


def words(numbers: Sequence[int]) -> tuple[str, ...]:
    """The records of these numbers."""
    return tuple(WORDS[number] for number in numbers)


CASES: Final = cases()


def upload(
    tier: Path, key: PartitionKey, chosen: Sequence[str], offsets: tuple[int, int], run: str = ""
) -> Segment:
    """A segment of these words, as a broker or a run writes it."""
    has_abort = any(word.endswith(":A") for word in chosen)
    segment = BrokerUpload(
        start_offset=offsets[0],
        log=log_of([draft_of(word, EPOCHS[-1].epoch) for word in chosen]),
        index_interval_bytes=INDEX_INTERVAL_BYTES,
        lineage=EPOCHS,
        aborted=(an_abort(7, 6, 7),) if has_abort else (),
    ).put(open_tier(str(tier)), key, offsets[1])
    return replace(segment, origin=origin_of(run))


def state_of(tier: Path, key: PartitionKey, case: Case) -> PartitionState:
    """The case's topic in the tier, and its row."""
    originals = [upload(tier, key, WORDS[:6], (0, 5)), upload(tier, key, WORDS[6:], (6, LAST))]
    return PartitionState(
        key=key,
        epoch=len(case.passes),
        owner_run="",
        cleaner_offsets=tuple(
            CleanerOffset(epoch=i, offset=end) for i, end in enumerate(case.passes, start=1)
        ),
        log_start_offset=0,
        segments=(upload(tier, key, case.live, (0, LAST), "run-1"),),
        lineage=EPOCHS,
        retired=tuple(
            RetiredSegment(
                segment=original, retired_at_ms=1, retired_by_epoch=1, retired_by_run="run-1"
            )
            for original in originals
        ),
        strategies=(case.strategy,),
    )


TWICE: Final = (key_of("twice"), key_of("twice", incarnation=1))
"""A topic that was deleted and recreated."""


@pytest.fixture(scope="module")
def tier(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases, a topic each, and one topic of two incarnations."""
    folder = made_tier(tmp_path_factory.mktemp("planted") / "tier")
    states = [state_of(folder, key_of(topic), case) for topic, case in CASES.items()]
    states += [state_of(folder, key, CASES["offset-right"]) for key in TWICE]
    run_context(str(folder)).catalog.claim(states, "run-2", at_ms=1)
    return folder


@pytest.fixture(scope="module")
def found_by_key(tier: Path) -> dict[PartitionKey, Verified]:
    """The results of one `verify` of all cases."""
    context = run_context(str(tier))
    found = verify(context, resolve([]), Scope(), extent=Extent(second_opinion=True))
    return {verified.key: verified for verified in found}


@pytest.fixture(scope="module")
def found(found_by_key: dict[PartitionKey, Verified]) -> dict[str, Verified]:
    """The results by topic."""
    return {topic: found_by_key[key_of(topic)] for topic in CASES}


def test_both_opinions_find_each_wrong_result_and_nothing_else(found: dict[str, Verified]) -> None:
    for topic, case in CASES.items():
        told = found[topic]
        second = told.second_opinion
        assert second is not None, told.notes
        assert (told.compared_by, told.keys_compared) == (case.strategy, case.keys), topic
        expected = SecondOpinion(keys=case.keys, differing=bool(case.key), late=case.late)
        assert replace(second, example="") == expected, topic
        opening = [fault.partition(": key 0x")[0] for fault in told.corruptions]
        where = "in the segments that brokers wrote"
        first = f"1 of {case.keys} keys have another latest value than {where}"
        seconds = f"second opinion: 1 of {case.keys} keys have another latest record than {where}"
        faults = [first] * case.is_seen_by_both + [seconds] if case.key else []
        assert opening == faults, (topic, told.corruptions)
        assert all(
            f": key 0x{case.key.encode().hex()} had " in fault for fault in told.corruptions
        ), topic
        assert any("1 of 6 keys are back" in note for note in told.notes) == bool(case.late), topic


def test_a_difference_says_what_was_and_what_is(found: dict[str, Verified]) -> None:
    ends = {
        topic: found[topic].corruptions[-1].rpartition(": ")[2]
        for topic in ("timestamp-stale", "header-lost", "offset-back")
    }
    assert ends == {
        "timestamp-stale": "key 0x61 had a value (offset 0), has a value (offset 2)",
        "header-lost": "key 0x63 had a value (offset 5), has none",
        "offset-back": "key 0x64 had a tombstone (offset 11), has a value (offset 8)",
    }


def test_the_reader_cannot_distinguish_two_topics_of_one_name(
    found_by_key: dict[PartitionKey, Verified],
) -> None:
    for key in TWICE:
        told = found_by_key[key]
        assert (told.corruptions, told.keys_compared, told.second_opinion) == ((), 6, None)
        assert told.notes[-1] == "no second opinion: the tier has several topics of that name"


def test_one_process_is_refused_before_it_reads(tmp_path: Path) -> None:
    ran = tierfold("verify", tmp_path / "none", "--second-opinion", "--engine", "local")
    assert ran.code == 2
    assert not told(ran.stderr, "--second-opinion", "Leave out --engine local")


def test_what_changes_meanwhile_is_left_out(spark: SparkSession, tier: Path) -> None:
    context = run_context(str(tier))
    names = ("timestamp-right", "timestamp-tombstone-gone")
    grown, committed = (
        target_of(context, partition, Rules(index_interval_bytes=INDEX_INTERVAL_BYTES))
        for partition in known_partitions(context, Scope(topics=names))
    )
    upload(tier, grown.key, [f"{LAST + 1}:g=1"], (LAST + 1, LAST + 1))
    targets = [grown, replace(committed, commit_id="the one before")]
    opinions = second_opinions(spark, context, targets)
    assert opinions == {grown.key: SecondOpinion(keys=6)}


@pytest.mark.parametrize("when", ["planned", "read"])
def test_what_a_worker_raised_is_reported(
    spark: SparkSession, tier: Path, tmp_path: Path, when: str
) -> None:
    folder = shutil.copytree(tier, tmp_path / "tier")
    context = run_context(str(folder))
    (known,) = known_partitions(context, Scope(topics=("timestamp-right",)))
    target = target_of(context, known, Rules(index_interval_bytes=INDEX_INTERVAL_BYTES))
    if when == "planned":
        lost = tmp_path / "not mounted"
        context = replace(context, location=location_of(str(lost), of="tier"))
    else:
        lost = next(folder.glob(f"{TIER_FOLDER}/timestamp-right-*/*.log"))
        lost.write_bytes(bytes(lost.stat().st_size))
    with pytest.raises(UnreadableObject) as failed:
        second_opinions(spark, context, [target])
    assert "the search for the latest records failed: " in failed.value.what
    assert str(lost) in failed.value.what
    assert "a task on a Spark worker failed, and so did each retry (" in failed.value.what
    assert "leave out --second-opinion" in failed.value.remedy


def test_a_signal_ends_the_query_and_does_not_wait_for_it(spark: SparkSession, tier: Path) -> None:
    # A query that ends before the signal comes proves nothing: then another one is begun.
    assert any("FAILED" in interrupted_query(spark, tier) for _ in range(5))


def interrupted_query(spark: SparkSession, tier: Path) -> set[str]:
    """How the jobs of a query ended that got a SIGINT while one of them was running."""
    tracker, before = spark.sparkContext.statusTracker(), set(jobs_of(spark))

    def once_it_runs() -> None:
        while not before < set(jobs_of(spark)):
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    context = run_context(str(tier))
    (known,) = known_partitions(context, Scope(topics=("offset-right",)))
    sender = threading.Thread(target=once_it_runs)
    with pytest.raises(Stopped), stoppable():
        sender.start()
        targets = [target_of(context, known, Rules(index_interval_bytes=INDEX_INTERVAL_BYTES))]
        second_opinions(spark, context, targets)
    sender.join()
    ended = [tracker.getJobInfo(job) for job in set(jobs_of(spark)) - before]
    return {job.status for job in ended if job is not None}


def jobs_of(spark: SparkSession) -> list[int]:
    """Spark's jobs so far, those that go on included."""
    return list(spark.sparkContext.statusTracker().getJobIdsForGroup())
