"""Runs of the command whose calls to the real store and catalog are under a script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.storage.call_scripts import Rule, Script
from tests.storage.scripted_catalog import ScriptedCatalog
from tests.storage.scripted_store import ScriptedStore
from tierfold.jobs.api import opening
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.verbs import vacuum as vacuum_job
from tierfold.jobs.verbs import vacuum_survey
from tierfold.storage.tiers.aiven.aiven_tier import AivenTier
from tierfold.storage.tiers.layout_options import LayoutOptions
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.locations import location_of
from tierfold.storage.tiers.store_options import StoreOptions


@contextmanager
def scripted(*rules: Rule) -> Iterator[Script]:
    """The script of the command's runs inside this block; `vacuum` does one thing at a time."""
    script = Script(*rules)

    def opened_so(
        tier_uri: str,
        catalog_uri: str | None,
        now: int | None,
        options: StoreOptions,
        layout: LayoutOptions,
        *,
        may_be_new: bool = False,
    ) -> RunContext:
        context = run_context(
            tier_uri, catalog_uri, now, options, layout, may_be_new=may_be_new
        )
        assert isinstance(context.tier, LocalTieredStorage | AivenTier)
        store = ScriptedStore(location_of(tier_uri, of="tier").folder, script)
        return replace(
            context,
            tier=replace(context.tier, store=store),
            catalog=ScriptedCatalog(context.catalog_uri, script),
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "run_context", opened_so)
        for module in (vacuum_job, vacuum_survey):
            patch.setattr(module, "READERS", 1)
        yield script
