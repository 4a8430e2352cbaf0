"""The simulation can fail: bugs that the protocol is there to exclude, brought back one by one.

How many seeds each takes is written down in docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

Break = Callable[[pytest.MonkeyPatch], None]
