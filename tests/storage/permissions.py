"""Takes root's permissions away for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def an_ordinary_user() -> Iterator[None]:
    """Run as a user other than root, whom permissions do not bind."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)
