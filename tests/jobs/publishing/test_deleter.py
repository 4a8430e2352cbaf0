"""After an error of the cluster, a run that deletes sends nothing for the partitions behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.jobs.claims import ORDERS
from tests.jobs.runs_beside import beside
from tests.jobs.tiers import made_tier
from tests.storage.call_scripts import NO_ANSWER, Script, fails
from tierfold.compaction.brokers.cluster_facts import MetadataTopic
from tierfold.compaction.discovery.view import never_claimed
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.verification.canary import CanaryMode
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.deleter import Deleter
from tierfold.jobs.publishing.publishing_run import AT_ONCE, PublishingRun
from tierfold.jobs.publishing.tier_proof import TierProof
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.brokers.event_door import EventDoor


def test_a_cluster_that_does_not_answer_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = made_tier(tmp_path / "tier")
    context = replace(beside(tier), run="this")
    keys = [replace(ORDERS, partition=number) for number in range(1, AT_ONCE + 2)]
    held = HeldPartitions(context=context, verb="vacuum")
    assert held.claim([never_claimed(key) for key in keys]) == {}
    assert context.cluster is not None
    script = Script(fails("look_again"))
    asked = script.around("look_again", RunCluster.look_again)
    monkeypatch.setattr(RunCluster, "look_again", asked)
    run = PublishingRun(
        context=context,
        cluster=context.cluster,
        settings=resolve([]),
        door=EventDoor(
            cast("Any", None),  # Nothing is sent.
            MetadataTopic(topic_id="m" * 22, partitions=1),
            message_timeout_ms=1,
            events_per_second_max=None,
        ),
        message_timeout_ms=1,
        grace_ms=1,
        proof=TierProof(context=context, cluster=context.cluster, mode=CanaryMode.OFF),
    )
    ended, last = Deleter(run=run).send(held, dict.fromkeys(keys, Rules()))
    assert len(script.of("look_again")) == 1
    assert {ended[key].state for key in keys[:AT_ONCE]} == {PublicationState.FAILED}
    assert ended[keys[-1]] == Publication(
        state=PublicationState.LEFT,
        why=f"publishing stopped: {NO_ANSWER}",
        row=held.by_key[keys[-1]].row,
    )
    assert last == {}
