"""The third send: objects go after the grace period, and then brokers learn that they are gone.

    listed        since the grace period: its objects may go
    never named   retired since the grace period: its objects may go, and there is nothing to send
    gone          its objects may go: brokers have forgotten it
    started, finished   it stays, whatever the row says

What was retired before lost metadata were named again must be listed, or lie below the log start.

Rule: PUBLISHING 1.3, 3.6, 6.1; SWAP.md 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierfold.compaction.brokers.broker_view import BrokerSegment, Naming
from tierfold.compaction.brokers.events import Event, SegmentState
from tierfold.compaction.model.segments import RetiredSegment
from tierfold.compaction.publishing.batches import fitting
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.replacements import update_event
from tierfold.compaction.publishing.steps import Delete, Deletion, Done, Purpose, Send, Wait


def next_deletion(look: Look) -> Deletion:
    """What a vacuum does next, once `next_step` has nothing to send.

    `look.present` must be of a complete listing that was made after the last deletion; without one
    nothing is deleted, and nothing counts as gone.
    """
    listed = list(_listed(look))
    again = [one for one in listed if one.since_ms > look.now_ms]
    if again:
        why = "their deletion is dated in the future"
        return _send(look, Purpose.LIST_AGAIN, again, SegmentState.DELETE_STARTED, why)
    due = [one for one in listed if look.now_ms - one.since_ms >= look.limits.grace_ms]
    present = look.present
    gone = [one for one in due if present is not None and one.added.segment_id not in present]
    if gone:
        why = "their objects are deleted"
        return _send(look, Purpose.GONE, gone, SegmentState.DELETE_FINISHED, why)
    ids = {one.added.segment_id for one in due} | set(_unlisted(look))
    if deletable := sorted(ids & (present or frozenset())):
        return Delete(segment_ids=tuple(deletable), why="brokers no longer need them")
    waiting = [one.since_ms + look.limits.grace_ms for one in listed]
    if waiting:
        return Wait(until_ms=min(waiting), why="the grace period of deleted segments goes on")
    return Done()


def _listed(look: Look) -> Iterator[BrokerSegment]:
    for segment in look.view.in_state(SegmentState.DELETE_STARTED):
        if segment.added.segment_id in look.retired_ids:
            yield segment


def _unlisted(look: Look) -> Iterator[str]:
    """Ids of retired segments that brokers do not have, and that may go."""
    for entry in look.row.retired:
        segment_id = entry.segment.segment_id
        if segment_id not in look.view.segments and _may_go(look, entry):
            yield segment_id


def _may_go(look: Look, entry: RetiredSegment) -> bool:
    if not look.row.knows_names_of(entry, look.log_start):
        return False
    match look.naming.get(entry.segment.segment_id):
        case Naming.NAMED:
            return True
        case Naming.NEVER_NAMED:
            is_ours = not entry.segment.is_named_by_brokers
            return is_ours and look.now_ms - entry.retired_at_ms >= look.limits.grace_ms
        case _:
            return False


def _send(
    look: Look, purpose: Purpose, segments: list[BrokerSegment], state: SegmentState, why: str
) -> Send:
    events: list[Event] = [update_event(one, state, look.now_ms) for one in segments]
    return Send(purpose=purpose, events=fitting(events, look.limits.batch_bytes_max), why=why)
