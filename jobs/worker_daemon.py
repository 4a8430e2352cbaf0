"""PySpark's worker daemon, silent where Spark hangs up: `python -m jobs.worker_daemon`.

A worker that waits for its next task when the session ends cannot say goodbye over a Unix socket
that is closed already, and PySpark's daemon prints a traceback about it at the end of a good run.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any

from pyspark import daemon


def _said(*words: object, **options: Any) -> None:  # noqa: ANN401 - as `print`
    """`print`, but for the farewell to a closed socket."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        builtins.print(*words, **options)  # noqa: T201 - to where PySpark prints


if __name__ == "__main__":
    daemon.print = _said  # type: ignore[attr-defined]
    daemon.manager()
