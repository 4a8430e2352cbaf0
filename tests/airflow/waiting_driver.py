"""A driver for spark-submit that waits until it is stopped, and records by what."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tierfold.jobs.context.stopping import Stopped, stoppable


def main(folder: Path) -> None:
    """Write `pid` into the folder, wait, then write `stopped`."""
    try:
        with stoppable():
            (folder / "pid").write_text(str(os.getpid()), encoding="utf-8")
            while True:
                time.sleep(0.05)
    except Stopped as stopped:
        (folder / "stopped").write_text(stopped.by, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
