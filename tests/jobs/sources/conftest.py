"""Skips the tests of emulators that are not installed; `tests/conftest.py` reports them."""

from __future__ import annotations

from tests.storage.emulator_programs import missing_emulators

collect_ignore = [f"test_catalog_tables_{emulator}.py" for emulator in missing_emulators()]
