"""The compaction strategies of a partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.model.segments import PartitionState

BY_OFFSET: Final = CompactionStrategy.OFFSET.value


def strategy_name(rules: Rules) -> str:
    """The strategy's name in the catalog; for `header` with the header's name: `header=name`."""
    if rules.compaction_strategy is CompactionStrategy.HEADER:
        return f"{rules.compaction_strategy.value}={rules.compaction_strategy_header}"
    return rules.compaction_strategy.value


def named_strategy(name: str) -> tuple[CompactionStrategy, str]:
    """The strategy that `strategy_name` names, and its header; "": it has none.

    Raises ValueError for a name that this version does not know.
    """
    strategy, _, header = name.partition("=")
    return CompactionStrategy(strategy), header


def with_strategy(known: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The strategies used so far, each once, with `name` as the latest."""
    return (*(strategy for strategy in known if strategy != name), name)


def is_by_version(names: Iterable[str]) -> bool:
    """Whether versions decided in a pass by these strategies, and not offsets alone."""
    return any(name != BY_OFFSET for name in names)


def latest_strategy(state: PartitionState) -> str:
    """The strategy of the last round; `offset` if the row names none."""
    return state.strategies[-1] if state.strategies else BY_OFFSET


def strategy_change(state: PartitionState | None, rules: Rules) -> tuple[str, ...]:
    """A note if the strategy differs from that of the last round; empty: it does not."""
    if state is None or state.cleaner_offset is None:
        return ()
    last, name = latest_strategy(state), strategy_name(rules)
    if last == name:
        return ()
    return (
        f"the compaction strategy was {last} and is {name} now: it decides between the records"
        " that are left, and brings no removed record back",
    )
