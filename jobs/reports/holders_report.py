"""The other runs that had partitions of this one, in one sentence each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from rich.console import Console

from tierfold.compaction.commits.holders import INSIST, Holder
from tierfold.compaction.model.wording import counted
from tierfold.jobs.pipeline.partition_report import FENCED, LEFT

_SHOWN: Final = {LEFT: "left to", FENCED: "taken over by"}
"""Of each outcome, what the rows of a table say instead of the whole reason."""


class HeldByOthers(Protocol):
    """What every partition of `compact` and `vacuum` has."""

    @property
    def outcome(self) -> str:
        """One of the constants of `jobs.pipeline.partition_report`."""

    @property
    def reason(self) -> str:
        """Why, as a sentence."""

    @property
    def held_by(self) -> Holder | None:
        """The other run that has it; None: there is none."""


def shown_reason(partition: HeldByOthers) -> str:
    """Return the reason for a row of a table; short, if a sentence below the table says more."""
    if partition.held_by is None or partition.outcome not in _SHOWN:
        return partition.reason
    run = partition.held_by.run
    return f"{_SHOWN[partition.outcome]} {f'run {run}' if run else 'another run'}"


def print_holders(console: Console, partitions: Iterable[HeldByOthers]) -> None:
    """Print a sentence for each other run."""
    for sentence in holder_sentences(partitions):
        console.print(sentence, style="yellow")


def holder_sentences(partitions: Iterable[HeldByOthers]) -> Iterator[str]:
    """Yield one sentence for each other run, on all partitions that it has."""
    found: dict[tuple[str, str], list[Holder]] = defaultdict(list)
    for partition in partitions:
        if partition.held_by is not None and partition.outcome in _SHOWN:
            found[partition.outcome, partition.held_by.run].append(partition.held_by)
    for (outcome, run), holders in found.items():
        is_one = len(holders) == 1
        are = f"{counted(len(holders), 'partition')} {'is' if is_one else 'are'}"
        were = f"{counted(len(holders), 'partition')} {'was' if is_one else 'were'}"
        if outcome == FENCED:
            yield (
                f"{were} taken over by {holders[0].named}{'' if run else ', which has ended'}:"
                " what this run had not committed is discarded. Run again."
            )
        elif run:
            last = min(holders, key=lambda holder: holder.sign_age_ms or 0)
            yield (
                f"{are} left to {last.named}, which is at work: {last.alive}. Run again later, wait"
                f" for it with --if-held wait, or discard its work with {INSIST}."
            )
        else:
            yield (
                f"{were} changed by another run since this run planned"
                f" {'it' if is_one else 'them'}, and left as"
                f" {'it is' if is_one else 'they are'}. Run again to see what is left."
            )
