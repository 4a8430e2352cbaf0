"""`[store]` of the user's file has the options of an object store, and no secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.commands import tierfold
from tests.jobs.settings.refusals import CANARY, refused
from tests.jobs.tiers import key_of, updated_tier
from tests.storage.emulators import IDENTITY, new_bucket, s3, s3_client
from tierfold.jobs.settings.layers import config_of_toml
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.settings.store_table import OPTIONS
from tierfold.storage.tiers.store_options import StoreOptions

ALL = """
[store]
endpoint = "https://host:9000"
region = "eu-west-1"
"path.style" = true
"ca.file" = "/ca.pem"
"requester.pays" = true
"kms.key.id" = "a-key"
account = "an-account"
"storage.class" = "STANDARD_IA"
"part.bytes" = 8388608
"timeout.ms" = 5000
retries = 3
"""


def test_every_option_is_read(tmp_path: Path) -> None:
    assert all(name in ALL for name in OPTIONS)
    expected = StoreOptions(
        endpoint="https://host:9000",
        region="eu-west-1",
        path_style=True,
        ca_file="/ca.pem",
        requester_pays=True,
        kms_key_id="a-key",
        account="an-account",
        part_bytes=8 << 20,
        timeout_ms=5000,
        retries=3,
    )
    file = tmp_path / "tierfold.toml"
    file.write_text(ALL)
    assert resolve((), file).store == expected
    assert resolve((), file).store.storage_class == "STANDARD_IA"  # Which no comparison sees.
    assert resolve(()).store == config_of_toml("", where="f").store == StoreOptions()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'"access.key.id" = "{CANARY}"', "there is no option 'access.key.id'. Known are endpoint"),
        (f'"{CANARY} x" = 1', "there is no option [hidden]"),
        ("retry = 1", "there is no option 'retry'. Known are"),
        (f'retries = "{CANARY}"', "retries has a value that is not allowed. Give a whole number"),
        ("retries = true", "retries has a value that is not allowed"),
        ('"path.style" = "yes"', "Give true or false"),
        ("endpoint = 1", "Give a string"),
        ('region = ""', "region has a value that is not allowed"),
        (f'endpoint = "https://u:{CANARY}@host"', "endpoint: the endpoint has a user, a query"),
        ('"part.bytes" = 1', "part.bytes: it is 1, and must be at least 5242880"),
        ("[store.s3]", "there is no option 's3'"),
    ],
)
def test_a_wrong_option_is_refused_without_its_value(line: str, message: str) -> None:
    with refused(message, where="f.toml [store]"):
        config_of_toml(f"[store]\n{line}\n", where="f.toml")


def test_a_verb_finds_the_bucket_that_the_file_describes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    folder = updated_tier(tmp_path / "tier", [key_of("orders")], segments=2)
    bucket = new_bucket(s3())
    for path in folder.rglob("*.*"):
        name = f"tier/{path.relative_to(folder)}"
        s3_client(s3()).put_object(Bucket=bucket, Key=name, Body=path.read_bytes())
    file = tmp_path / "tierfold.toml"
    file.write_text(f'[store]\nendpoint = "{s3()}"\n[broker]\n"log.cleanup.policy" = "compact"\n')
    here = ("--config", file, "--now", "2030-01-01T00:00:00Z")
    compacted = tierfold("compact", f"s3://{bucket}/tier", "--engine", "local", *here, "--json")
    assert compacted.code == 0, compacted
    assert compacted.entry["outcome"] == "compacted"
    assert tierfold("verify", f"s3://{bucket}/tier", "--engine", "local", *here).code == 0
    names = s3_client(s3()).list_objects_v2(Bucket=bucket, Prefix="tier/_tierfold/")["Contents"]
    assert {name["Key"].split("/")[2] for name in names} == {"key_indexes", "partitions", "runs"}
