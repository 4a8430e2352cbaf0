"""What `min.rewrite.gain` leaves adds up, and so never grows beyond what the setting allows."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.claims import ORDERS, catalog_of, row_of
from tests.jobs.commands import CLOCK, status_of, tierfold
from tests.jobs.tiers import made_tier, put_segment, records_in
from tests.oracle.fuzz_run import seeds_of
from tests.spread import most_in_soak
from tests.storage.live_segments import data
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.spared_bytes import is_worth_rewriting, spared_sum
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.key_indexes.index_folder import FOLDER
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

KEYS: Final = 40
VALUE_BYTES: Final = 200
NOW_MS: Final = 1_800_000_000_000
DAY_MS: Final = 86_400_000
COMPACT: Final = (
    *("--set", "cleanup.policy=compact", "--set", "min.cleanable.dirty.ratio=0"),
    *("--engine", "local", "--json"),
)


class Log:
    """A topic that grows, and what its keys' newest values are."""

    def __init__(self, folder: Path) -> None:
        self.tier = made_tier(folder)
        self.end = 0
        self.newest: dict[bytes, bytes | None] = {}

    def grow(self, keys: list[int], *, deleted: bool = False) -> None:
        """Upload a segment with a new value of each of the keys, or a tombstone."""
        records: list[tuple[bytes | None, bytes | None]] = []
        for number, key in enumerate(keys, start=self.end):
            value = None if deleted else str(number).encode().ljust(VALUE_BYTES, b".")
            self.newest[b"key%d" % key] = value
            records.append((b"key%d" % key, value))
        put_segment(self.tier, ORDERS, [data(self.end, *records)], start_offset=self.end)
        self.end += len(keys)

    def begin(self) -> None:
        """One clean segment with all keys, which has a key index: it was rewritten."""
        self.grow([0, *range(KEYS)])
        self.compact()

    @property
    def live_bytes(self) -> int:
        """Of all live segments."""
        return sum(part["size_bytes"] for part in status_of(self.tier)["orders", 0]["segments"])

    def compact(self, *settings: str, now_ms: int = NOW_MS) -> dict[str, Any]:
        words = [word for setting in settings for word in ("--set", setting)]
        ran = tierfold("compact", self.tier, *COMPACT, *words, CLOCK, str(now_ms))
        assert ran.code == 0, ran
        return ran.entry

    @property
    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """The live ones."""
        return records_in([part["log"] for part in status_of(self.tier)["orders", 0]["segments"]])

    def is_right(self) -> bool:
        """Whether a reader finds each key's newest value."""
        found = {key: value for _, key, value in self.records if key is not None}
        return {k: v for k, v in found.items() if v is not None} == {
            k: v for k, v in self.newest.items() if v is not None
        }

    @property
    def dead_bytes_by_segment(self) -> Iterator[tuple[str, int, int]]:
        """Of each live segment: its id, its size, and the values' bytes of superseded records."""
        last = {key: offset for offset, key, _ in self.records}
        for part in status_of(self.tier)["orders", 0]["segments"]:
            here = records_in([part["log"]])
            dead = sum(len(value or b"") for offset, key, value in here if last[key] != offset)
            yield part["id"], part["size_bytes"], dead


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "tier")


@pytest.mark.parametrize("rounds", [8, pytest.param(30, marks=pytest.mark.soak)])
def test_many_small_rounds_leave_no_more_than_the_setting_allows(log: Log, rounds: int) -> None:
    log.begin()
    whole, sizes = log.live_bytes, []
    for number in range(rounds):
        log.grow([(number * 7) % KEYS, (number * 11) % KEYS])
        log.compact("min.rewrite.gain=0.15")
        sizes.append(log.live_bytes)
    assert log.is_right()
    # Without the sum it grew by 2 records in each round.
    assert max(sizes) < 1.5 * whole, sizes
    # And it is used: not every round rewrites everything.
    assert sizes != sorted(sizes)


def test_status_and_plan_show_what_was_left(log: Log) -> None:
    log.begin()
    log.grow([1, 2])
    entry = log.compact("min.rewrite.gain=0.15")
    assert entry["key_indexes"]["by_small_gain"] == 1
    left = entry["spared_bytes"]
    assert 2 * VALUE_BYTES < left < 4 * VALUE_BYTES
    assert status_of(log.tier)["orders", 0]["spared_bytes"] == left
    shown = tierfold("status", log.tier)
    assert "superseded, left by" in shown.stdout
    assert "min.rewrite.gain" in shown.stdout
    plan = tierfold("plan", log.tier, *COMPACT[:4], "--json").entry
    assert plan["spared_bytes"] == left


