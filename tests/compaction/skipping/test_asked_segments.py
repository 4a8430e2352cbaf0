"""Whether the keys of a clean segment are read, by its Bloom filter and its key index."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.compaction.unread import some_facts
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.skipping.bloom_filter import BloomFilter, bloom_filter
from tierfold.compaction.skipping.key_index import KeyIndex, entries_of, key_index
from tierfold.compaction.skipping.probe_counts import NO_PROBES, ProbeCounts
from tierfold.compaction.skipping.skip_decision import (
    IndexAnswer,
    SkipReason,
    answer_for,
    competing_keys,
    counts_of_answer,
)

KEYS = [(i * 0x9E3779B97F4A7C15) % 2**64 & ~0xFF for i in range(1, 30)]
"""The first ten are those of the segment, with a record of 128 bytes each."""
OWN, FOREIGN = KEYS[:10], KEYS[10:]
CLAIMS_ALL = BloomFilter(words=np.full(1, 2**64 - 1, np.uint64), bits_per_key=1)
FACTS = some_facts(records=10, record_bytes=1280, size_bytes=640)
"""So half of the bytes are stored: 64 for a record."""


@dataclass
class AnIndex:
    """The index of the segment, or why there is none; counts how often it is read."""

    answer: KeyIndex | SkipReason = field(
        default_factory=lambda: key_index(
            entries_of(np.array(OWN, np.uint64), np.full(len(OWN), 128, np.int64)), 4
        )
    )
    reads: int = 0

    def __call__(self) -> KeyIndex | SkipReason:
        self.reads += 1
        return self.answer


def asked(
    keys: list[int],
    *,
    tombstones: tuple[int, ...] = (),
    index: AnIndex | None = None,
    bloom: BloomFilter = CLAIMS_ALL,
    spared_before: int = 0,
    **rules: Any,
) -> IndexAnswer:
    """The answer for competing records with these keys; `tombstones`: keys that some delete."""
    found = [*keys, *tombstones]
    is_tombstone = np.arange(len(found)) >= len(keys)
    competing = competing_keys(np.array(found, np.uint64), is_tombstone)
    return answer_for(FACTS, competing, Rules(**rules), bloom, index or AnIndex(), spared_before)


def test_a_segment_without_competing_keys_is_skipped_by_its_filter() -> None:
    index = AnIndex()
    bloom = bloom_filter(np.array(OWN, np.uint64), 1e-9)
    denied = IndexAnswer(reason=SkipReason.BLOOM_FILTER, found=0)
    for keys in ([], FOREIGN):
        assert asked(keys, bloom=bloom, index=index) == denied
    assert index.reads == 0


def test_the_filter_is_asked_for_a_tombstone_as_for_any_record() -> None:
    bloom = bloom_filter(np.array(OWN, np.uint64), 1e-9)
    assert asked([], tombstones=(OWN[3],), bloom=bloom).reason is SkipReason.SUPERSEDED


def test_a_segment_whose_filter_was_wrong_is_skipped_by_its_index() -> None:
    index = AnIndex()
    expected = IndexAnswer(reason=SkipReason.KEY_INDEX, claimed=len(FOREIGN), found=0)
    assert asked(FOREIGN, index=index) == expected
    assert index.reads == 1


def test_only_keys_that_the_filter_claims_are_looked_up() -> None:
    bloom = bloom_filter(np.array(OWN[:1], np.uint64), 1e-9)
    expected = IndexAnswer(reason=SkipReason.SUPERSEDED, claimed=1, found=1)
    assert asked(OWN + FOREIGN, bloom=bloom) == expected


@pytest.mark.parametrize("why", [SkipReason.NO_INDEX, SkipReason.UNSOUND_INDEX])
def test_a_segment_without_a_sound_index_is_read(why: SkipReason) -> None:
    generous = {"min_rewrite_gain": Fraction(1), "min_rewrite_bytes": 10**9}
    expected = IndexAnswer(reason=why, claimed=len(FOREIGN))
    assert asked(FOREIGN, index=AnIndex(why), **generous) == expected


SMALL, READ = SkipReason.SMALL_GAIN, SkipReason.SUPERSEDED


@pytest.mark.parametrize(
    ("found", "rules", "reason"),
    [
        (1, {}, READ),
        (10, {}, READ),
        # Two of ten records are a fifth.
        (2, {"min_rewrite_gain": Fraction(1, 5)}, READ),
        (2, {"min_rewrite_gain": Fraction(201, 1000)}, SMALL),
        (3, {"min_rewrite_gain": Fraction(201, 1000)}, READ),
        (10, {"min_rewrite_gain": Fraction(1)}, READ),
        # Two records are 128 of the stored bytes.
        (2, {"min_rewrite_bytes": 128}, READ),
        (2, {"min_rewrite_bytes": 129}, SMALL),
        (3, {"min_rewrite_bytes": 129}, READ),
        # Both are demanded.
        (2, {"min_rewrite_gain": Fraction(1, 5), "min_rewrite_bytes": 129}, SMALL),
        (2, {"min_rewrite_gain": Fraction(1, 4), "min_rewrite_bytes": 128}, SMALL),
        (2, {"min_rewrite_gain": Fraction(1, 5), "min_rewrite_bytes": 128}, READ),
    ],
)
def test_a_rewrite_must_save_the_share_and_the_bytes_that_the_settings_demand(
    found: int, rules: dict[str, Any], reason: SkipReason
) -> None:
    keys = OWN[:found] + FOREIGN[:4]
    answer = asked(keys, **rules)
    assert (answer.reason, answer.claimed, answer.found) == (reason, found + 4, found)
    # Two records are 128 bytes, or 4.5 % more: their sizes are stored rounded.
    assert answer.spared_bytes == (134 if reason is SMALL else 0)


@pytest.mark.parametrize(("spared_before", "reason"), [(0, SMALL), (64, SMALL), (65, READ)])
def test_what_earlier_rounds_left_adds_up(spared_before: int, reason: SkipReason) -> None:
    # Of 640 bytes; 128 are superseded now.
    rules = {"min_rewrite_gain": Fraction(193, 640)}
    answer = asked(OWN[:2], spared_before=spared_before, **rules)
    assert answer.reason is reason


@pytest.mark.parametrize("rules", [{"min_rewrite_gain": Fraction(1)}, {"min_rewrite_bytes": 10**9}])
def test_a_tombstone_that_supersedes_a_record_has_it_read_for_any_gain(
    rules: dict[str, Any],
) -> None:
    assert asked(OWN[:2], **rules).reason is SMALL
    assert asked(OWN[:2], tombstones=(FOREIGN[0],), **rules).reason is SMALL
    assert asked(OWN[:2], tombstones=(OWN[0],), **rules).reason is READ
    assert asked(OWN[:2], tombstones=(OWN[5],), **rules).reason is READ
    assert asked([], tombstones=(OWN[5],), **rules).reason is READ


def test_a_segment_without_data_has_no_small_gain() -> None:
    nothing = some_facts(records=0, record_bytes=0, size_bytes=61)
    competing = competing_keys(np.array(FOREIGN, np.uint64), np.zeros(len(FOREIGN), np.bool_))
    index = AnIndex(key_index(np.empty(0, np.uint64), 4))
    rules = Rules(min_rewrite_gain=Fraction(1))
    answer = answer_for(nothing, competing, rules, CLAIMS_ALL, index)
    assert answer == IndexAnswer(reason=SkipReason.KEY_INDEX, claimed=len(FOREIGN), found=0)


def test_three_reasons_are_skips() -> None:
    skips = {reason for reason in SkipReason if IndexAnswer(reason=reason).is_skip}
    assert skips == {SkipReason.BLOOM_FILTER, SkipReason.KEY_INDEX, SMALL}


@pytest.mark.parametrize(
    ("reason", "name", "is_skipped"),
    [
        (SkipReason.BLOOM_FILTER, "by_bloom_filter", True),
        (SkipReason.KEY_INDEX, "by_key_index", True),
        (SkipReason.SMALL_GAIN, "by_small_gain", True),
        (SkipReason.SUPERSEDED, "superseded", False),
        (SkipReason.NO_INDEX, "no_index", False),
        (SkipReason.UNSOUND_INDEX, "unsound_index", False),
    ],
)
def test_each_reason_has_a_count(reason: SkipReason, name: str, is_skipped: bool) -> None:
    one = counts_of_answer(IndexAnswer(reason=reason), competing=9, fpp=0.1, index_bytes_read=70)
    assert one == replace(NO_PROBES, **{name: 1, "index_bytes_read": 70})
    assert (one.asked, one.skipped) == (1, int(is_skipped))


def test_all_keys_that_the_filter_denies_are_counted() -> None:
    denied = IndexAnswer(reason=SkipReason.BLOOM_FILTER, found=0)
    one = counts_of_answer(denied, competing=8, fpp=0.25, index_bytes_read=5)
    assert (one.keys_lacked, one.keys_claimed, one.keys_claimed_promised) == (8, 0, 2)


@pytest.mark.parametrize("reason", [SkipReason.KEY_INDEX, SMALL, READ])
def test_keys_that_the_filter_claimed_wrongly_are_counted(reason: SkipReason) -> None:
    answer = IndexAnswer(reason=reason, claimed=30, found=10)
    one = counts_of_answer(answer, competing=110, fpp=0.25, index_bytes_read=5)
    assert (one.keys_lacked, one.keys_claimed, one.keys_claimed_promised) == (100, 20, 25)


def test_counts_are_added_field_by_field() -> None:
    names = [f.name for f in fields(ProbeCounts)]
    first = ProbeCounts(**{name: 2**i for i, name in enumerate(names)})
    second = ProbeCounts(**{name: 3**i for i, name in enumerate(names)})
    expected = ProbeCounts(**{name: 2**i + 3**i for i, name in enumerate(names)})
    assert first + second == expected
    assert first + NO_PROBES == first
    assert (first.skipped, first.asked) == (1 + 2 + 4, 63)
