"""Labels of topics by owner: `labels = {team = "payments"}` under `[topics."NAME"]`.

Metrics and documents have them. Their names follow the rule of Prometheus' data model, so that
every label reaches it unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.redaction import setting_name

LABELS: Final = "labels"

RESERVED: Final = frozenset(
    {
        *("tier", "verb", "topic", "partition", "outcome", "reason", "remedy"),
        # Prometheus' own, and that of the Pushgateway.
        *("job", "instance", "le", "quantile"),
    }
)
"""Names that metrics have already, or that Prometheus gives."""

_NAME: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,63}")
_VALUE_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class OwnerLabels:
    """The labels of all topics, by tables of which a later one overrides an earlier one."""

    tables: tuple[tuple[str, Mapping[str, str]], ...] = ()
    """A topic or a shell pattern, and its labels."""

    def of(self, topic: str) -> dict[str, str]:
        """Return the labels of a topic, by name; empty: it has none."""
        found: dict[str, str] = {}
        for pattern, labels in self.tables:
            if topic == pattern or fnmatchcase(topic, pattern):
                found |= labels
        return found


NO_LABELS: Final = OwnerLabels()


def labels_of(value: object, where: str) -> dict[str, str]:
    """Parse the labels of one table; raises BadSettings."""
    if not isinstance(value, dict):
        raise BadSettings(
            "labels is not a table", where=where, remedy='Write labels = {team = "payments"}.'
        )
    for name, text in value.items():
        if not _NAME.fullmatch(name) or name in RESERVED:
            is_taken = name in RESERVED
            why = "metrics have it already" if is_taken else "Prometheus allows no such name"
            raise BadSettings(
                f"no label can have the name {setting_name(name)}: {why}",
                where=where,
                remedy="Begin it with a letter, go on with letters, digits and underscores, and"
                f" use none of {', '.join(sorted(RESERVED))}.",
            )
        if not isinstance(text, str) or not 0 < len(text) <= _VALUE_MAX or not text.isprintable():
            raise BadSettings(
                f"the label {name} has a value that is not allowed",
                where=where,
                remedy=f"Give a text of 1 to {_VALUE_MAX} printable characters.",
            )
    return dict(value)
