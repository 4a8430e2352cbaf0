"""A command imports only the packages that it needs, so that it starts quickly."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import Ran, in_own_process, tierfold
from tests.jobs.elections import known, old_history
from tests.jobs.tiers import sample_copy
from tierfold.jobs.cli.commands import tierfold as verbs
from tierfold.jobs.cli.without_mllib import start_spark_without_mllib

HEAVY: Final = frozenset(
    {
        *("confluent_kafka", "delta", "deltalake", "llvmlite", "numba", "numpy", "pandas", "py4j"),
        *("pyarrow", "pyspark"),
    }
)
"""Each takes at least a twentieth of a CPU second to import; all together take over one."""

COMMAND: Final = """
import runpy, sys
code = 0
try:
    runpy.run_module("tierfold", run_name="__main__", alter_sys=True)
except SystemExit as left:
    code = left.code
print("imported:", *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
sys.exit(code)
"""

NO_FINDER: Final = """
import sys
from tierfold.jobs.cli.without_pandas import run_arrow_without_pandas
run_arrow_without_pandas()
assert not any(type(finder).__module__.startswith("tierfold") for finder in sys.meta_path)
import pyarrow as pa
assert pa.array([1, 2]).sum().as_py() == 3 and "pandas" not in sys.modules
assert list(pa.array([1, 2]).to_pandas()) == [1, 2] and "pandas" in sys.modules
run_arrow_without_pandas()
assert pa.Table.from_pandas(sys.modules["pandas"].DataFrame({"a": [1]})).num_rows == 1
"""


def ran(*arguments: str | Path) -> tuple[Ran, set[str]]:
    """The command in a fresh interpreter, and the heavy packages that it has imported."""
    done = in_own_process(sys.executable, "-c", COMMAND, *arguments)
    said, _, imported = done.stderr.rpartition("imported:")
    assert imported, said
    return done, HEAVY & set(imported.split())


@pytest.mark.parametrize("verb", ["", *verbs.commands])
def test_help_imports_nothing_heavy(verb: str) -> None:
    done, heavy = ran(*filter(None, [verb]), "--help")
    assert (done.code, heavy) == (0, set())
    assert done.stdout.startswith("Usage: ")


def test_a_wrong_option_imports_nothing_heavy() -> None:
    done, heavy = ran("status", "tier", "--sett", "x=y")
    assert (done.code, heavy) == (2, set())


def test_help_lists_every_verb_by_the_first_sentence_of_its_own_help() -> None:
    listed = " ".join(tierfold("--help").stdout.partition("Commands:")[2].split())
    for name, verb in verbs.commands.items():
        assert verb.help is not None
        sentence = " ".join(verb.help.partition("\n\n")[0].split())
        assert f"{name} {sentence}" in listed


@pytest.fixture(params=["sample", "with a catalog"])
def tier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The sample, or a tier whose catalog holds a row; all segments are complete."""
    if request.param == "sample":
        return sample_copy(tmp_path / "tier")
    old_history(tmp_path / "tier")
    known(tmp_path / "tier")
    return tmp_path / "tier"


@pytest.mark.parametrize(
    "arguments", [("status",), ("plan", "--set", "cleanup.policy=compact")], ids=" ".join
)
def test_status_and_plan_import_what_reads_the_catalog_and_no_more(
    arguments: tuple[str, ...], tier: Path
) -> None:
    verb, *options = arguments
    done, heavy = ran(verb, tier, *options)
    assert done.code == 0, done.stdout
    assert heavy == {"deltalake", "numpy", "pyarrow"}


def test_status_imports_the_client_of_brokers_only_where_some_are_named(tier: Path) -> None:
    nothing_there = ("--bootstrap-server", "127.0.0.1:1", "--command-config", tier / "c.properties")
    (tier / "c.properties").write_text("request.timeout.ms=1000\n")
    done, heavy = ran("status", tier, *nothing_there)
    assert done.code == 3
    assert "confluent_kafka" in heavy


def test_arrow_goes_without_pandas_until_it_is_needed() -> None:
    done = in_own_process(sys.executable, "-c", NO_FINDER)
    assert (done.code, done.stderr) == (0, "")


@pytest.mark.parametrize("own", ["", "-Xss1m -Dspark.sql.extensions.test.loadFromCp=true"])
def test_a_command_starts_spark_without_mllib_unless_the_user_wants_it(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", own)
    start_spark_without_mllib()
    # The JVM takes the last value of a property.
    assert os.environ["SPARK_SUBMIT_OPTS"].split() == [
        "-Dspark.sql.extensions.test.loadFromCp=false",
        *own.split(),
    ]
