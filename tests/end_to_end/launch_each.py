"""Runs many launchers, each in a process of its own, without importing everything each time.

    python tests/end_to_end/launch_each.py COMMANDS.json RESULTS.json

COMMANDS.json holds a list of command lines, `[["jobs/plan_job.py", "TIER", …], …]`. RESULTS.json
gets one entry for each: its exit code and all that it printed. spark-submit starts a script the
same way: with the same Python, and with its own environment variables.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

from tierfold.jobs import reports, verbs


def modules_of_verbs() -> list[str]:
    """The modules that verbs import when they run."""
    packages = (verbs, reports)
    return [
        module.name
        for package in packages
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]


def launched(command: list[str]) -> dict[str, Any]:
    """Run `python COMMAND…` in a child of this process."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            os._exit(_code_of(command))
        _, status = os.waitpid(child, 0)
        output.seek(0)
        return {"code": os.waitstatus_to_exitcode(status), "output": output.read()}


def _code_of(command: list[str]) -> int:
    sys.argv = command
    sys.path[0] = str(Path(command[0]).parent.resolve())
    try:
        runpy.run_path(command[0], run_name="__main__")
        code = 0
    except SystemExit as left:
        code = int(left.code or 0)
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    commands = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    # Import everything that the launchers and verbs import once, before the first child starts.
    for module in ("tierfold.jobs.cli.commands", *modules_of_verbs()):
        importlib.import_module(module)
    found = [launched(command) for command in commands]
    Path(sys.argv[2]).write_text(json.dumps(found), encoding="utf-8")