def test_once_half_is_used_up_a_round_compares_from_where_it_began(log: Log) -> None:
    log.begin()
    log.grow([1, 2])
    log.compact("min.rewrite.gain=0.15")
    log.grow([3, 4])
    # Too little is left for the first of them to be looked at again: 0.15 allows six records.
    kept = log.compact("min.rewrite.gain=0.15")
    assert kept["first_dirty"] == KEYS + 3
    log.grow([5])
    again = log.compact("min.rewrite.gain=0.15")
    assert again["first_dirty"] == KEYS + 1
    assert "records are compared again from offset 41 on" in "; ".join(again["notes"])
    assert again["spared_bytes"] == 0
    assert row_of(log.tier).spared == ()
    assert {key for _, _, key in log.dead_bytes_by_segment} == {0}
    assert log.is_right()


def test_a_lower_setting_removes_what_a_higher_one_left(log: Log) -> None:
    log.begin()
    log.grow([1, 2])
    log.compact("min.rewrite.gain=0.15")
    log.grow([3])
    assert log.compact()["spared_bytes"] == 0
    assert log.is_right()
    assert len(log.records) == KEYS


def test_lost_key_indexes_forget_nothing(log: Log) -> None:
    log.begin()
    log.grow([1, 2])
    left = log.compact("min.rewrite.gain=0.3")["spared_bytes"]
    shutil.rmtree(log.tier / CATALOG_FOLDER / FOLDER)
    log.grow([3])
    # Its keys are read, and compared with the new records alone.
    entry = log.compact("min.rewrite.gain=0.3")
    assert entry["key_indexes"]["no_index"] > 0
    assert entry["spared_bytes"] == left
    dead = {part: dead for part, _, dead in log.dead_bytes_by_segment}
    bounds = {entry.segment_id: entry.superseded_bytes for entry in row_of(log.tier).spared}
    assert all(dead[part] <= bounds.get(part, 0) for part in dead)
    assert sum(dead.values()) == 2 * VALUE_BYTES


def test_a_restore_brings_back_what_its_row_had(log: Log) -> None:
    log.begin()
    log.grow([1, 2])
    log.compact("min.rewrite.gain=0.15", now_ms=NOW_MS + 1000)
    before = row_of(log.tier)
    log.grow([3])
    log.compact(now_ms=NOW_MS + 2000)
    assert row_of(log.tier).spared == ()
    to = str(before.committed_at_ms)
    back = tierfold("restore", log.tier, "orders-0", "--to", to, CLOCK, str(NOW_MS + 3000))
    assert back.code == 0, back
    assert row_of(log.tier).spared == before.spared != ()


def a_rule(gain: str, bytes_min: int) -> Rules:
    sets = [f"min.rewrite.gain={gain}", f"min.rewrite.bytes={bytes_min}"]
    return resolve(sets).rules_for("orders")


@pytest.mark.parametrize("seed", seeds_of("TIERFOLD_SPARED_SEEDS", "0:1"))
@pytest.mark.parametrize(
    ("gain", "bytes_min"),
    most_in_soak([("0.15", 0), ("0.4", 0), ("0", 1500)], 1, is_unpacked=True),
)
def test_the_bound_is_one_and_stays_within_the_limits(
    log: Log, seed: int, gain: str, bytes_min: int
) -> None:
    random_ = random.Random(seed)
    now_ms, rules = NOW_MS, a_rule(gain, bytes_min)
    log.grow([0, *range(KEYS)])
    for number in range(10):
        for _ in range(random_.randint(1, 2)):
            keys = random_.sample(range(KEYS), random_.randint(1, 6))
            log.grow(keys, deleted=random_.random() < 0.1)
        if random_.random() < 0.1:
            shutil.rmtree(log.tier / CATALOG_FOLDER / FOLDER, ignore_errors=True)
        segment_bytes = random_.choice([2000, 6000, 10**6])
        log.compact(
            f"min.rewrite.gain={gain}",
            f"min.rewrite.bytes={bytes_min}",
            f"segment.bytes={segment_bytes}",
            now_ms=now_ms,
        )
        now_ms += random_.choice([1, 3 * DAY_MS])
        assert log.is_right(), number
        bounds = {entry.segment_id: entry.superseded_bytes for entry in row_of(log.tier).spared}
        for segment_id, size_bytes, dead in log.dead_bytes_by_segment:
            bound = bounds.get(segment_id, 0)
            assert dead <= bound, (number, segment_id)
            # A merge adds up what its sources had left.
            assert not bound or not is_worth_rewriting(bound // 2, size_bytes, rules), number


def test_a_row_without_them_reads_as_none(log: Log) -> None:
    log.begin()
    row = catalog_of(log.tier).read()[ORDERS]
    assert (row.spared, spared_sum(row.spared)) == ((), 0)
    assert replace(row, spared=()) == row
