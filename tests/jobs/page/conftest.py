"""Leaves the test in Chromium out where it is missing: `make chromium`."""

from __future__ import annotations

from tests.jobs.page import chromium

collect_ignore = ["test_in_chromium.py"] if chromium.is_missing() else []
