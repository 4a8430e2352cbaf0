"""The versions of Kafka that this release was compared with."""

from __future__ import annotations

from typing import Final

KAFKA_VERSIONS: Final = ("4.3.0", "4.4.0")
"""Their cleaners clean the same logs as tierfold in `tests/oracle`; ascending. tierfold follows the
newest where they differ (docs/decisions/0002)."""
