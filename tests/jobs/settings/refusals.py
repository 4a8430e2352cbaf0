"""Asserts that settings are refused, and that the message repeats no secret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from tierfold.compaction.model.errors import BadSettings

CANARY: Final = "Kanarienvogel7Qz"
"""An unlikely word in place of a secret."""


@contextmanager
def refused(
    message: str, *, where: str | None = None
) -> Iterator[pytest.ExceptionInfo[BadSettings]]:
    """Expect BadSettings with this message, at `where` if given, and without `CANARY`."""
    with pytest.raises(BadSettings) as caught:
        yield caught
    assert message in str(caught.value)
    assert where in {None, caught.value.where}
    assert CANARY not in str(caught.value)
