"""Why a lost metadata topic is not named again, and what to do first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tierfold.compaction.brokers.cluster_configs import Configs, number_in
from tierfold.compaction.brokers.preconditions import alter_topic
from tierfold.compaction.brokers.topic_retention import stopping_copies
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.rules import AS_RETENTION, DAY_MS
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.wording import counted, spaced
from tierfold.compaction.publishing.lost_metadata import LostAlready, RebuildStep, StopCopying
from tierfold.compaction.publishing.steps import RefusalCode, Refused

_REASONS: Final = {
    RefusalCode.UNCOVERED: RefusalReason.GAP,
    RefusalCode.BEYOND_LOG: RefusalReason.TIER_BEYOND_LOG,
    RefusalCode.ANOTHER_CATALOG: RefusalReason.ANOTHER_CATALOG,
    RefusalCode.CATALOG_SET_BACK: RefusalReason.CATALOG_SET_BACK,
}
"""All others say that brokers have other segments over the same offsets."""

_CHECK: Final = (
    "Check that these brokers write to this tier, and that this is its newest catalog. If objects"
    " are missing, bring them back from a backup. Then run again."
)

_SINCE: Final = (
    "If an upload has just ended, run this again: what is whole is then part of the log. Otherwise"
    " bring the objects of this segment back from a backup, and run this again."
)

_NAMED: Final = 5
"""How many segments a refusal names; it counts the others."""


def step_refusal(
    step: RebuildStep, why: str, topic: Configs, name: str, server: str
) -> Refusal | None:
    """Why nothing is named again; None: it is, or nothing is lost.

    `why`: what a consumer got instead of the record at the log start, a clause; `topic`: the
    settings of the topic `name`; `server`: a broker that commands name.
    """
    match step:
        case StopCopying():
            command = alter_topic(server, name, stopping_copies(topic))
            return _still_copying(step, why, command)
        case LostAlready():
            return _lost_already(step)
        case Refused():
            reason = _REASONS.get(step.code, RefusalReason.OVERLAP)
            remedy = _SINCE if step.code is RefusalCode.NO_ORDER else _CHECK
            return Refusal(reason=reason, detail=step.why, remedy=remedy)
        case _:
            return None


def _still_copying(step: StopCopying, why: str, command: str) -> Refusal:
    return Refusal(
        reason=RefusalReason.STILL_COPYING,
        detail="consumers no longer get what the tier has from offset"
        f" {step.segments[0].start_offset} on ({why}): a broker has restarted since the metadata"
        " topic was lost. Its next copy to the tier moves the log start to the first offset that is"
        " still local, and brokers delete what is named below it",
        remedy=f"Restart nothing more. Stop the copying now: `{command}`. Then run this again.",
    )


def _lost_already(step: LostAlready) -> Refusal:
    size_bytes = sum(one.size_bytes for one in step.segments)
    offsets = ", ".join(map(str, step.ranges))
    ids = [one.segment_id for one in step.segments]
    named = ", ".join(ids[:_NAMED])
    if len(ids) > _NAMED:
        named += f" and {len(ids) - _NAMED} more, all of which --json lists"
    those = "this segment" if len(ids) == 1 else "these segments"
    rest = (
        f"From offset {step.log_start} on nothing is lost"
        if step.has_rest
        else "The tier has nothing beyond it"
    )
    return Refusal(
        reason=RefusalReason.LOG_START_MOVED,
        detail=f"brokers have moved the log start to offset {step.log_start}: consumers can no"
        f" longer read offsets {offsets} ({counted(len(step.segments), 'segment')},"
        f" {spaced(size_bytes)} bytes: {named}). {rest}. The objects are in the tier, and stay"
        " while nothing names them: brokers would delete what is named below their log start",
        remedy="Copy the whole tier to another place: no tool of Kafka moves a log start back, but"
        " `tierfold.read` reads the copy. Once you have read it, or if a person or retention moved"
        f" the log start, move the objects of {those} out of the tier, and run this again: the"
        f" topic goes on from offset {step.log_start}.",
    )


def unknown_note(ids: Sequence[str], key: PartitionKey) -> str:
    """What to do about `unknown_uploads`, in sentences."""
    named = ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if ids[_NAMED:] else "")
    return (
        f"The tier has {counted(len(ids), 'whole upload')} that neither the catalog nor the"
        f" metadata topic names, and that no live segment needs: {named}. Other verbs refuse the"
        " partition for that. Move the objects out of the tier, and keep them; or `tierfold forget"
        f" TIER {key} --leave-alone {','.join(ids)}`, with the same brokers, records that they are"
        " never read and never deleted."
    )


def copying_again(topic: Configs, name: str, server: str) -> str:
    """The command by which copying goes on once all is named again."""
    changes = {"remote.log.copy.disable": "false"}
    if number_in(topic, "local.retention.ms") in {None, AS_RETENTION}:
        changes["local.retention.ms"] = str(DAY_MS)
    return alter_topic(server, name, changes)
