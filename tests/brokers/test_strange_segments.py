"""Segments that brokers never had: `plan` prints the command that leaves exactly these alone."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.published import added, row_of, send, updated
from tests.brokers.test_plan_beside_brokers import NO_MARGIN, Planned
from tests.brokers.test_status_of_brokers import tierfold, topic_of
from tests.brokers.test_whose_cluster import copied_as, ids_in
from tests.jobs.commands import Ran
from tests.jobs.commands import tierfold as command
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.commits.leave_alone import LeftAlone
from tierfold.compaction.model.serving import ConsentKind
from tierfold.jobs.api.opening import opened
from tierfold.jobs.pipeline.partition_report import LOST_RACE, PLANNED, PartitionReport
from tierfold.jobs.pipeline.survey import known_by_name
from tierfold.jobs.verbs.leave_alone import planned_leaving, recorded

STRANGE = tuple(letter * 21 + "Q" for letter in "ABCDEFG")
LATER = "H" * 21 + "Q"


class WithStrange(Planned):
    """A topic in whose folder are whole segments that brokers never had."""

    def put(self, *ids: str) -> None:
        for new_id in ids:
            copied_as(self.topic.folder(), self.topic.logs()[-1].stem[21:], new_id)

    def forget(self, ids: str, *more: str) -> Ran:
        return tierfold(
            self.kafka, "forget", self.kafka.tier, f"{self.topic.name}-0", *self._scope[:2],
            "--leave-alone", ids, "--json", *more,
        )

    def forget_in_words(self, *more: str) -> str:
        words = (f"{self.topic.name}-0", *self._scope[:2], "--leave-alone", ",".join(STRANGE))
        return tierfold(self.kafka, "forget", self.kafka.tier, *words, *more).stdout

    def as_printed(self) -> Ran:
        """Run the command in the refusal's reason, with the same brokers."""
        (entry,) = self.plan().entries
        found = re.search(r"`tierfold (forget [^`]+--leave-alone [^`]+)`", entry["reason"])
        assert found is not None, entry
        return tierfold(self.kafka, *shlex.split(found[1]), "--json")


@pytest.mark.soak
def test_the_command_of_the_refusal_leads_out(kafka: KafkaCluster, tmp_path: Path) -> None:
    tier = WithStrange(kafka, tmp_path, topic_of(kafka, "with-strange"))
    originals = ids_in(tier.topic.folder())
    tier.put(*STRANGE)
    assert tier.plan(*NO_MARGIN).code == 3
    dry = tier.forget(",".join(STRANGE), "--dry-run").entries[0]
    assert dry["outcome"] == "planned"
    assert [one["id"] for one in dry["left_alone"]] == [*STRANGE]
    assert not (tmp_path / "catalog").exists()
    assert "7 segments would be left alone" in tier.forget_in_words("--dry-run")
    done = tier.as_printed()
    assert (done.code, done.entries[0]["outcome"]) == (0, "forgotten")
    (consent,) = row_of(tmp_path / "catalog", tier.topic).consents
    assert (consent.kind, consent.segment_ids) == (ConsentKind.LEFT_ALONE, STRANGE)
    (entry,) = tier.plan(*NO_MARGIN).entries
    assert (entry["outcome"], entry["segments_in"]) == ("planned", 3)
    assert "7 segments that a person says to leave alone: kept, not read" in entry["notes"]
    assert tier.forget(",".join(STRANGE)).entries[0]["outcome"] == "nothing_to_do"
    # They stay, whatever compacts or deletes.
    tier.compact()
    at_once = ("--grace-period", "0s", "--orphan-age", "0s", "--yes")
    assert tierfold(kafka, "vacuum", kafka.tier, *tier._scope, *at_once, "--json").code == 0
    assert originals | {*STRANGE} <= ids_in(tier.topic.folder())
    # What appears later was not agreed to.
    tier.put(LATER)
    (entry,) = tier.plan(*NO_MARGIN).entries
    assert entry["outcome"] == "refused"
    assert f"--leave-alone {LATER}`" in entry["reason"]
    words = (f"{tier.topic.name}-0", *tier._scope[:2], "--leave-alone", STRANGE[0])
    shown = tierfold(kafka, "forget", kafka.tier, *words, "--leave-alone", LATER).stdout
    assert shown.startswith(f"{tier.topic.name}-0: noted in the catalog\n")
    assert f"1 segment left alone: never read, never deleted\n  {LATER}" in shown


def test_an_id_that_brokers_have_is_never_left_alone(kafka: KafkaCluster, tmp_path: Path) -> None:
    tier = WithStrange(kafka, tmp_path, topic_of(kafka, "not-strange"))
    upload = tier.topic.logs()[0].stem[21:]
    refused = tier.forget(upload)
    assert refused.code == 3
    assert upload in refused.entries[0]["reason"]
    name = f"{tier.topic.name}-0"
    alone = command(
        "forget", str(kafka.tier), name, *tier._scope[:2], "--leave-alone", upload
    )
    alone.refuses("only brokers can say", "--bootstrap-server")
    tier.forget("../etc").refuses("'../etc' is no id of a segment")
    assert not (tmp_path / "catalog").exists()


@pytest.mark.soak
def test_brokers_that_have_it_after_all_are_taken_over(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Their metadata topic was lost when a person left it alone, and came back."""
    tier = WithStrange(kafka, tmp_path, topic_of(kafka, "came-back"))
    tier.put(*STRANGE[:2])
    assert tier.as_printed().code == 0
    tier.compact()
    row = row_of(tmp_path / "catalog", tier.topic)
    last = max((entry.segment for entry in row.retired), key=lambda one: one.end_offset)
    again = replace(last, segment_id=STRANGE[0])
    send(kafka, [added(row.key, again), updated(row.key, STRANGE[0], SegmentState.COPY_FINISHED)])
    (entry,) = tier.plan(*NO_MARGIN).entries
    assert entry["outcome"] == "refused"
    assert "a person said to leave them alone" in entry["reason"]
    name = f"{tier.topic.name}-0"
    taken = tierfold(kafka, "forget", kafka.tier, name, *tier._scope[:2], "--json")
    assert taken.entries[0]["outcome"] == "forgotten", taken
    row = row_of(tmp_path / "catalog", tier.topic)
    assert STRANGE[0] in row.live_ids
    assert row.left_alone_ids == {STRANGE[1]}
    assert tier.plan(*NO_MARGIN).code == 0


def test_nothing_is_noted_if_the_tier_changes_meanwhile(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    tier = WithStrange(kafka, tmp_path, topic_of(kafka, "changed"))
    tier.put(STRANGE[0])
    catalog = str(tmp_path / "catalog")
    given = {"catalog": catalog, "bootstrap_server": kafka.servers}
    context = opened(kafka.tier, given, asks_brokers=True).context
    name = f"{tier.topic.name}-0"
    known = known_by_name(context, name, where="")
    assert known.brokers is not None
    leaving = planned_leaving(context, known, known.brokers, STRANGE[:1])
    assert isinstance(leaving, LeftAlone)
    for path in tier.topic.folder().glob(f"*{STRANGE[0]}*"):
        path.unlink()
    report = recorded(context, name, PartitionReport(key=known.key, outcome=PLANNED), None, leaving)
    assert report.outcome == LOST_RACE
    assert row_of(tmp_path / "catalog", tier.topic).consents == ()
