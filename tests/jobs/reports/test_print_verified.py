"""The printed `verify` report lists violations first and ends with a one-line summary."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.reports.tables import ROWS_MAX
from tierfold.jobs.reports.verify_report import print_verified
from tierfold.jobs.verbs.second_opinion import SecondOpinion
from tierfold.jobs.verbs.verify import Verified

SOUND = Verified(
    key=PartitionKey(topic="orders", partition=0, topic_id="T" * 22),
    segments=3,
    batches=4437,
    records=12155,
    bytes_read=3_126_604,
    keys_compared=1000,
    index_entries=427,
    notes=("a remark",),
)
BROKEN = replace(
    SOUND,
    key=replace(SOUND.key, topic="zebra"),
    corruptions=("a sentence " + "that is long " * 20, "[red] another"),
)


def printed(*found: Verified) -> str:
    out = StringIO()
    print_verified(Console(file=out, width=160, highlight=False), found)
    return out.getvalue()


def test_what_is_sound_ends_in_one_line() -> None:
    text = printed(SOUND, replace(SOUND, keys_compared=None))
    assert "a remark" in text
    assert text.splitlines()[-1] == (
        "verified: 6 segments, 8 874 batches, 24 310 records, 1 000 keys agree with the originals"
    )


def test_a_second_opinion_is_listed_separately() -> None:
    second = replace(SOUND, second_opinion=SecondOpinion(keys=999))
    assert printed(second, SOUND).splitlines()[-1].endswith(
        ", 2 000 keys agree with the originals, 999 by a second opinion"
    )


def test_markers_and_deleted_keys_are_listed_separately() -> None:
    mixed = replace(SOUND, markers=90, keys_deleted=1)
    assert printed(mixed, replace(SOUND, keys_deleted=88)).splitlines()[-1] == (
        "verified: 6 segments, 8 874 batches, 24 310 records (90 transaction markers among them),"
        " 2 000 keys agree with the originals (89 deleted ones among them)"
    )


def test_keys_that_were_not_compared_do_not_agree() -> None:
    last = printed(replace(SOUND, keys_compared=None)).splitlines()[-1]
    assert last == "verified: 3 segments, 4 437 batches, 12 155 records"


def test_faults_come_first_and_whole() -> None:
    text = printed(SOUND, BROKEN)
    assert text.index("zebra-0") < text.index("orders-0")
    assert all(f"zebra-0: {fault}\n" in text for fault in BROKEN.corruptions)
    assert text.splitlines()[-1] == "FAULTS: 2, in 1 of 2 partitions"


def test_a_summary_fits_a_screen() -> None:
    many = [replace(SOUND, key=replace(SOUND.key, partition=i)) for i in range(ROWS_MAX + 5)]
    assert "… and 5 more; --json lists all." in printed(*many)


def test_nothing_to_verify_is_said() -> None:
    assert printed().startswith("No partitions")
