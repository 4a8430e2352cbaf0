"""The simulated stores and catalog pass the contract tests of the real ones."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.faults.simulation.environment_bucket import BucketObjects, VirtualBucket
from tests.faults.simulation.environment_store import Objects, VirtualStore
from tests.faults.simulation.environment_table import TableLog, VirtualTable
from tests.faults.simulation.simulation_scheduler import Actor, FaultProfile, Scheduler
from tests.storage.catalog_contract import CatalogContract
from tests.storage.object_store_contract import MIB, ObjectStoreContract
from tierfold.storage.catalog.catalog import Catalog

QUIET = FaultProfile(faults=0.0, switches=0.0, leaps=0.0)


def a_witness() -> Actor:
    return Actor(name="witness", scheduler=Scheduler(Random(1), QUIET), is_witness=True)


def nothing(*_: object) -> None:
    """Ignore the call."""


class TestVirtualStore(ObjectStoreContract):
    @pytest.fixture(autouse=True)
    def _in_memory(self) -> None:
        witness = a_witness()
        self.store = VirtualStore(
            witness,
            Objects(now_ms=lambda: witness.scheduler.now_ms, removed=nothing, deletes=nothing),
        )

    def let_time_pass(self) -> None:
        self.store.actor.scheduler.now_ms += 1000


class TestVirtualBucket(ObjectStoreContract):
    unfinished_bytes = MIB

    @pytest.fixture(autouse=True, params=[True, False])
    def _in_memory(self, request: pytest.FixtureRequest) -> None:
        witness = a_witness()
        self.store = VirtualBucket(
            witness,
            BucketObjects(
                now_ms=lambda: witness.scheduler.now_ms,
                removed=nothing,
                deletes=nothing,
                is_aws=request.param,
                part_bytes=MIB,
            ),
        )

    def let_time_pass(self) -> None:
        self.store.actor.scheduler.now_ms += 1000


def opener() -> Callable[..., VirtualTable]:
    """Return a function that always opens the same table in memory."""
    log = TableLog(changed=nothing, now_ms=lambda: 0)
    return lambda uri, layout: VirtualTable(a_witness(), log, uri, layout)


class TestVirtualCatalog(CatalogContract):
    @pytest.fixture
    def catalog(self) -> Catalog:
        return Catalog("virtual:", open_table=opener())
