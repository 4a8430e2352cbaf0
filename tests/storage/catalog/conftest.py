"""Places for an empty catalog: a folder, or a bucket of moto's S3 server.

Tests of emulators that are not installed are left out; `tests/conftest.py` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage import emulators
from tests.storage.emulator_programs import missing_emulators
from tests.storage.s3_proxy import Proxy, proxied

collect_ignore = [f"test_catalog_{emulator}.py" for emulator in missing_emulators()]


@pytest.fixture
def bucket_uri(monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a new bucket, which this process and its children can open."""
    endpoint = emulators.moto()
    for name, value in emulators.s3_environment(endpoint).items():
        monkeypatch.setenv(name, value)
    return f"s3://{emulators.new_bucket(endpoint)}"


@pytest.fixture
def proxy() -> Iterator[tuple[Proxy, str]]:
    """A proxy in front of moto's server, and its endpoint."""
    with proxied(emulators.moto()) as running:
        yield running


@pytest.fixture
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of an empty catalog: a folder, unless the test asks for a bucket."""
    if getattr(request, "param", "folder") == "bucket":
        return f"{request.getfixturevalue('bucket_uri')}/tier/_tierfold"
    return str(tmp_path / "catalog")
