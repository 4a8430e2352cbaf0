"""One parser under malformed input, in a process that may die of it.

Before each input its number is written where the parent finds it. Whoever asks for more memory than
any such input is worth gets none; whoever computes for too long is shown, in Python and beneath it,
and killed: by its own processor time, for a machine may be slow and a process may be halted.

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
"""Of one input; the slowest takes a thousandth of it."""
ROOM_BYTES: Final = 256 * 2**20
"""What a parser may ask for beyond what it had after it was warm."""
DECOMPRESSING_ROOM_BYTES: Final = 2**30
"""The same, where a payload may hold what is believed of it, several times over."""
FAILURES_MOST: Final = 5
_WARMING_INPUTS: Final = 400
NUMBER: Final = struct.Struct("<q")


@dataclass(slots=True, kw_only=True)
class Told:
    """What a child found."""

    inputs: int = 0
    refused: int = 0
    right: int = 0
    slowest_s: float = 0.0
    slowest: int = -1
    """Which input that was."""
    peak_bytes: int = 0
    """Memory in use beyond what there was when all was warm."""
    failures: list[str] = field(default_factory=list)


def tried(parser: Parser, seed: int, span: range, file: Path) -> Told:
    """Judges the inputs of a span, and stops after a few failures."""
    _warm(parser, seed)
    before_bytes = _peak_bytes()
    _limit(DECOMPRESSING_ROOM_BYTES if parser.decompresses else ROOM_BYTES)
    told, outcomes = Told(), Counter[Outcome]()
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), NUMBER.size) as shared:
        for number in span:
            NUMBER.pack_into(shared, 0, number)
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_MAX)
            begun = time.process_time()
            try:
                outcomes[parser.tried(seed, number)] += 1
            # Whatever it is, it is no clear error.
            except Exception:  # noqa: BLE001
                told.failures.append(f"{replay(parser.name, seed, number)}\n{_short_trace()}")
            took = time.process_time() - begun
            if took > told.slowest_s:
                told.slowest_s, told.slowest = took, number
            told.inputs += 1
            if len(told.failures) >= FAILURES_MOST:
                break
    signal.setitimer(signal.ITIMER_PROF, 0)
    told.refused, told.right = outcomes[Outcome.REFUSED], outcomes[Outcome.RIGHT]
    told.peak_bytes = _peak_bytes() - before_bytes
    return told


def replay(name: str, seed: int, number: int) -> str:
    """How to see one input again."""
    return (
        "python -m tests.faults.malformed.malformed_run"
        f" --parser '{name}' --seed {seed} --replay {number}"
    )


def _warm(parser: Parser, seed: int) -> None:
    """Kernels are compiled and libraries have their memory; what fails here will fail again."""
    for number in range(-_WARMING_INPUTS, 0):
        with contextlib.suppress(Exception):
            parser.tried(seed, number)


def _limit(room_bytes: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + room_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _short_trace() -> str:
    text = traceback.format_exc(limit=-6)
    return text if len(text) < 4000 else f"{text[:2000]} … {text[-2000:]}"


def main() -> None:
    """Prints what was found as one line of JSON."""
    name, seed, first, end, file = sys.argv[1:]
    told = tried(PARSERS[name], int(seed), range(int(first), int(end)), Path(file))
    sys.stdout.write(json.dumps(asdict(told)))


if __name__ == "__main__":
    main()
