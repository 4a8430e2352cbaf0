"""Signs of life of other runs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

HOST = "node-7"


def signs_in(tier: Path) -> list[Path]:
    """Return the signs of a tier's catalog, by name."""
    return sorted((tier / CATALOG_FOLDER / "signs").glob("*"))


def alive(tier: Path, run: str, *, age_s: float = 20) -> Path:
    """Write the sign of a run that gave it `age_s` seconds ago by the store's clock."""
    path = tier / CATALOG_FOLDER / "signs" / f"{run}.1"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"run": run, "verb": "compact", "host": HOST, "process": 31}))
    return aged(path, age_s)


def aged(path: Path, age_s: float) -> Path:
    """Date a sign so many seconds ago, and return it."""
    at_s = time.time() - age_s
    os.utime(path, (at_s, at_s))
    return path
