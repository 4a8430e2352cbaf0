"""A run whose every call to store and catalog a test sees, and may change or end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, cast

import pytest

from tierfold.jobs.cli import arguments as cli_arguments
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.verbs import vacuum as vacuum_job
from tierfold.jobs.verbs import vacuum_survey
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.object_store import ObjectStore

Call = Callable[[], Any]
EventSource = Callable[[str, Call], Any]
"""Is told of a call by its name, such as `delete 3` for the third, and makes it, or does not."""


class Killed(BaseException):
    """The process is gone: nothing catches it, and nothing that is called afterwards happens."""


@dataclass(slots=True)
class Watch:
    """Sees the calls of one run, in their order."""

    event_source: EventSource
    names: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    is_dead: bool = False

    def around(self, thing: object, *methods: str) -> object:
        """`thing`, its `methods` watched."""

        class Watched:
            def __getattr__(_, name: str) -> Any:  # noqa: N805 - `self` is the watch
                found = getattr(thing, name)
                return self._watched(name, found) if name in methods else found

        return Watched()

    def _watched(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def called(*args: Any, **named: Any) -> Any:
            if self.is_dead:
                raise Killed
            self.counts[name] = self.counts.get(name, 0) + 1
            numbered = f"{name} {self.counts[name]}"
            self.names.append(numbered)
            try:
                return self.event_source(numbered, lambda: method(*args, **named))
            except Killed:
                self.is_dead = True
                raise

        return called


def left_alone(_name: str, call: Call) -> Any:
    """Every call is made."""
    return call()


def at(name: str, event: Callable[[], object]) -> EventSource:
    """Something else happens right before that call."""

    def event_source(called: str, call: Call) -> Any:
        if called == name:
            event()
        return call()

    return event_source


def killed(name: str, *, after: bool = False) -> EventSource:
    """The process ends right before that call, or right after it."""

    def event_source(called: str, call: Call) -> Any:
        if called != name:
            return call()
        if after:
            call()
        raise Killed

    return event_source


def failing(name: str, error: Exception, *, after: bool = False) -> EventSource:
    """That call fails; `after`: it was done, and the answer is lost."""

    def event_source(called: str, call: Call) -> Any:
        if called != name:
            return call()
        if after:
            call()
        raise error

    return event_source


@contextmanager
def watched(event_source: EventSource) -> Iterator[Watch]:
    """Watch the command's runs inside this block; they do one thing at a time."""
    watch = Watch(event_source)

    def opened_so(tier_uri: str, catalog_uri: str | None, now: int | None) -> RunContext:
        context = run_context(tier_uri, catalog_uri, now)
        store = watch.around(context.tier.store, "list", "unfinished", "delete")
        catalog = watch.around(context.catalog, "look", "claim", "commit", "clean_up")
        return replace(
            context,
            tier=LocalTieredStorage(cast(ObjectStore, store)),
            catalog=cast(Catalog, catalog),
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli_arguments, "run_context", opened_so)
        for module in (vacuum_job, vacuum_survey):
            patch.setattr(module, "READERS", 1)
        yield watch
