"""Run malformed inputs of one parser in a process that they may kill.

The child writes the number of every input to a shared file. Its memory is limited, and so is the
processor time per input: a parser that exceeds it dies with a traceback. Elapsed time is not
limited, because the machine may be slow and the process may be paused.

    python -m tests.faults.malformed.malformed_child PARSER SEED FIRST END FILE
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import mmap
import resource
import signal
import struct
import sys
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.malformed.malformed_outcome import Outcome, Parser
from tests.faults.malformed.malformed_parsers import PARSERS

CPU_SECONDS_MAX: Final = 20.0
"""Processor time per input; the slowest input takes a thousandth of it."""
MEMORY_BYTES: Final = 256 * 2**20
"""Memory that a parser may allocate after the warm-up."""
DECOMPRESSING_MEMORY_BYTES: Final = 2**30
"""The same for parsers that may allocate the claimed size of a payload several times."""
FAILURES_MOST: Final = 5
_WARMING_INPUTS: Final = 400
NUMBER: Final = struct.Struct("<q")


@dataclass(slots=True, kw_only=True)
class Findings:
    """The results of a child."""

    inputs: int = 0
    refused: int = 0
    right: int = 0
    slowest_s: float = 0.0
    slowest: int = -1
    """The number of the slowest input."""
    peak_bytes: int = 0
    """Peak memory beyond that after the warm-up."""
    failures: list[str] = field(default_factory=list)


def tried(parser: Parser, seed: int, span: range, file: Path) -> Findings:
    """Check the inputs in `span`; stops after a few failures."""
    _warm(parser, seed)
    before_bytes = _peak_bytes()
    _limit(DECOMPRESSING_MEMORY_BYTES if parser.decompresses else MEMORY_BYTES)
    found, outcomes = Findings(), Counter[Outcome]()
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), NUMBER.size) as shared:
        for number in span:
            NUMBER.pack_into(shared, 0, number)
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_MAX)
            began = time.process_time()
            try:
                outcomes[parser.tried(seed, number)] += 1
            except Exception:  # noqa: BLE001 - whatever else a parser raises is a failure
                found.failures.append(f"{replay(parser.name, seed, number)}\n{_short_trace()}")
            took = time.process_time() - began
            if took > found.slowest_s:
                found.slowest_s, found.slowest = took, number
            found.inputs += 1
            if len(found.failures) >= FAILURES_MOST:
                break
    signal.setitimer(signal.ITIMER_PROF, 0)
    found.refused, found.right = outcomes[Outcome.REFUSED], outcomes[Outcome.RIGHT]
    found.peak_bytes = _peak_bytes() - before_bytes
    return found


def replay(name: str, seed: int, number: int) -> str:
    """Return the command that replays one input."""
    return (
        "python -m tests.faults.malformed.malformed_run"
        f" --parser '{name}' --seed {seed} --replay {number}"
    )


def _warm(parser: Parser, seed: int) -> None:
    """Compile kernels and let libraries allocate; ignore failures, which happen again later."""
    for number in range(-_WARMING_INPUTS, 0):
        with contextlib.suppress(Exception):
            parser.tried(seed, number)


def _limit(memory_bytes: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _short_trace() -> str:
    text = traceback.format_exc(limit=-6)
    return text if len(text) < 4000 else f"{text[:2000]} … {text[-2000:]}"


def main() -> None:
    """Print the findings as one line of JSON."""
    name, seed, first, end, file = sys.argv[1:]
    found = tried(PARSERS[name], int(seed), range(int(first), int(end)), Path(file))
    sys.stdout.write(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
