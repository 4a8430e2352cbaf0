"""The compaction strategies of a partition, and what a change means."""

from __future__ import annotations

from typing import Final

from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.model.segments import PartitionState

BY_OFFSET: Final = CompactionStrategy.OFFSET.value


def strategy_name(rules: Rules) -> str:
    """How the catalog names the strategy; under `header` with the header's name: `header=name`."""
    if rules.compaction_strategy is CompactionStrategy.HEADER:
        return f"{rules.compaction_strategy.value}={rules.compaction_strategy_header}"
    return rules.compaction_strategy.value


def named_strategy(name: str) -> tuple[CompactionStrategy, str]:
    """The strategy that `strategy_name` names, and its header; the header is empty for others.

    Raises ValueError for a name that this version does not know.
    """
    strategy, _, header = name.partition("=")
    return CompactionStrategy(strategy), header


def with_strategy(known: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The strategies known so far, each once, and `name` as the latest one."""
    return (*(strategy for strategy in known if strategy != name), name)


def latest_strategy(state: PartitionState) -> str:
    """The strategy of the last round; `offset` where the row names none."""
    return state.strategies[-1] if state.strategies else BY_OFFSET


def strategy_change(state: PartitionState | None, rules: Rules) -> tuple[str, ...]:
    """A note where the strategy is not that of the last round; empty: it is."""
    if state is None or state.cleaner_offset is None:
        return ()
    last, name = latest_strategy(state), strategy_name(rules)
    if last == name:
        return ()
    return (
        f"the compaction strategy was {last} and is {name} now: it decides between the records"
        " that are still there, what is gone stays gone",
    )
