"""Drawn logs: `compaction.strategy` timestamp and header keep the right records (KIP-280)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.pictures.batch_words import VERSION_HEADER
from tests.pictures.cleaning import APART, RULES, cleaned, passed
from tests.pictures.log_pictures import drawn, picture
from tests.pictures.scenarios import check, scenarios
from tierfold.compaction.model.rules import CompactionStrategy

TIMESTAMP: Final = replace(RULES, compaction_strategy=CompactionStrategy.TIMESTAMP)
HEADER: Final = replace(
    RULES,
    compaction_strategy=CompactionStrategy.HEADER,
    compaction_strategy_header=VERSION_HEADER,
)
RULES_OF: Final = {"@": TIMESTAMP, "#": HEADER}
BOTH: Final = pytest.mark.parametrize("mark", RULES_OF, ids=["timestamp", "header"])
"""The mark draws a record's timestamp, or its version."""


@BOTH
@scenarios("""
The highest wins wherever it lies.
0:a=1@2 1:b=1@9 | 2:a=2@8 3:b=2@3 | 4:a=3@-5 5:c=1@1
-> 0.. 1:b=1@9 2:a=2@8 5:c=1@1

Ties go to the highest offset.
0:a=1@5 1:a=2@5 2:b=1@-1 | 3:a=3@5 4:b=2@-1 5:c=1@1
-> 0.. 3:a=3@5 4:b=2@-1 5:c=1@1

Aborted records take no part.
0:a=1@1 P1(1:a=2@9) 2:P1:A 3:b=1@1
-> 0:a=1@1 P1(1:()) 2:P1:A 3:b=1@1

A late older record loses to a clean newer one.
0:a=1@5 1:b=1@1 | 2:a=2@4 3:b=2@3 4:c=1@1
first_dirty=2 -> 0:a=1@5 3:b=2@3 4:c=1@1

Duplicates among clean records go too.
# A round under another strategy left them, or one that a person started above them.
0:a=1@5 1:a=2@4 | 2:c=1@1
first_dirty=2 -> 0:a=1@5 2:c=1@1

The record that ends the log loses, but its offset stays.
0:a=1@5 | 1:b=1@1 2:a=2@4
-> 0:a=1@5 1:b=1@1 2:()
-> same

In a batch that ends the log the last offset stays.
0:a=1@5 [1:b=1@1 2:a=2@4]
-> 0:a=1@5 1-2:[1:b=1@1]

A tombstone wins or loses like any record.
0:a=@5 1:b=1@5 | 2:a=1@4 3:b=@4 4:c=1@1
-> 0:a=@5^1000 1:b=1@5 4:c=1@1

An expired tombstone goes one pass after its superseded records.
# It still beats the late, older record; only the next round can tell that nothing is left to beat.
0:a=@5^50 | 1:a=1@4 2:c=1@1
now_ms=50 -> 0:a=@5^50 2:c=1@1
now_ms=50 -> 0.. 2:c=1@1

A superseded record in the same segment counts too.
0:a=1@4 1:a=@5^50 2:c=1@1
now_ms=50 -> 0.. 1:a=@5^50 2:c=1@1
now_ms=50 -> 0.. 2:c=1@1

An expired tombstone goes only in a run's last chunk.
# The chunk above it has a record that the tombstone must still beat.
0:a=@5^50 1:b=1@1 | 2:a=1@4 3:c=1@1 >
chunk now_ms=50 -> same
whole now_ms=50 -> 0:a=@5^50 1:b=1@1 3:c=1@1

A late record older than a tombstone that is already gone survives.
0:a=@5 1:b=1@1 | 2:a=1@4 3:c=1@1 >
-> 0:a=@5^1000 1:b=1@1 | 2:a=1@4 3:c=1@1 >
now_ms=1000 -> 0.. 1:b=1@1 | 2:a=1@4 3:c=1@1 >
whole now_ms=1000 -> 0.. 1:b=1@1 2:a=1@4 3:c=1@1

Records beyond the round neither win nor lose.
0:a=1@5 1:b=1@1 | 2:a=2@9 3:b=2@0 >
-> same
""")
def test_timestamps_and_versions(mark: str, scenario: list[str], tmp_path: Path) -> None:
    check([line.replace("@", mark) for line in scenario], tmp_path, RULES_OF[mark])


