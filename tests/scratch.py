"""Where tests put thousands of small files: in memory if the machine has such a folder."""

from __future__ import annotations

import os
from typing import Final

SCRATCH: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""The `dir` of `tempfile`: a round spends most of its time syncing files to the disk."""
