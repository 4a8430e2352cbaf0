"""What stays of a partition that `vacuum` looked at, and why, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tierfold.compaction.deletion.dropped import listed_since
from tierfold.compaction.deletion.expiry import Expired
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.bindings import Binding, ServedBy
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.wording import counted


def on_view(
    view: PartitionView, expired: Sequence[Expired], going: Sequence[ListedSegment]
) -> Iterator[str]:
    """The view's notes, except those on segments that are deleted now."""
    if expired and len(expired) == len(view.segments):  # A setting may be mistyped.
        yield "every live segment is past retention"
    for note in view.notes:
        if not any(segment.segment_id in note for segment in going):
            yield note


def on_kept(originals: int, doubted: int) -> Iterator[str]:
    """What stays for a restore, or beside another cluster's segment."""
    if originals:
        yield f"{counted(originals, 'retired original')} kept for `tierfold restore`"
    if doubted:
        yield (
            f"{counted(doubted, 'unfinished upload')} kept: a segment in the same folder may be"
            " another cluster's"
        )


def on_named(stay: Mapping[str, int], binding: Binding) -> Iterator[str]:
    """What stays because of brokers."""
    listed = ", ".join(f"{count} {what}" for what, count in stay.items() if count)
    if listed and isinstance(binding, ServedBy):
        yield f"brokers have or may have these segments, so they stay: {listed}"
    elif listed:
        yield (
            f"a broker may still name these segments, so they stay: {listed}. If no broker serves"
            " this tier, set tier.binding=detached"
        )


def on_unsent(
    view: PartitionView, rules: Rules, binding: Binding, *, is_on: bool
) -> Iterator[str]:
    """What brokers list, and a run must not let them forget; `is_on`: whether it publishes."""
    count = len(listed_since(view)) if isinstance(binding, ServedBy) else 0
    what = f"{counted(count, 'segment')} that brokers list for deletion kept"
    if count and not rules.publish:
        yield f"{what}, because publish is false in the settings of topic {view.key.topic}"
    elif count and not is_on:
        yield f"{what}: publishing to these brokers is not on. Turn it on with --publish"


def on_future(count: int) -> Iterator[str]:
    """Of how many segments the deletion is dated in the future."""
    if count:
        yield (
            f"the deletion of {counted(count, 'segment')} is dated in the future: brokers are sent"
            " it once more, and the grace period begins then"
        )
