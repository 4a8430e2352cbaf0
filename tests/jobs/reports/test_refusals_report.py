"""A refusal that stops many partitions is shown once, with the partitions that it stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from io import StringIO
from typing import Any

import pytest

from tests.compaction.builders import KEY
from tests.jobs import result_schema
from tierfold.compaction.commits.holders import Holder, Skip
from tierfold.compaction.deletion.deletion_plan import DeletionPlan
from tierfold.compaction.discovery.view import Refusal, RefusalReason, never_claimed
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.outlook import Outlook
from tierfold.jobs.cli.exit_codes import exit_code_of
from tierfold.jobs.pipeline.claim_report import claim_report
from tierfold.jobs.pipeline.partition_report import (
    NOTHING_TO_DO,
    PLANNED,
    REFUSED,
    PartitionReport,
)
from tierfold.jobs.reports.plan_report import PlanResult
from tierfold.jobs.reports.refusals_report import refusal_lines
from tierfold.jobs.reports.result import Result
from tierfold.jobs.reports.screen import Screen
from tierfold.jobs.reports.status_report import StatusResult
from tierfold.jobs.reports.vacuum_report import VacuumResult
from tierfold.jobs.reports.verify_report import VerifyResult
from tierfold.jobs.verbs.status import PartitionStatus
from tierfold.jobs.verbs.vacuum_outcome import PartitionVacuum
from tierfold.jobs.verbs.verified import Verified

ALTER = "`kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics --entity-name m`"
CLUSTER = RefusalPart(code="late_sends", detail="the limit is not set", remedy=f"Set {ALTER}.")
KEYS = [
    replace(KEY, topic=f"topic-{number % 5}", partition=number // 5) for number in range(2000)
]


def precondition(*parts: RefusalPart) -> Refusal:
    return Refusal(
        reason=RefusalReason.PRECONDITION,
        detail="; ".join(part.detail for part in parts),
        remedy=" ".join(part.remedy for part in parts),
        preconditions=parts,
    )


def refused(key: PartitionKey, *parts: RefusalPart) -> PartitionReport:
    return PartitionReport(
        key=key, outcome=REFUSED, reason=precondition(*parts).sentence, refusals=parts
    )


def screen(result: Result[Any], width: int = 120) -> str:
    out = StringIO()
    result.print_tables(Screen(out, width=width, highlight=False))
    return out.getvalue()


def vacuum(key: PartitionKey, *waits: str) -> PartitionVacuum:
    return PartitionVacuum(
        deletion=DeletionPlan(key=key),
        row=never_claimed(key),
        outcome=REFUSED,
        reason=precondition(CLUSTER).sentence,
        refusals=(CLUSTER,),
        waits=waits,
    )


@pytest.mark.parametrize(
    "result",
    [
        PlanResult(tier="/tier", partitions=tuple(refused(key, CLUSTER) for key in KEYS)),
        VacuumResult(tier="/tier", partitions=tuple(map(vacuum, KEYS))),
        VerifyResult(
            tier="/tier",
            partitions=tuple(Verified(key=key, refusal=precondition(CLUSTER)) for key in KEYS),
        ),
        StatusResult(
            tier="/tier",
            partitions=tuple(
                PartitionStatus(key=key, row=None, refusal=precondition(CLUSTER)) for key in KEYS
            ),
        ),
    ],
    ids=lambda result: result.verb,
)
def test_what_stops_a_cluster_is_one_line_that_can_be_pasted(result: Result[Any]) -> None:
    text = screen(result, 160)
    line = f"all 2 000 partitions: {CLUSTER.detail} [late_sends]. {CLUSTER.remedy}"
    assert text.count(line) == text.count(CLUSTER.detail) == 1
    assert "see below" in text
    # Programs get each partition with its codes, and partitions count as refused.
    document = result.to_dict()
    assert document["totals"]["partitions"]["refused"] == 2000
    assert exit_code_of(document["outcome"]) == 3
    for entry in document["partitions"]:
        assert [found["code"] for found in entry["refusals"]] == ["late_sends"]
    assert result_schema.faults(document) == []


def lines(*partitions: PartitionReport) -> Sequence[str]:
    return list(refusal_lines(partitions, len(partitions)))


def test_the_partitions_are_named_where_they_are_few() -> None:
    planned = PartitionReport(key=KEY, outcome=PLANNED)

    def those(keys: Sequence[PartitionKey]) -> str:
        (line,) = lines(planned, *(refused(key, CLUSTER) for key in keys))
        return line.partition(":")[0]

    assert those(KEYS[1:2]) == "topic-1-0"
    assert those(KEYS[:3]) == "topic-0-0, topic-1-0, topic-2-0"
    assert those(KEYS[0:20:5]) == "4 partitions of topic-0"
    assert those(KEYS[0:50:2]) == "25 partitions of 5 topics"


def test_those_that_stop_most_come_first_and_one_command_is_said_once() -> None:
    mends = "Set `kafka-configs.sh 1`."
    of_topic = [
        RefusalPart(code="retention_bytes", detail="bytes are 5", remedy=mends),
        RefusalPart(code="retention_ms", detail="ms is 6.", remedy=mends),
    ]
    own = RefusalPart(code="gap", detail="offsets are missing", remedy="")
    found = lines(
        refused(KEYS[1], own), refused(KEYS[0], *of_topic), refused(KEYS[5], CLUSTER, *of_topic)
    )
    assert found == [
        "topic-0-0, topic-0-1: bytes are 5 [retention_bytes]; ms is 6 [retention_ms]. Set"
        " `kafka-configs.sh 1`.",
        f"topic-0-1: the limit is not set [late_sends]. {CLUSTER.remedy}",
        "topic-1-0: offsets are missing [gap].",
    ]


def test_other_outcomes_keep_their_reasons_and_what_waits_is_said() -> None:
    idle = PartitionReport(key=KEY, outcome=NOTHING_TO_DO, reason="everything is clean")
    text = screen(PlanResult(tier="/tier", partitions=(idle,)))
    assert "everything is clean" in text
    assert "see below" not in text
    assert idle.as_json()["refusals"] == ()
    waiting = VacuumResult(tier="/tier", partitions=(vacuum(KEY, "2 segments wait"),))
    assert "2 segments wait; see below: late_sends" in screen(waiting, 160)


def test_verify_parts_what_is_corrupt_from_what_it_could_not_check() -> None:
    corrupt = Verified(key=KEYS[0], corruptions=("a torn batch",))
    unchecked = [Verified(key=key, refusal=precondition(CLUSTER)) for key in KEYS[1:3]]
    sound, left = Verified(key=KEYS[3], segments=2), Verified(key=KEYS[4], left="no time")
    result = VerifyResult(tier="/tier", partitions=(corrupt, *unchecked, sound, left))
    assert [one.outcome for one in result.partitions] == [
        "failed",
        "refused",
        "refused",
        "sound",
        "left",
    ]
    assert screen(result, 160).splitlines()[-3:] == [
        "1 corruption in 1 of 5 partitions",
        "not verified: 2 of 5 partitions refused, which may be sound or corrupt",
        "left: 1 partition",
    ]
    (entry,) = (one for one in result.to_dict()["partitions"] if one["topic"] == "topic-1")
    assert (entry["outcome"], entry["corruptions"]) == ("refused", [])
    assert entry["reason"] == precondition(CLUSTER).sentence

    partly = VerifyResult(tier="/tier", partitions=(*unchecked, sound))
    assert (partly.outcome, exit_code_of(partly.outcome)) == ("refused", 3)
    *_, verified, unverified = screen(partly, 160).splitlines()
    assert verified.startswith("verified: 2 segments")
    assert unverified.startswith("not verified: 2 of 3 partitions")
    assert "verified: 0" not in screen(replace(partly, partitions=tuple(unchecked)), 160)


def test_a_note_that_many_partitions_share_is_said_once() -> None:
    note = "not compared: nothing was rewritten since the upload"
    sound = [Verified(key=key, segments=2, notes=(note,)) for key in KEYS[0:20:5]]
    own = Verified(key=KEYS[1], notes=("its own",))
    text = screen(VerifyResult(tier="/tier", partitions=(*sound, own)), 160)
    assert text.count("not compared") == 1
    assert f"4 partitions of topic-0: {note}" in text
    assert "sound; its own" in text
    few = screen(VerifyResult(tier="/tier", partitions=(*sound[:3], own)), 160)
    assert few.count("not compared") == 3


@pytest.mark.parametrize(
    ("until_ms", "says"),
    [
        (500, "consumers see it at once, as no broker has local copies of it."),
        (1001, "consumers see all of it after 1970-01-01T00:00:01.001Z, as local copies go."),
        (None, "of 1 partition it is not known when consumers see it."),
    ],
)
def test_a_time_that_has_passed_is_not_said_to_come(until_ms: int | None, says: str) -> None:
    outlook = Outlook(metadata_records=4, local_until_ms=until_ms)
    planned = PartitionReport(key=KEY, outcome=PLANNED, outlook=outlook, events_planned=5)
    text = screen(PlanResult(tier="/tier", partitions=(planned,), started_at_ms=1000), 160)
    assert f"To be published: 5 events to brokers; {says}" in text


def test_a_partition_that_a_live_run_holds_is_refused_with_a_code() -> None:
    planned = PartitionReport(key=KEY, outcome=PLANNED)
    report = claim_report(planned, Skip(holder=Holder(run="r")))
    (part,) = report.refusals
    assert part.code == "held_by_run"
    assert part.detail in report.reason
    assert part.remedy in report.reason


def test_each_code_of_a_refusal_is_one_that_the_schema_takes() -> None:
    for reason in RefusalReason:
        found = Refusal(reason=reason, detail="d", remedy="")
        (part,) = found.parts
        assert part.code == str(reason).replace(" ", "_")
        assert result_schema.faults(asdict(part), "refusal") == []
