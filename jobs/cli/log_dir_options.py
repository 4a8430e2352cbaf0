"""`--log-dir`: log directories of brokers, from which segments are read in place of a download."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from tierfold.jobs.cli.options import Verb

_READ: Final = (
    "A broker's log directory on this machine or on executors. A segment whose file is there, with"
    " the same bytes, is read there and not downloaded. Nothing is written there. Repeatable."
)


def _log_dir_option(more: str) -> Callable[[Verb], Verb]:
    return click.option(
        "--log-dir", "log_dirs", multiple=True, metavar="LOGDIR", help=f"{_READ} {more}"
    )


log_dir_option: Final = _log_dir_option(
    "Bytes there that are not in the tier yet count in the dirty ratio."
)
verified_log_dir_option: Final = _log_dir_option(
    "This does not prove its .log object in the tier, only that this was uploaded with these bytes."
    " To prove the objects, leave it out."
)
