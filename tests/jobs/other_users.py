"""Another user of this machine who tries to connect to our Unix sockets."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Final

NOBODY: Final = 65534
_CONNECT: Final = """
import os, socket, sys
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except PermissionError:
    print("kept out")
"""


def kept_private(address: str) -> bool:
    """Whether only we may enter a socket's folder; where we are root, another user tries, too."""
    assert stat.S_ISSOCK(Path(address).stat().st_mode)
    found = Path(address).parent.stat()
    is_ours = (stat.S_IMODE(found.st_mode), found.st_uid) == (0o700, os.getuid())
    if os.getuid() != 0:
        return is_ours
    tried = subprocess.run(
        [sys.executable, "-c", _CONNECT, address, str(NOBODY)],
        capture_output=True,
        text=True,
        check=True,
    )
    return is_ours and tried.stdout == "kept out\n"
