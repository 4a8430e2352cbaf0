"""The broker that asks for logins and certificates, and whose metadata topic tests damage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.brokers.secured import SecuredCluster


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A broker with each kind of listener; its last tests damage its metadata topic."""
    with SecuredCluster(tmp_path_factory.mktemp("secured")) as cluster:
        cluster.add_scram_user()
        yield cluster
