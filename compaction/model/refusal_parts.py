"""What is wrong where a partition is refused or fails, for programs and for people.

A partition may be refused for several reasons at once, and one reason may refuse thousands of
partitions: such a reason is the same value for all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.model.errors import TierfoldError

_COMMAND: Final = re.compile(r"`(kafka-[^`]+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalPart:
    """One thing that is wrong, and what to do."""

    code: str
    """Lower case with underscores. Documents have it, so it never changes."""
    detail: str
    """What is wrong, with its value and place; a sentence without its full stop."""
    remedy: str
    """What to do, in sentences."""

    @property
    def sentence(self) -> str:
        """The whole message: the detail and the remedy."""
        return f"{self.detail.rstrip('.')}. {self.remedy}".rstrip()

    @property
    def command(self) -> str:
        """The first command of Kafka's tools in the remedy; empty: it has none."""
        found = _COMMAND.search(self.remedy)
        return "" if found is None else found[1]


def part_of(error: TierfoldError) -> RefusalPart:
    """Return what is wrong and where, and what to do."""
    return RefusalPart(
        code=error.code, detail=f"{error.where}: {error.what}", remedy=error.remedy
    )
