"""Drawn logs: `compaction.strategy` timestamp and header keep the right records (KIP-280)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.pictures.batch_words import VERSION_HEADER
from tests.pictures.cleaning import APART, RETENTION_MS, RULES, cleaned, passed
from tests.pictures.log_pictures import drawn, picture
from tierfold.compaction.model.rules import CompactionStrategy, Rules


def by(strategy: CompactionStrategy, rules: Rules = RULES) -> Rules:
    return replace(
        rules,
        compaction_strategy=strategy,
        compaction_strategy_header=VERSION_HEADER if strategy == "header" else "",
    )


TIMESTAMP: Final = by(CompactionStrategy.TIMESTAMP)
HEADER: Final = by(CompactionStrategy.HEADER)
BOTH: Final = pytest.mark.parametrize(
    ("mark", "rules"), [("@", TIMESTAMP), ("#", HEADER)], ids=["timestamp", "header"]
)
"""`mark` draws a record's timestamp, or its version."""


@BOTH
def test_the_highest_wins_wherever_it_lies(mark: str, rules: Rules, tmp_path: Path) -> None:
    text = "0:a=1@2 1:b=1@9 | 2:a=2@8 3:b=2@3 | 4:a=3@-5 5:c=1@1"
    log = picture(text.replace("@", mark), tmp_path)
    found = "0.. 1:b=1@9 2:a=2@8 5:c=1@1".replace("@", mark)
    assert drawn(cleaned(log, rules=rules)) == found


@BOTH
def test_ties_go_to_the_highest_offset(mark: str, rules: Rules, tmp_path: Path) -> None:
    text = "0:a=1@5 1:a=2@5 2:b=1@-1 | 3:a=3@5 4:b=2@-1 5:c=1@1"
    log = picture(text.replace("@", mark), tmp_path)
    assert drawn(cleaned(log, rules=rules)) == "0.. 3:a=3@5 4:b=2@-1 5:c=1@1".replace("@", mark)


def test_under_offset_neither_timestamp_nor_version_counts(tmp_path: Path) -> None:
    log = picture("0:a=1@9#9 1:a=2@1#1 2:b=1", tmp_path)
    assert drawn(cleaned(log)) == "0.. 1:a=2@1#1 2:b=1"


def test_in_a_log_append_time_batch_the_batchs_timestamp_counts(tmp_path: Path) -> None:
    # Written as if at 99 and 0, appended at 5 and 7.
    log = picture("A5(0:a=1@99) 1:b=1@6 A7([2:a=2 3:b=2]) 4:c=1", tmp_path)
    assert drawn(cleaned(log, rules=TIMESTAMP)) == "0.. A7([2:a=2 3:b=2]) 4:c=1"
    log = picture("A9(0:a=1) 1:a=2@8 2:c=1", tmp_path / "other")
    assert drawn(cleaned(log, rules=TIMESTAMP)) == "A9(0:a=1) 2:c=1"


def test_a_rewritten_batch_keeps_the_times_that_decide(tmp_path: Path) -> None:
    log = picture("[0:a=1@7 1:a=2@3 2:b=@4] 3:c=1", tmp_path)
    once = cleaned(log, rules=TIMESTAMP)
    assert drawn(once) == "[0:a=1@7 2:b=@4]^1000 3:c=1"
    assert drawn(cleaned(once, rules=TIMESTAMP)) == drawn(once)


def test_of_a_repeated_header_the_last_counts(tmp_path: Path) -> None:
    log = picture("0:a=1#9#1 1:a=2#0#2 2:b=1#1#9 3:b=2#9#2 4:c=1", tmp_path)
    assert drawn(cleaned(log, rules=HEADER)) == "0.. 1:a=2#0#2 2:b=1#1#9 4:c=1"


def test_a_malformed_last_header_is_not_made_good_by_an_earlier_one(tmp_path: Path) -> None:
    log = picture("0:a=1#1 1:a=2#9#null 2:b=1#1 3:b=2#9#short 4:c=1", tmp_path)
    done = passed(log, rules=HEADER)
    assert drawn(done.log) == "0:a=1#1 2:b=1#1 4:c=1"
    assert done.malformed_versions == 2


