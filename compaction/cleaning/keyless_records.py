"""Whether a round may drop as many records without a key as it met.

Kafka's cleaner drops every such record of a compacted topic. On an event log that is all of them,
so `compact.keyless.max` limits how many a round may drop.
"""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.wording import spaced


@dataclass(frozen=True, slots=True, kw_only=True)
class TooManyKeyless:
    """Why a round stops before it rewrites anything."""

    without_key: int
    """Records without a key that would go; aborted ones are not among them."""
    records_in: int
    """All records of the round."""
    most: int
    """`compact.keyless.max`."""

    @property
    def reason(self) -> str:
        """What is wrong and what to do; the caller adds where."""
        have = "has" if self.without_key == 1 else "have"
        return (
            f"{spaced(self.without_key)} of {spaced(self.records_in)} records {have} no key"
            f" and would be dropped, compact.keyless.max allows {spaced(self.most)};"
            " nothing was changed. If they may go, raise compact.keyless.max; if not,"
            " take compact out of the topic's cleanup.policy."
        )


def too_many_keyless(without_key: int, records_in: int, rules: Rules) -> TooManyKeyless | None:
    """Why the round must stop; None: it may go on, as it does where no limit is set.

    Args:
        without_key: records of the round without a key, aborted ones aside.
        records_in: all records of the round.
        rules: the topic's settings.
    """
    most = rules.compact_keyless_max
    if most is None or without_key <= most:
        return None
    return TooManyKeyless(without_key=without_key, records_in=records_in, most=most)
