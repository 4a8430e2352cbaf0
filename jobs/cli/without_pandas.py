"""Keeps pandas out of a command's process, unless Spark imports it there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa


class _NoPandas:
    """A finder for `sys.meta_path` that makes an import of pandas fail, as if not installed."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`, whose import would cost some milliseconds."""
        if fullname == "pandas":
            raise ModuleNotFoundError("left out, see tierfold.jobs.cli.without_pandas")
        return None


def run_arrow_without_pandas() -> None:
    """Make pyarrow run without pandas in this process, unless pandas is imported already.

    pyarrow tries to import pandas once, at its first scalar, only to recognise pandas's values. The
    import takes half a CPU second, as long as the rest of `tierfold status`. Methods that return
    pandas's values, such as `Table.to_pandas`, still import it.
    """
    if "pandas" in sys.modules:
        return
    no_pandas = _NoPandas()
    sys.meta_path.insert(0, no_pandas)
    try:
        pa.scalar(None)
    finally:
        sys.meta_path.remove(no_pandas)