@scenarios("""
In a log-append-time batch the batch's timestamp counts.
# The producer wrote 99 and 0; the broker appended the batches at 5 and 7.
A5(0:a=1@99) 1:b=1@6 A7([2:a=2 3:b=2]) 4:c=1
-> 0.. A7([2:a=2 3:b=2]) 4:c=1

A log-append-time batch beats a later record.
A9(0:a=1) 1:a=2@8 2:c=1
-> A9(0:a=1) 2:c=1

A rewritten batch keeps the times that decide.
[0:a=1@7 1:a=2@3 2:b=@4] 3:c=1
-> [0:a=1@7 2:b=@4]^1000 3:c=1
-> same
""")
def test_timestamps_alone(scenario: list[str], tmp_path: Path) -> None:
    check(scenario, tmp_path, TIMESTAMP)


@scenarios(f"""
Of a repeated header the last counts.
0:a=1#9#1 1:a=2#0#2 2:b=1#1#9 3:b=2#9#2 4:c=1
-> 0.. 1:a=2#0#2 2:b=1#1#9 4:c=1

Without a valid header a record loses to one with any.
0:a=1#{-(2**63)} 1:a=2 2:a=3#null 3:a=4#short 4:c=1
-> 0:a=1#{-(2**63)} 4:c=1

Of two without a valid header the highest offset wins.
0:a=1 1:a=2#short | 2:b=1#null 3:b=2 4:c=1
-> 0.. 1:a=2#short 3:b=2 4:c=1
""")
def test_versions_alone(scenario: list[str], tmp_path: Path) -> None:
    check(scenario, tmp_path, HEADER)


@scenarios("""
Neither timestamp nor version counts.
0:a=1@9#9 1:a=2@1#1 2:b=1
-> 0.. 1:a=2@1#1 2:b=1

An expired tombstone goes in any chunk.
# No record above it can lose to it, and the records below it go with it.
0:a=1 1:a=^50 2:b=1 | 3:c=1 >
chunk now_ms=50 -> 0.. 2:b=1 | 3:c=1 >
""")
def test_under_offset(scenario: list[str], tmp_path: Path) -> None:
    check(scenario, tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "malformed"),
    [
        # An earlier header does not replace a malformed last one.
        ("0:a=1#1 1:a=2#9#null 2:b=1#1 3:b=2#9#short 4:c=1", "0:a=1#1 2:b=1#1 4:c=1", 2),
        # Records that take no part are neither compared nor counted.
        (
            "0:=1#null P1(1:a=2#null) 2:P1:A 3:L 4:a=1#null | 5:b=1",
            "0.. P1(1:()) 2:P1:A 3:L 4:a=1#null 5:b=1",
            1,
        ),
    ],
)
def test_malformed_versions_are_counted(
    before: str, after: str, malformed: int, tmp_path: Path
) -> None:
    done = passed(picture(before, tmp_path), rules=HEADER)
    assert (drawn(done.log), done.malformed_versions) == (after, malformed)


@BOTH
def test_after_a_change_of_strategy_what_is_still_there_is_compared(
    mark: str, tmp_path: Path
) -> None:
    log = picture("0:a=1@9 1:a=2@5 | 2:a=3@7 3:c=1@1 >".replace("@", mark), tmp_path)
    by_offset = replace(cleaned(log), is_last_beyond=False)
    assert drawn(by_offset) == "0.. 1:a=2@5 | 2:a=3@7 3:c=1@1".replace("@", mark)
    # Version 9 is gone and does not come back; the highest of the others wins.
    after = cleaned(by_offset, rules=RULES_OF[mark], first_dirty=2)
    assert drawn(after) == "0.. 2:a=3@7 3:c=1@1".replace("@", mark)


@BOTH
def test_a_group_that_loses_all_to_an_earlier_one_ends_in_an_empty_batch(
    mark: str, tmp_path: Path
) -> None:
    log = picture("0:a=1@5 | 1:a=2@4 | 2:a=3@3".replace("@", mark), tmp_path)
    after = drawn(cleaned(log, rules=replace(RULES_OF[mark], segment_bytes=APART.segment_bytes)))
    assert after.startswith("0:a=1@5".replace("@", mark))
    assert after.endswith("2:()")
