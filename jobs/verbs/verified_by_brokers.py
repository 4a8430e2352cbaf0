"""What `verify` finds of a partition that brokers serve: by their metadata, and as a consumer.

    half published                        a note: `compact --publish` goes on
    brokers contradict the row            a corruption: consumers may lack offsets already
    brokers have what the row says        a canary reads a sample through them, and compares
    a commit changed the row meanwhile    a note, whatever was read

`compaction.publishing.next_step` compares, and `jobs.publishing.canary` reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.wording import counted
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Copy, Done, Purpose, Refused, Send
from tierfold.compaction.verification.canary import (
    Agreed,
    CanaryMode,
    CannotRead,
    Counted,
)
from tierfold.jobs.context.run_context import RunContext


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundByBrokers:
    """What is wrong, and what else there is to say; sentences."""

    corruptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def found_by_brokers(context: RunContext, look: Look) -> FoundByBrokers:
    """Compare what brokers name with the row, and read a sample through them.

    Raises Stopped after a signal.
    """
    match step := next_step(look):
        case Done():
            return _read(context, look)
        case Refused() | Copy() | Send(purpose=Purpose.REPAIR):
            return FoundByBrokers(corruptions=(f"brokers and catalog differ: {step.why}",))
        case _:
            return FoundByBrokers(
                notes=(
                    f"not read through brokers, which do not have all of it yet: {step.why}."
                    " `tierfold compact --publish` goes on",
                )
            )


def _read(context: RunContext, look: Look) -> FoundByBrokers:
    """Read the borders of what was replaced, as after a swap."""
    from tierfold.jobs.publishing.canary import read_canary
    from tierfold.jobs.publishing.canary_errors import canary_error

    if context.cluster is None:
        raise ValueError("without a cluster there is no look at its brokers")
    connection = context.cluster.connection
    result = read_canary(context, connection, look.row, look.log_start, CanaryMode.BORDERS)
    match result:
        case Counted(records=records):
            return FoundByBrokers(notes=(f"{_agree(records)}, without what was dropped",))
        case Agreed(records=records, why=remark):
            return FoundByBrokers(notes=(f"{_agree(records)}; {remark}",))
        case CannotRead(error=error):
            return FoundByBrokers(notes=(f"not read through brokers: {error}",))
    if _has_changed(context, look.row):
        why = "a commit changed the partition while it was read"
        return FoundByBrokers(notes=(f"not read through brokers: {why}",))
    return FoundByBrokers(
        corruptions=(str(canary_error(context, look.row, result, connection.server)),)
    )


def _agree(records: int) -> str:
    return f"{counted(records, 'record')} read through brokers agree with the tier"


def _has_changed(context: RunContext, row: PartitionState) -> bool:
    """Whether another run has changed the row since, as far as it can be read."""
    try:
        newest = context.catalog.look([row.key]).by_key.get(row.key)
    except TierfoldError:
        return True
    return newest is None or newest.commit_id != row.commit_id
