"""Why partitions are refused: each reason once, with the partitions that it stops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from rich.console import Console
from rich.text import Text

from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.wording import counted
from tierfold.jobs.reports.tables import ROWS_MAX, print_omitted, print_paragraph

NAMED_MAX: Final = 3
"""Maximum number of partitions or topics that a line names; it counts the others."""


class Refusable(Protocol):
    """What every partition of a result has that may be refused."""

    @property
    def key(self) -> PartitionKey:
        """The partition."""

    @property
    def refusals(self) -> tuple[RefusalPart, ...]:
        """Why it is refused; none: it is not."""


def see_below(partition: Refusable, otherwise: str) -> str:
    """Return the codes of its refusals for a row of a table; `otherwise` if there are none."""
    codes = ", ".join(dict.fromkeys(part.code for part in partition.refusals))
    return f"see below: {codes}" if codes else otherwise


def print_refusals(console: Console, partitions: Sequence[Refusable], *, of_all: int) -> None:
    """Print each refusal on a line that is not folded, so that its commands can be pasted.

    Those that stop most come first. `of_all`: how many partitions the result has.
    """
    lines = list(refusal_lines(partitions, of_all))
    for line in lines[:ROWS_MAX]:
        print_paragraph(console, Text(printable(line), style="red"))
    print_omitted(console, len(lines) - ROWS_MAX)


def refusal_lines(partitions: Sequence[Refusable], of_all: int) -> Iterator[str]:
    """Yield a line for each refusal, with the partitions that it stops."""
    stopped: dict[RefusalPart, list[PartitionKey]] = defaultdict(list)
    for partition in sorted(partitions, key=lambda partition: partition.key):
        for part in dict.fromkeys(partition.refusals):
            stopped[part].append(partition.key)
    # One command may mend several settings of a topic.
    mended: dict[tuple[str, tuple[PartitionKey, ...]], list[RefusalPart]] = defaultdict(list)
    for part, keys in stopped.items():
        mended[part.remedy, tuple(keys)].append(part)
    for (remedy, those), parts in sorted(mended.items(), key=lambda item: -len(item[0][1])):
        details = "; ".join(f"{part.detail.rstrip('.')} [{part.code}]" for part in parts)
        yield f"{in_short(those, of_all)}: {details}. {remedy}".rstrip()


def in_short(keys: Sequence[PartitionKey], of_all: int) -> str:
    """Return the names of a few partitions; of more, how many they are and of which topics.

    `of_all`: how many the result has.
    """
    if len(keys) <= NAMED_MAX:
        return ", ".join(map(str, keys))
    topics = [*dict.fromkeys(key.topic for key in keys)]
    many = counted(len(keys), "partition")
    if len(keys) == of_all:
        return f"all {many}"
    if len(topics) > NAMED_MAX:
        return f"{many} of {counted(len(topics), 'topic')}"
    return f"{many} of {', '.join(topics)}"
