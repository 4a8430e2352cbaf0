"""Debian's headless Chromium, as `make chromium` unpacks it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
_UNPACKED: Final = ROOT / "build" / "chromium"
_PROGRAM: Final = _UNPACKED / "usr" / "lib" / "chromium" / "chromium-headless-shell"
_ON_CONSOLE: Final = re.compile(r":CONSOLE[:(].*")


def is_missing() -> bool:
    """Whether it is not unpacked, so that its tests are left out."""
    return not (_UNPACKED / "unpacked").exists()


def opened(page: Path, folder: Path, *arguments: str) -> tuple[str, list[str]]:
    """Open a page; return the document as it is then, and what it wrote to the console.

    `folder`: for the browser's own files. Root has no sandbox, and the page is ours.
    """
    libraries = [str(path.parent) for path in _UNPACKED.glob("usr/lib/*/**/*.so*")]
    ran = subprocess.run(
        [
            _PROGRAM,
            *("--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"),
            *("--virtual-time-budget=20000", f"--user-data-dir={folder}", "--dump-dom"),
            *(*arguments, page.as_uri()),
        ],
        env={**os.environ, "LD_LIBRARY_PATH": ":".join(dict.fromkeys(libraries))},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return ran.stdout, _ON_CONSOLE.findall(ran.stderr)
