"""Names again, for one run, what a lost metadata topic had; some partitions at a time."""

from __future__ import annotations

from collections.abc import Mapping

from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.stopping import Stopped, finishing
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.joint_rebuild import JointRebuild
from tierfold.jobs.publishing.publishing_run import STAYS, PublishingRun, some_at_a_time


def named_again(
    run: PublishingRun, held: HeldPartitions, rules: Mapping[PartitionKey, Rules]
) -> dict[PartitionKey, Publication]:
    """Name again the partitions of `rules`, which `held` has claimed; what became of each.

    An error ends all that are on their way; a signal ends them between two sends.
    """
    ended: dict[PartitionKey, Publication] = {}
    with finishing(STAYS):
        for some in some_at_a_time([*rules]):
            joint = JointRebuild.of(run, held, {key: rules[key] for key in some})
            try:
                joint.run()
            except Stopped as stopped:
                joint.leave_all(PublicationState.LEFT, f"stopped by {stopped.by}")
                run.stopped_by = f"stopped by {stopped.by}"
            except TierfoldError as error:
                run.stopped_by = str(error)
                joint.leave_all(PublicationState.FAILED, str(error))
            ended |= joint.ended
    return ended
