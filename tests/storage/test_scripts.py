"""An empty script changes nothing; a rule acts at its step; a killed process does no more."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path

import pytest

from tests.storage.call_scripts import Killed, Rule, Script, at, changes, fails, instead, killed
from tests.storage.catalog_contract import CatalogContract
from tests.storage.object_store_contract import ObjectStoreContract
from tests.storage.scripted_catalog import ScriptedCatalog
from tests.storage.scripted_store import ScriptedStore
from tests.storage.scripted_table import ScriptedTable
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.local_store import LocalStore


class TestScriptedStore(ObjectStoreContract):
    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path) -> None:
        self.store = ScriptedStore(tmp_path)

    def test_a_worker_gets_the_store_without_its_script(self, tmp_path: Path) -> None:
        assert pickle.loads(pickle.dumps(self.store)) == LocalStore(tmp_path)  # noqa: S301


class TestScriptedCatalog(CatalogContract):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        table = partial(ScriptedTable, Script())
        return ScriptedCatalog(str(tmp_path / "catalog"), Script(), table)


def numbers(*rules: Rule) -> tuple[list[object], Script]:
    """What three numbered writes left, each refused one as its error."""
    script, left = Script(*rules), list[object]()

    def wrote(number: int) -> int:
        left.append(number)
        return number

    write = script.around("write", wrote)
    for number in range(3):
        try:
            left.append(f"got {write(number)}")
        except UnreadableObject as error:
            left.append(error.what)
    return left, script


def test_a_rule_acts_at_its_own_step() -> None:
    answered = [0, "got 0", 1, "got 1", 2, "got 2"]
    assert numbers()[0] == numbers(fails("read"), fails("write 4"))[0] == answered
    assert numbers(fails("write 2"))[0] == [0, "got 0", "no answer", 2, "got 2"]
    assert numbers(fails("write 2", is_done=True))[0] == [0, "got 0", 1, "no answer", 2, "got 2"]
    only_two = fails("write").where(lambda number: number == 2)
    assert numbers(only_two)[0] == [0, "got 0", 1, "got 1", "no answer"]
    negated = changes("write", lambda call: -call.result)
    left, script = numbers(instead("write 1", lambda _: 7), negated)
    assert left == ["got -7", 1, "got -1", 2, "got -2"]
    assert script.results("write") == [-7, -1, -2]


def test_a_killed_process_does_no_more() -> None:
    done: list[str] = []
    script = Script(at("write 1", lambda: done.append("first")), killed("write 2", is_done=True))
    write = script.around("write", lambda: done.append("write"))
    write()
    for _ in range(2):
        with pytest.raises(Killed):
            write()
    assert done == ["first", "write", "write"]
    assert [str(call) for call in script.calls] == ["write 1", "write 2"]
