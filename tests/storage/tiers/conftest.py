"""Leaves out tests of emulators that are not installed, as `tests/conftest.py` says; fixtures."""

from __future__ import annotations

import pytest

from tests.storage.emulator_programs import missing_emulators
from tests.storage.emulators import IDENTITY, moto

collect_ignore = [f"test_{emulator}.py" for emulator in missing_emulators()]


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """The credentials of the S3 emulators, in the environment."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def s3_endpoint(identity: None) -> str:
    """The endpoint of moto, whose credentials are in the environment."""
    return moto()
