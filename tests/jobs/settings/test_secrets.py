"""A secret in the right or the wrong place appears in no output, file or message.

The tests put `CANARY` wherever a secret could be, and search all output and all written files for
it.
"""

from __future__ import annotations

import pickle
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

from tests.jobs.commands import ALWAYS, COMPACT, Ran, in_own_process, tierfold
from tests.jobs.scripted_runs import scripted
from tests.jobs.settings.refusals import CANARY
from tests.jobs.tiers import flip_last_byte, key_of, made_tier, put_updates, updated_tier
from tests.storage.call_scripts import fails
from tierfold.jobs.engines.rows import failure
from tierfold.jobs.pipeline.known_partition import refusal_of
from tierfold.storage.catalog.runs_table import RunsTable

VERBS: Final = ("plan", "compact", "status", "verify")
URIS: Final = (
    f"s3://AKIA:{CANARY}@bucket/tier",
    f"s3://AKIA:{CANARY}/with/slashes@bucket/tier",
    f"abfss://container@account.dfs.core.windows.net/tier?sig={CANARY}",
    f"https://host/tier#{CANARY}",
    f"s3://[{CANARY}@bucket",
    f"file://u:{CANARY}@host/tier",
)
WORDS: Final[dict[str, tuple[str, ...]]] = {
    "an unknown setting": ("--set", f"ssl.keystore.passphrase={CANARY}"),
    "no equals sign": ("--set", f"ssl.keystore.password:{CANARY}"),
    "a space instead of it": ("--set", "ssl.keystore.password", CANARY),
    "a login": ("--set", f'sasl.jaas.login=a.b.Plain required password="{CANARY}";'),
    "a login without its name": ("--set", f'a.b.Plain required password="{CANARY}" user="x";'),
    "an unknown option": (f"--password={CANARY}",),
    "a file from elsewhere": ("--config", f"https://u:{CANARY}@host/tierfold.toml"),
    "an invalid time": ("--now", f"s3://u:{CANARY}@host"),
}
FILES: Final[dict[str, str]] = {
    "a broker's own file": f"ssl.key.password={CANARY}\n",
    "a broker's own table": f'[broker]\nssl.key.password="{CANARY}"\n',
    "an unknown name": f'[broker]\n"ssl.key.passphrase" = "{CANARY}"\n',
    "a topic's unknown name": f'[topics."a"]\n"ssl.key.passphrase" = "{CANARY}"\n',
    "outside of a table": f'"ssl.key.password" = "{CANARY}"\n',
    "an invalid name": f'"password {CANARY}" = 1\n',
    "an invalid name in a table": f'[broker]\n"password {CANARY}" = 1\n',
    "an invalid name of a table": f'[broker]\n"password {CANARY}" = {{}}\n',
    "a string instead of a table": f'broker = "{CANARY}"\n',
    "a string instead of a topic's table": f'[topics]\n"ssl.key.password" = "{CANARY}"\n',
    "below a known name": f'[broker]\n"log.segment.bytes" = {{password = "{CANARY}"}}\n',
    "in a list of a known name": f'[broker]\n"log.cleanup.policy" = [{{a = "{CANARY}"}}]\n',
    "a name twice": f'[broker]\n"x {CANARY}" = 1\n"x {CANARY}" = 2\n',
    "a table twice": f'["x {CANARY}"]\n["x {CANARY}"]\n',
    "an open quote": f'[broker]\n"password" = "{CANARY}\n',
}


def refused(ran: Ran, code: int = 2) -> None:
    assert (ran.code, ran.stdout) == (code, ""), ran
    assert ran.stderr
    assert CANARY not in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("module") / "tier"
    return updated_tier(folder, [key_of("orders")], segments=1)


@pytest.mark.parametrize("uri", URIS)
def test_a_uri_with_a_secret_is_refused_without_showing_it(uri: str, tier: Path) -> None:
    for verb in VERBS:
        refused(tierfold(verb, uri))
        refused(tierfold(verb, tier, "--catalog", uri))
    refused(tierfold("dump", uri), code=3)
    refused(tierfold("dump", "x.log", uri))
    refused(tierfold("config", uri))
    refused(tierfold(uri))


@pytest.mark.parametrize("words", WORDS)
def test_a_refused_argument_is_not_repeated(words: str, tier: Path) -> None:
    for verb in VERBS:
        refused(tierfold(verb, tier, *WORDS[words]))
    refused(tierfold("dump", "x.log", *WORDS[words]))
    if words != "an invalid time":
        refused(tierfold("config", "orders", *WORDS[words]))


