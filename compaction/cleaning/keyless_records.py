"""Whether a round may drop all the records without a key that it met.

Kafka's cleaner drops every such record of a compacted topic. On an event log that is all of them,
so `compact.keyless.max` limits how many a round may drop.
"""

from __future__ import annotations

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.wording import spaced


def too_many_keyless(without_key: int, records_in: int, rules: Rules) -> str:
    """Why the round must stop before it rewrites anything, and what to do; empty: it need not.

    `without_key` counts the records without a key except aborted ones, `records_in` all records.
    """
    most = rules.compact_keyless_max
    if most is None or without_key <= most:
        return ""
    have = "has" if without_key == 1 else "have"
    return (
        f"{spaced(without_key)} of {spaced(records_in)} records {have} no key and would be dropped,"
        f" but compact.keyless.max allows {spaced(most)}; nothing was changed. If they may be"
        " dropped, raise compact.keyless.max; if not, remove compact from the topic's"
        " cleanup.policy."
    )
