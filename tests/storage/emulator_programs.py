"""Which emulators of object stores are installed, by `make emulators`, below build/emulators."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
EMULATORS: Final = ROOT / "build" / "emulators"
VERSITYGW: Final = EMULATORS / "bin" / "versitygw"
NODE: Final = EMULATORS / "node_modules" / ".bin" / "node"
AZURITE: Final = EMULATORS / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def missing_emulators() -> tuple[str, ...]:
    """The emulators that are not installed; where they are required, that is an error instead."""
    needed = {"versitygw": (VERSITYGW,), "azurite": (NODE, AZURITE)}
    missing = tuple(
        name for name, paths in needed.items() if not all(path.exists() for path in paths)
    )
    if missing and os.environ.get("TIERFOLD_REQUIRE_EMULATORS") == "true":
        raise RuntimeError(f"not installed: {', '.join(missing)}; run make emulators")
    return missing
