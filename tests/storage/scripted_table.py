"""The real Delta table, under a script: its calls, and the steps that delta-rs takes within one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.storage.call_scripts import Script
from tierfold.storage.catalog import log_boundary
from tierfold.storage.catalog.delta_tables import DeltaFolder, DeltaVersion, TableLayout

_STEPS: Final[dict[str, tuple[Any, str]]] = {
    "open": (DeltaFolder, "_open"),
    "create": (DeltaTable, "create"),
    "superseded": (DeltaFolder, "_superseded"),
    "is_kept": (log_boundary, "is_kept"),
}


class ScriptedTable(DeltaFolder):
    """A table, which a catalog opens by `partial(ScriptedTable, script)`.

    Each version that `past` yields is a call of `past`; `replace` writes on top of a version.
    """

    def __init__(self, script: Script, uri: str, layout: TableLayout) -> None:
        super().__init__(uri, layout)
        self._script = script
        script.attach(self, super(), ("read", "append", "sync", "clean_up", "exists"))

    def past(self, predicate: str) -> Iterator[pa.Table]:
        for rows in super().past(predicate):
            with self._script.during("past", predicate):
                yield rows

    def newest(self) -> DeltaVersion:
        with self._script.during("newest"):
            version = super().newest()
        self._script.attach(version, version, ("replace",))
        return version


@contextmanager
def scripted_steps(script: Script) -> Iterator[None]:
    """Inside this block the steps of every table in this process are under the script.

    open: whether the table is there; create: its first version; superseded: a search for old data
    files; is_kept: whether a commit counts that was just written.
    """
    with pytest.MonkeyPatch.context() as patch:
        for step, (owner, name) in _STEPS.items():
            patch.setattr(owner, name, script.around(step, getattr(owner, name)))
        yield
