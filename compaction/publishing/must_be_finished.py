"""Which live segments brokers must have as finished: all but those that another live one contains.

What an outer segment contains, look-ups find through it. The other way round they lose offsets:
behind the end of an inner one that is finished after it, they find nothing where it has more. A
broker that goes on from memory then mends nothing until it restarts, whatever is finished once more
(`RemoteLogLeaderEpochState`: a segment takes the place of those behind its start only if it reaches
as far as any that was ever finished in its leader epoch).

Rule: SWAP.md 1 (the floor of start offsets), 8; PUBLISHING 1.2, 6.6.
"""

from __future__ import annotations

from collections.abc import Mapping

from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.ranges import OffsetRange, range_of
from tierfold.compaction.publishing.replacements import NO_BROKER


def must_be_finished(live: Mapping[str, OffsetRange]) -> frozenset[str]:
    """The ids of those that no other one contains.

    `live`: by id, the offsets of live segments as brokers have them (not only those that each gives
    to the log), without uploads that their brokers have not finished.
    """
    outer, reached = set[str](), -1
    for name, bounds in sorted(live.items(), key=_outer_first):
        if bounds.last > reached:
            outer.add(name)
            reached = bounds.last
    return frozenset(outer)


def _outer_first(one: tuple[str, OffsetRange]) -> tuple[int, int, str]:
    name, bounds = one
    return bounds.first, -bounds.last, name


def required_ids(look: Look) -> frozenset[str]:
    """The ids by a look of `with_rebuilds`; an upload at work is its broker's to finish."""
    at_work = {
        one.added.segment_id for one in look.uploads_at_work if one.added.broker_id != NO_BROKER
    }
    live = look.live_ids - at_work
    return must_be_finished(
        {name: range_of(one) for name, one in look.rebuilds.items() if name in live}
    )
