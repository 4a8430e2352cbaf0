"""Waits for live runs that hold partitions: `--if-held wait`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final, Protocol

from tierfold.compaction.commits.holders import Holder, IfHeld
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Listed, Scope
from tierfold.jobs.context.sign_of_life import SignOfLife
from tierfold.jobs.context.stopping import is_stopping
from tierfold.jobs.pipeline.partition_report import LEFT
from tierfold.storage.clock import now_ms, pause

POLL_MS: Final = 10_000
"""How often a run that waits reads the rows and the signs of life."""

_STEP_MS: Final = 500
"""How often it looks for a signal meanwhile."""


class _Ended(Protocol):
    """What both `PartitionReport` and `PartitionVacuum` have."""

    @property
    def key(self) -> PartitionKey: ...

    @property
    def outcome(self) -> str: ...

    @property
    def held_by(self) -> Holder | None: ...


def waiting(context: RunContext, ended: Iterable[_Ended]) -> list[PartitionKey]:
    """Return the partitions that were left to other runs, if this run waits for them."""
    if context.if_held is not IfHeld.WAIT:
        return []
    return [one.key for one in ended if one.outcome == LEFT and one.held_by is not None]


def freed(
    context: RunContext, keys: Collection[PartitionKey], verb: str, until_ms: int | None = None
) -> list[PartitionKey]:
    """Wait until no live run holds one of these partitions; return all that none holds then.

    None, if a signal came or the time is `until_ms`, epoch milliseconds of this machine. Outside of
    `deferred`, a signal raises Stopped.
    """
    if not keys:
        return []
    with SignOfLife(context, verb) as life:
        while not (is_stopping() or (until_ms is not None and now_ms() >= until_ms)):
            try:
                held = life.not_claimed(context.catalog.look(keys).states)
            except TierfoldError:
                return [*keys]  # Its next plan says why.
            if free := [key for key in keys if key not in held]:
                return free
            for _ in range(POLL_MS // _STEP_MS):
                if not is_stopping():
                    pause(_STEP_MS)
    return []


def freed_scope(
    context: RunContext,
    keys: Collection[PartitionKey],
    verb: str,
    before: Scope,
    until_ms: int | None,
) -> Scope | None:
    """Wait as `freed` does; return the scope with those of its result that the tier still has.

    None: there is none, or the tier cannot be listed.
    """
    left = set(keys)
    while free := freed(context, left, verb, until_ms):
        try:
            there = set(context.tier.partitions()).intersection(free)
        except TierfoldError:
            return None
        if there:
            listed = frozenset(Listed(key.topic, key.partition, key.topic_id) for key in there)
            return replace(before, topics=("*",), partitions=("*",), listed=listed)
        left.difference_update(free)
    return None
