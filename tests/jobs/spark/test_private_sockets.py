"""Spark's processes listen in private folders, which are deleted when the processes end."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.processes import awaited
from tests.jobs.commands import ROOT
from tests.jobs.other_users import kept_private
from tierfold.jobs.spark.private_sockets import socket_folder
from tierfold.jobs.spark.session import TASKS_PER_CORE


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_a_folder_is_the_owners_alone_whatever_the_umask(umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = Path(socket_folder())
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    # The name of Spark's socket takes 42 bytes, the slash one.
    assert len(str(folder)) + 43 <= 107


@pytest.mark.soak
@pytest.mark.jvm
def test_no_other_user_connects_to_a_session_and_it_leaves_nothing(tmp_path: Path) -> None:
    first, answer = tmp_path / "first", tmp_path / "answer"
    running = subprocess.Popen(
        [sys.executable, "-m", "tests.jobs.socket_session", answer, ROOT / "sample"], cwd=ROOT
    )
    try:
        found = awaited("its sockets", lambda: _answer(first, running))
        folders = Path(found["driver"]), Path(found["worker"])
        assert found["records"] > 0
        # No setting of this session is given, as in a notebook.
        assert found["tasks"] == TASKS_PER_CORE * (os.cpu_count() or 1)
        sockets = [[str(path) for path in folder.glob(".*.sock")] for folder in folders]
        # The driver's folder: the accumulators' server, and the daemons that planned the read.
        assert len(sockets[0]) > 1
        assert len(sockets[1]) == 1
        assert all(kept_private(socket) for socket in (*sockets[0], *sockets[1]))
        first.unlink()
        assert awaited("a session of others", lambda: _answer(answer, running))["others"] == 3
    finally:
        running.terminate()
        running.wait()
    awaited("their end", lambda: None if any(folder.exists() for folder in folders) else True)


def _answer(file: Path, running: subprocess.Popen[bytes]) -> dict[str, str | int] | None:
    assert running.poll() is None
    return json.loads(file.read_text()) if file.exists() and file.stat().st_size else None
