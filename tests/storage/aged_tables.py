"""Makes Delta tables and their files older than a test can wait."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

HOUR_MS: Final = 3_600_000


def superseded(table: Path, *, hours: int) -> None:
    """Backdate the removal of superseded files by `hours`, and every file by two months."""
    for commit in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if "remove" in action:
                action["remove"]["deletionTimestamp"] -= hours * HOUR_MS
        commit.write_text("\n".join(map(json.dumps, actions)))
    for file in table.rglob("*.parquet"):
        backdated(file, hours=60 * 24)


def backdated(file: Path, *, hours: int) -> None:
    at_s = file.stat().st_mtime - hours * 3600
    os.utime(file, (at_s, at_s))


def cut_soon(table: Path, *, hours: int) -> int:
    """Backdate all commits up to the newest checkpoint; return its version."""
    log = table / "_delta_log"
    newest = max(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet"))
    for commit in log.glob("*.json"):
        if int(commit.stem) <= newest:
            backdated(commit, hours=hours)
    return newest
