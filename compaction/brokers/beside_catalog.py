"""How what brokers have of a partition differs from what its catalog and the tier have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tierfold.compaction.brokers.broker_view import BrokerView, Naming
from tierfold.compaction.brokers.events import SegmentState


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideCatalog:
    """Ids of segments, each set in the order of `str`."""

    not_served: tuple[str, ...]
    """Live in the catalog or the tier, but no look-up of a broker finds them."""
    retired_but_served: tuple[str, ...]
    """Retired in the catalog, but brokers still have them as finished."""
    not_in_catalog: tuple[str, ...]
    """Brokers have them as finished, and they are neither live nor retired."""
    not_listed: tuple[str, ...]
    """Brokers have them as finished, but the tier has no object of them."""
    never_named: tuple[str, ...]
    """The tier has objects of them, and brokers never had them."""


def beside_catalog(
    view: BrokerView,
    naming: Mapping[str, Naming],
    *,
    live: Collection[str],
    retired: Collection[str],
) -> BesideCatalog:
    """Compare; `naming`: of all segments that the listing has, as the fold answered.

    `live` and `retired`: ids, of the row or, without one, of the tier's own view.
    """
    finished = {segment.added.segment_id for segment in view.in_state(SegmentState.COPY_FINISHED)}
    never = {name for name, named in naming.items() if named is Naming.NEVER_NAMED}

    def ordered(ids: Collection[str]) -> tuple[str, ...]:
        return tuple(sorted(ids))

    return BesideCatalog(
        not_served=ordered(set(live) - view.referenced_ids),
        retired_but_served=ordered(finished & set(retired)),
        not_in_catalog=ordered(finished - set(live) - set(retired)),
        not_listed=ordered(finished - set(naming)),
        never_named=ordered(never),
    )