def test_without_a_valid_header_a_record_loses_to_one_with_any(tmp_path: Path) -> None:
    lowest = -(2**63)
    log = picture(f"0:a=1#{lowest} 1:a=2 2:a=3#null 3:a=4#short 4:c=1", tmp_path)
    assert drawn(cleaned(log, rules=HEADER)) == f"0:a=1#{lowest} 4:c=1"


def test_of_two_without_a_valid_header_the_highest_offset_wins(tmp_path: Path) -> None:
    log = picture("0:a=1 1:a=2#short | 2:b=1#null 3:b=2 4:c=1", tmp_path)
    assert drawn(cleaned(log, rules=HEADER)) == "0.. 1:a=2#short 3:b=2 4:c=1"


def test_records_that_take_no_part_are_neither_compared_nor_counted(tmp_path: Path) -> None:
    log = picture("0:=1#null P1(1:a=2#null) 2:P1:A 3:L 4:a=1#null | 5:b=1", tmp_path)
    done = passed(log, rules=HEADER)
    assert drawn(done.log).endswith("3:L 4:a=1#null 5:b=1")
    assert done.malformed_versions == 1


@BOTH
def test_aborted_records_take_no_part(mark: str, rules: Rules, tmp_path: Path) -> None:
    text = "0:a=1@1 P1(1:a=2@9) 2:P1:A 3:b=1@1"
    after = cleaned(picture(text.replace("@", mark), tmp_path), rules=rules)
    assert drawn(after) == "0:a=1@1 P1(1:()) 2:P1:A 3:b=1@1".replace("@", mark)


@BOTH
def test_a_late_older_record_loses_to_a_clean_newer_one(
    mark: str, rules: Rules, tmp_path: Path
) -> None:
    text = "0:a=1@5 1:b=1@1 | 2:a=2@4 3:b=2@3 4:c=1@1"
    log = picture(text.replace("@", mark), tmp_path)
    expected = "0:a=1@5 3:b=2@3 4:c=1@1".replace("@", mark)
    assert drawn(cleaned(log, rules=rules, first_dirty=2)) == expected


@BOTH
def test_duplicates_among_clean_records_go_too(mark: str, rules: Rules, tmp_path: Path) -> None:
    # What a round under another strategy, or one that a person began above them, left.
    log = picture("0:a=1@5 1:a=2@4 | 2:c=1@1".replace("@", mark), tmp_path)
    assert drawn(cleaned(log, rules=rules, first_dirty=2)) == "0:a=1@5 2:c=1@1".replace("@", mark)


@BOTH
def test_after_a_change_of_strategy_what_is_still_there_is_compared(
    mark: str, rules: Rules, tmp_path: Path
) -> None:
    log = picture("0:a=1@9 1:a=2@5 | 2:a=3@7 3:c=1@1 >".replace("@", mark), tmp_path)
    by_offset = replace(cleaned(log), is_last_beyond=False)
    assert drawn(by_offset) == "0.. 1:a=2@5 | 2:a=3@7 3:c=1@1".replace("@", mark)
    # Version 9 is gone and does not come back; of what is there the highest wins.
    after = cleaned(by_offset, rules=rules, first_dirty=2)
    assert drawn(after) == "0.. 2:a=3@7 3:c=1@1".replace("@", mark)


@BOTH
def test_the_record_that_ends_the_log_loses_but_its_offset_stays(
    mark: str, rules: Rules, tmp_path: Path
) -> None:
    log = picture("0:a=1@5 | 1:b=1@1 2:a=2@4".replace("@", mark), tmp_path)
    once = cleaned(log, rules=rules)
    assert drawn(once) == "0:a=1@5 1:b=1@1 2:()".replace("@", mark)
    assert cleaned(once, rules=rules).next_offset == 3


@BOTH
def test_in_a_batch_that_ends_the_log_the_last_offset_stays(
    mark: str, rules: Rules, tmp_path: Path
) -> None:
    log = picture("0:a=1@5 [1:b=1@1 2:a=2@4]".replace("@", mark), tmp_path)
    assert drawn(cleaned(log, rules=rules)) == "0:a=1@5 1-2:[1:b=1@1]".replace("@", mark)


