"""Screens of reports that no small tier gives, for `tests.jobs.verbs.test_golden_documents`."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, Final

from tests.compaction.brokers.test_preconditions import GOOD, cluster, configs, topic
from tests.compaction.builders import KEY
from tests.compaction.claimed import RULES
from tests.compaction.ill_partitions import HEALTHY, ILL
from tests.compaction.planning.test_early_deletion import IA_NEW, planned
from tests.jobs.result_schema import faults
from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.brokers.metadata_size import MetadataSize
from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.commits.receipts import VerifiedParts
from tierfold.compaction.diagnosis.diagnosis import diagnosis
from tierfold.compaction.diagnosis.examined import Examined
from tierfold.compaction.model.rules import DAY_MS
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.skipping.probe_counts import ProbeCounts
from tierfold.compaction.verification.comparison import SecondOpinion
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    NOTHING_TO_DO,
    PLANNED,
    REFUSED,
    PartitionReport,
    planned_report,
)
from tierfold.jobs.reports.doctor_report import DoctorResult
from tierfold.jobs.reports.estimate_report import prices_of
from tierfold.jobs.reports.plan_report import PlanResult
from tierfold.jobs.reports.result import Result
from tierfold.jobs.reports.screen import Screen
from tierfold.jobs.reports.tables import ROWS_MAX
from tierfold.jobs.reports.verify_report import VerifyResult
from tierfold.jobs.verbs.doctor import examination_of
from tierfold.jobs.verbs.verified import Verified

FLEET: Final = [
    PartitionReport(
        key=replace(KEY, partition=number),
        outcome=NOTHING_TO_DO if number % 2 else PLANNED,
        reason="everything is clean" if number % 2 else "",
    )
    for number in range(20_000)
]
FLEET[17_000] = replace(FLEET[17_000], outcome=REFUSED, reason="gap")

DONE: Final = PartitionReport(
    key=KEY,
    outcome=COMPACTED,
    counts=Counts(records_in=12_155, kept=1089, kept_markers=90, superseded=11_066),
    parts_verified=VerifiedParts(by_checksum=500, by_reading_back=2500),
)
NOT_WAITING: Final = replace(RULES, rewrite_young_objects=True)
PLAN: Final = PartitionReport(key=KEY, outcome=PLANNED, first_dirty=5, next_offset=12_155)
LONG: Final = replace(KEY, topic="a-topic-whose-name-is-long")
COMMAND: Final = f"Look: `tierfold forget '/mnt/a tier' {LONG} --dry-run` says more."
NARROW: Final = [
    PartitionReport(key=LONG, outcome=REFUSED, reason=COMMAND),
    PartitionReport(
        key=LONG,
        outcome=PLANNED,
        first_dirty=1_000_000_000,
        next_offset=2_000_000_000,
        segments_in=1000,
        segments_out=10,
    ),
]
FAR: Final = f"/mnt/{'deep/' * 40}00000000000000000000-H9N_Fa3aRd2QvfUuYOXPBQ.log"
ESCAPES: Final = {"reason": "\x1b[2J[hidden] [/b]", "notes": ("a \x9b header",)}

SOUND: Final = Verified(
    key=PartitionKey(topic="orders", partition=0, topic_id="T" * 22),
    segments=3,
    batches=4437,
    records=12155,
    bytes_read=3_126_604,
    keys_compared=1000,
    index_entries=427,
    notes=("a remark",),
)
INDEXED: Final = replace(
    DONE,
    segments_skipped=96,
    bytes_written=2**30,
    index_bytes_written=2**23,
    key_indexes=ProbeCounts(
        by_bloom_filter=60,
        by_key_index=30,
        by_small_gain=6,
        superseded=2,
        no_index=1,
        unsound_index=1,
        keys_lacked=9_800,
        keys_claimed=97,
        keys_claimed_promised=98.0,
        index_bytes_read=3_000_000,
    ),
)
UNCOMPARED: Final = replace(SOUND, keys_compared=None)
CORRUPT: Final = replace(
    SOUND,
    key=replace(SOUND.key, topic="zebra"),
    corruptions=("a sentence " + "that is long " * 20, "[red] another"),
)


def _plan(*reports: PartitionReport) -> Result[Any]:
    return PlanResult(tier="/tier", partitions=reports)


def _verify(*found: Verified) -> Result[Any]:
    return VerifyResult(tier="/tier", partitions=found)


def _doctor(*examined: Examined, records: int = 9_000, **settings: str) -> Result[Any]:
    """Partitions of as many topics, on a cluster of Kafka 3.8."""
    names = {one.key.topic for one in examined}
    look = ClusterView(
        cluster_id="c",
        setup=cluster(brokers={1: {"compression.zstd.level": "3"}}),
        records=0,
        partitions={},
        topics={name: replace(topic(configs(GOOD | settings)), name=name) for name in names},
        metadata_size=MetadataSize(
            records=records, value_bytes=160 * records, first_ms=DAY_MS, last_ms=101 * DAY_MS
        ),
    )
    found = examination_of(examined, diagnosis(examined, look, grace_ms=DAY_MS))
    return DoctorResult(
        tier="/tier",
        partitions=found.partitions,
        examination=found,
        prices=prices_of(""),
        cluster=look,
    )


def _of_fleet(code: str, number: int) -> Examined:
    return replace(ILL[code], key=replace(KEY, topic="fleet", partition=number))


SICK: Final = [
    replace(one, key=replace(KEY, topic=code.replace("_", "-"), partition=0))
    for code, one in ILL.items()
]

SCREENS: Final = {
    # What needs a person comes first, and what to do with it.
    "print-doctor-sick": (
        120,
        _doctor(*SICK, records=1_234_567, **{"retention.bytes": "1000000000"}),
    ),
    # Each code once, however many partitions have it.
    "print-doctor-fleet": (
        120,
        _doctor(*(_of_fleet("orphans" if i % 2 else "small_segments", i) for i in range(500))),
    ),
    "print-doctor-healthy": (
        120,
        _doctor(*(replace(HEALTHY, key=replace(KEY, partition=i)) for i in range(500))),
    ),
    # A fleet fits a screen, and the worst comes first.
    "print-plan-fleet": (120, _plan(*FLEET)),
    # Where a storage class has fees, a round waits, or costs what the last lines say.
    "print-plan-storage-classes": (
        120,
        _plan(*(planned_report(one) for one in (planned(IA_NEW), planned(IA_NEW, NOT_WAITING)))),
    ),
    # A failure shows no result, and its whole path.
    "print-plan-failed": (
        120,
        _plan(replace(PLAN, outcome=FAILED, reason=FAR, segments_in=3, segments_out=3, bytes_in=9)),
    ),
    # Only a plan cannot know how many records have no key.
    "print-compact-markers": (120, _plan(DONE, DONE)),
    # What lost nothing was read once only.
    "print-compact-read-once": (120, _plan(replace(DONE, segments_read_once=1), DONE)),
    # What key indexes left unread, and how good filters and indexes were.
    "print-compact-key-indexes": (120, _plan(INDEXED, DONE)),
    "print-plan-unknown-keyless": (120, _plan(replace(DONE, outcome=PLANNED))),
    # If only a horizon has passed, the round lies below what is dirty.
    "print-plan-offsets": (120, _plan(PLAN, replace(PLAN, first_dirty=20_000))),
    "print-plan-escapes": (120, _plan(replace(PLAN, outcome=REFUSED, **ESCAPES))),
    # In a narrow terminal sentences follow the table; in a very narrow one lines replace it.
    "print-plan-110-columns": (110, _plan(*NARROW)),
    "print-plan-60-columns": (60, _plan(*NARROW)),
    "print-verify-sound": (160, _verify(SOUND, UNCOMPARED)),
    "print-verify-second-opinion": (
        160,
        _verify(replace(SOUND, second_opinion=SecondOpinion(keys=999)), SOUND),
    ),
    "print-verify-markers-and-deleted": (
        160,
        _verify(replace(SOUND, markers=90, keys_deleted=1), replace(SOUND, keys_deleted=88)),
    ),
    "print-verify-not-compared": (160, _verify(UNCOMPARED)),
    "print-verify-corrupt": (160, _verify(SOUND, CORRUPT)),
    "print-verify-many": (
        160,
        _verify(
            *(replace(SOUND, key=replace(SOUND.key, partition=i)) for i in range(ROWS_MAX + 5))
        ),
    ),
    "print-verify-nothing": (160, _verify()),
}
"""Width and result, by the name of the golden file."""


def printed(_: Path) -> dict[str, str]:
    """Return every screen by the name of its golden file."""
    found = {}
    for name, (width, result) in SCREENS.items():
        out = StringIO()
        result.print_tables(Screen(out, width=width, highlight=False))
        found[f"{name}.txt"] = "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())
        if name == "print-doctor-sick":
            document = result.to_dict()
            assert faults(document) == []
            found[f"{name}.json"] = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    return found
