"""The archive that `make dist` builds, built once for all tests, which use its kernels.

    python -m tests.built_archive

`make test` runs this once per environment and sets `NUMBA_CPU_NAME=generic`, as the archive's
executors do. So the kernels are compiled once; else the tests' processes compile them again.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Final

from tests.tidy.source_tree import PRODUCT, ROOT

FOLDER: Final = ROOT / "build" / "cluster"
SCRIPT: Final = ROOT / "scripts" / "cluster_archive.py"
KERNELS: Final = frozenset({".nbc", ".nbi"})
"""The suffixes of numba's files: machine code, and an index of it."""


def built_archive() -> Path:
    """Return the archive of the code and of the installed packages as they are now."""
    product = (path for folder in PRODUCT for path in (ROOT / folder).rglob("*.*"))
    files = (path for path in product if path.is_file() and path.parent.name != "__pycache__")
    # pip changes the folder whenever it installs a package.
    sources = (SCRIPT, Path(sysconfig.get_path("purelib")), *files)
    newest = max(path.stat().st_mtime_ns for path in sources)
    if not any(path.stat().st_mtime_ns > newest for path in FOLDER.glob("*.tar.gz")):
        build = [sys.executable, SCRIPT, FOLDER]
        subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return max(FOLDER.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime_ns)


def take_kernels(archive: Path) -> None:
    """Put the kernels of the archive beside their sources, which are those that it was made of."""
    with tarfile.open(archive) as packed:
        for entry in packed:
            if entry.name.startswith("tierfold/") and Path(entry.name).suffix in KERNELS:
                packed.extract(entry, ROOT, filter="data")


if __name__ == "__main__":
    take_kernels(built_archive())
