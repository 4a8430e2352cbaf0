"""Runs `python -m tierfold …` where permissions apply and files cannot grow beyond a limit.

    python -m tests.jobs.confined FILE_BYTES_MOST ARGUMENTS…

Root may read every file, so the process gives up that right for good. A file size limit stands for
a disk that is full for a large object but not for a small one.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from typing import Final

PR_CAPBSET_DROP: Final = 24
CAP_DAC_OVERRIDE: Final = 1
CAP_DAC_READ_SEARCH: Final = 2


def confine(file_bytes_most: int) -> None:
    """Takes effect with the next program that this process becomes."""
    kernel = ctypes.CDLL(None, use_errno=True)
    for right in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        kernel.prctl(PR_CAPBSET_DROP, right, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_most, file_bytes_most))


if __name__ == "__main__":
    confine(int(sys.argv[1]))
    os.execv(sys.executable, [sys.executable, "-m", "tierfold", *sys.argv[2:]])
