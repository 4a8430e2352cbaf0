"""The hash key of tests. It needs no Hypothesis, which the environment of Airflow's tests lacks."""

from __future__ import annotations

from typing import Final

from tierfold.compaction.model.hash_key import HashKey

HASH_KEY: Final = HashKey(0x0706050403020100, 0xFFFEFDFCFBFAF9F8)
"""That of any run."""