@pytest.mark.parametrize("toml", FILES)
def test_a_refused_file_is_not_quoted(toml: str, tier: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(FILES[toml])
    refused(tierfold("plan", tier, "--config", file))
    refused(tierfold("config", "orders", "--config", file))


def test_a_name_is_shown_but_not_its_secret_value(tier: Path) -> None:
    ran = tierfold("plan", tier, *WORDS["an unknown setting"])
    assert "there is no setting 'ssl.keystore.passphrase'" in ran.stderr


def test_a_setting_of_brokers_is_named_without_its_value(tier: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'[broker]\n"ssl.key.password" = "{CANARY}"\n')
    both = ("--config", file, "--set", f'sasl.jaas.config=a.b.Plain required password="{CANARY}";')
    for verb in ("plan", "status", "vacuum"):
        for ran in (tierfold(verb, tier, *both), tierfold(verb, tier, *both, "--json")):
            assert ran.code == 0
            for name in ("ssl.key.password", "sasl.jaas.config"):
                assert f"{name} has no effect here" in ran.stdout + ran.stderr
            assert CANARY not in ran.stdout + ran.stderr


def test_a_foreign_exception_is_reported_without_its_secrets() -> None:
    error = RuntimeError(f"PUT https://host/x?sig={CANARY} with password={CANARY}\n\x1b[2J")
    refusal = refusal_of(error, "orders-0")
    for reason in (refusal.detail, pickle.loads(failure(error, "orders-0")).detail):  # noqa: S301
        assert reason.startswith("orders-0: unexpected RuntimeError: PUT https://host/x?[hidden]")
        assert CANARY not in reason
        assert reason.isprintable()


def test_a_bug_prints_its_traceback_without_secrets(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [key_of("orders")], segments=2)
    with scripted(fails("claim", RuntimeError(f"s3://u:{CANARY}@bucket \x1b[2J"))):
        ran = tierfold("compact", tier, *ALWAYS)
    assert (ran.code, ran.stdout) == (1, "")
    assert "Traceback" in ran.stderr
    assert r"RuntimeError: s3://[hidden]@bucket \x1b[2J" in ran.stderr
    assert CANARY not in ran.stderr


SPARK_CONF: Final = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.hadoop.fs.s3a.secret.key": CANARY,
    "spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net": CANARY,
    "spark.executorEnv.AWS_SECRET_ACCESS_KEY": CANARY,
    "spark.executorEnv.AZURE_STORAGE_ACCOUNT_KEY": CANARY,
}
ENVIRONMENT: Final = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)


@pytest.mark.jvm
def test_a_run_leaves_no_secret_in_its_output_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's event log is on, credentials are in their proper places, and a partition fails."""
    for name in ENVIRONMENT:
        monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tier = made_tier(tmp_path / "tier")
    for name in ("orders", "torn"):
        for number in range(2):
            log = put_updates(tier, key_of(name), number)
    flip_last_byte(log)
    events = tmp_path / "events"
    events.mkdir()
    conf = {**SPARK_CONF, "spark.eventLog.dir": events.as_uri(), "spark.local.dir": str(tmp_path)}
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    submit = f"PYSPARK_SUBMIT_ARGS={shlex.join([*words, 'pyspark-shell'])}"
    command = ("env", submit, sys.executable, "-m", "tierfold", "compact")
    ran = in_own_process(*command, tier, *ALWAYS, "--json")
    assert ran.code == 3, ran
    assert ran.outcomes == {("orders", 0): "compacted", ("torn", 0): "failed"}
    output = [ran.stdout, ran.stderr]
    for verb in ("plan", "status"):
        output += [part for ran in _outputs(verb, tier) for part in (ran.stdout, ran.stderr)]
    assert [text for text in output if CANARY in text] == []
    assert len(RunsTable(str(tier / "_tierfold")).read()) == 2
    written = dict(_written(tmp_path))
    assert any("SparkListenerEnvironmentUpdate" in text for text in written.values())
    without_mllib = '"spark.sql.extensions.test.loadFromCp":"false"'
    assert any(without_mllib in text for text in written.values())
    assert [str(path) for path, text in written.items() if CANARY in text] == []


def _outputs(verb: str, tier: Path) -> Iterator[Ran]:
    yield tierfold(verb, tier, *COMPACT)
    yield tierfold(verb, tier, *COMPACT, "--json")
    if verb == "plan":
        yield tierfold(verb, tier, *COMPACT, "--explain", "orders-0")
        yield tierfold(verb, tier, *COMPACT, "--explain", "torn-0")


def _written(folder: Path) -> Iterator[tuple[Path, str]]:
    """Each file's path and text; also the cells of Parquet files, which are compressed."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        text = path.read_bytes().decode("latin-1")
        if path.suffix == ".parquet":
            text += str(pq.read_table(path).to_pylist())
        yield path, f"{path} {text}"