@BOTH
def test_a_group_that_loses_all_to_an_earlier_one_ends_in_an_empty_batch(
    mark: str, rules: Rules, tmp_path: Path
) -> None:
    log = picture("0:a=1@5 | 1:a=2@4 | 2:a=3@3".replace("@", mark), tmp_path)
    after = cleaned(log, rules=replace(rules, segment_bytes=APART.segment_bytes))
    assert drawn(after).startswith("0:a=1@5".replace("@", mark))
    assert drawn(after).endswith("2:()")


@BOTH
def test_a_tombstone_wins_or_loses_like_any_record(
    mark: str, rules: Rules, tmp_path: Path
) -> None:
    log = picture("0:a=@5 1:b=1@5 | 2:a=1@4 3:b=@4 4:c=1@1".replace("@", mark), tmp_path)
    assert drawn(cleaned(log, rules=rules)) == "0:a=@5^1000 1:b=1@5 4:c=1@1".replace("@", mark)


@BOTH
def test_an_expired_tombstone_goes_one_pass_after_its_superseded_records(
    mark: str, rules: Rules, tmp_path: Path
) -> None:
    log = picture("0:a=@5^50 | 1:a=1@4 2:c=1@1".replace("@", mark), tmp_path)
    # Late and older: the tombstone, long expired, still beats it, and is needed until that is seen.
    once = cleaned(log, now_ms=50, rules=rules)
    assert drawn(once) == "0:a=@5^50 2:c=1@1".replace("@", mark)
    assert drawn(cleaned(once, now_ms=50, rules=rules)) == "0.. 2:c=1@1".replace("@", mark)


@BOTH
def test_a_superseded_record_in_the_same_segment_counts_too(
    mark: str, rules: Rules, tmp_path: Path
) -> None:
    log = picture("0:a=1@4 1:a=@5^50 2:c=1@1".replace("@", mark), tmp_path)
    once = cleaned(log, now_ms=50, rules=rules)
    assert drawn(once) == "0.. 1:a=@5^50 2:c=1@1".replace("@", mark)
    assert drawn(cleaned(once, now_ms=50, rules=rules)) == "0.. 2:c=1@1".replace("@", mark)


@BOTH
def test_an_expired_tombstone_goes_only_in_a_runs_last_chunk(
    mark: str, rules: Rules, tmp_path: Path
) -> None:
    log = picture("0:a=@5^50 1:b=1@1 | 2:a=1@4 3:c=1@1 >".replace("@", mark), tmp_path)
    first = passed(log, now_ms=50, rules=rules, is_last_chunk=False).log
    assert drawn(first) == drawn(log)
    # The chunk above it holds what the tombstone is still to beat.
    second = cleaned(replace(first, is_last_beyond=False), now_ms=50, rules=rules)
    assert drawn(second) == "0:a=@5^50 1:b=1@1 3:c=1@1".replace("@", mark)


def test_under_offset_an_expired_tombstone_goes_in_any_chunk(tmp_path: Path) -> None:
    # Nothing above it can lose to it, and what is below goes with it.
    log = picture("0:a=1 1:a=^50 2:b=1 | 3:c=1 >", tmp_path)
    first = passed(log, now_ms=50, is_last_chunk=False).log
    assert drawn(first) == "0.. 2:b=1 | 3:c=1 >"


@BOTH
def test_a_late_record_older_than_a_tombstone_already_gone_survives(
    mark: str, rules: Rules, tmp_path: Path
) -> None:
    log = picture("0:a=@5 1:b=1@1 | 2:a=1@4 3:c=1@1 >".replace("@", mark), tmp_path)
    once = cleaned(log, rules=rules)
    gone = cleaned(once, now_ms=RETENTION_MS, rules=rules)
    assert drawn(gone) == "0.. 1:b=1@1 | 2:a=1@4 3:c=1@1 >".replace("@", mark)
    after = cleaned(replace(gone, is_last_beyond=False), now_ms=RETENTION_MS, rules=rules)
    assert drawn(after) == "0.. 1:b=1@1 2:a=1@4 3:c=1@1".replace("@", mark)


@BOTH
def test_records_beyond_the_round_neither_win_nor_lose(
    mark: str, rules: Rules, tmp_path: Path
) -> None:
    log = picture("0:a=1@5 1:b=1@1 | 2:a=2@9 3:b=2@0 >".replace("@", mark), tmp_path)
    assert drawn(cleaned(log, rules=rules)) == drawn(log)
