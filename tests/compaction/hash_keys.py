"""The hash key and the fingerprint of tests.

They need no Hypothesis, which the environment of Airflow's tests lacks.
"""

from __future__ import annotations

from typing import Final

from tierfold.compaction.model.hash_key import HashKey

HASH_KEY: Final = HashKey(0x0706050403020100, 0xFFFEFDFCFBFAF9F8)
"""That of any run."""

FINGERPRINT: Final = 0xC0FFEE0123
"""That of any catalog."""
