"""Lets brokers forget what is deleted, of some claimed partitions together: the third send.

    look → half done?                   it is left: `compact` goes on
         → listed again, or gone        events (`joint_sends`), and another look
         → objects go, wait, or done    it ends with this look; what was sent was read back

Rule: PUBLISHING 6.1; `compaction.publishing.deletions.next_deletion` decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tierfold.compaction.deletion.third_send import why_open
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.publishing.deletions import next_deletion
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Delete, Done, Refused, Send, Wait
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.joint_sends import JointSends
from tierfold.jobs.publishing.looks import Looks
from tierfold.jobs.publishing.served_partition import ServedPartition
from tierfold.storage.brokers.event_door import LookTime


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLook:
    """The look after which nothing more is to be sent, for now."""

    look: Look
    taken: LookTime
    deletion: Delete | Wait | Done


@dataclass(slots=True, kw_only=True)
class JointDeletion(JointSends):
    """Some partitions of which objects go, or are gone."""

    last: dict[PartitionKey, LastLook] = field(default_factory=dict)
    """Of those that ended well."""

    def _take(self, looks: Looks) -> None:
        """Take one step with each partition."""
        refused = self.shared.refused_setup(looks.seen)
        sends: list[tuple[ServedPartition, Send]] = []
        for key, seen in looks.seen.items():
            if isinstance(seen, Publication):
                self._end(key, seen)
                continue
            if key in refused:
                self._end(key, refused[key])
                continue
            step, deletion = next_step(seen.look), next_deletion(seen.look)
            if why := why_open(step):
                is_refused = isinstance(step, Refused)
                state = PublicationState.FAILED if is_refused else PublicationState.LEFT
                self._leave(key, state, why)
            elif why := self._stuck(seen, deletion):
                self._leave(key, PublicationState.FAILED, why)
            elif isinstance(deletion, Send):
                sends.append((seen, deletion))
            else:
                self.last[key] = LastLook(
                    look=seen.look, taken=looks.taken, deletion=deletion
                )
                self._leave(key, PublicationState.PUBLISHED, "")
        self._send(sends, looks.taken)
