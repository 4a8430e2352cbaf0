"""Side files that a broker wrote, and what Kafka's own classes read in them.

`golden_side_files/` holds one remote segment of Kafka 4.3.0 without its `.log`, and in
`kafka_reads.jsonl` each entry as `OffsetIndex`, `TimeIndex`, `TransactionIndex`,
`ProducerStateManager` and `LeaderEpochCheckpointFile` gave it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

START_OFFSET = 40261

_FOLDER = Path(__file__).parent / "golden_side_files"
_NAME = f"{START_OFFSET:020d}-rl6pHZECRGa_ZZ0E-cVE6g"


def golden(suffix: str) -> bytes:
    return (_FOLDER / f"{_NAME}.{suffix}").read_bytes()


def kafka_reads(kind: str) -> list[dict[str, Any]]:
    lines = (_FOLDER / "kafka_reads.jsonl").read_text(encoding="ascii").splitlines()
    return [entry for line in lines if (entry := json.loads(line))["t"] == kind]
