"""`[cluster]` and --command-config name a cluster; no secret is taken from a settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.settings.refusals import CANARY, refused
from tierfold.jobs.settings.cluster_table import cluster_of, read_command_config
from tierfold.jobs.settings.layers import config_of_toml
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.brokers.client_settings import ClientSettings

TABLE = """
[cluster]
"bootstrap.servers" = ["broker-1:9092", "broker-2:9092"]
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "PLAIN"
"sasl.username" = "reader"
"request.timeout.ms" = 5000
"""
PROPERTIES = f"""# As Kafka's own tools take it.
! another comment
security.protocol: SASL_PLAINTEXT
sasl.mechanism = SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="caf\\u00e9" \\
    password="{CANARY}";
"""


def test_the_table_names_a_cluster_and_the_environment_its_password(tmp_path: Path) -> None:
    file = tmp_path / "tierfold.toml"
    file.write_text(TABLE)
    found = cluster_of({}, resolve((), file).cluster, {"TIERFOLD_SASL_PASSWORD": CANARY})
    assert found == ClientSettings(
        servers=("broker-1:9092", "broker-2:9092"),
        timeout_ms=5000,
        options={
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "reader",
            "sasl.password": CANARY,
        },
    )
    assert CANARY not in repr(found)
    assert cluster_of({}, resolve(()).cluster, {"TIERFOLD_SASL_PASSWORD": CANARY}) is None


def test_a_properties_file_overrides_the_table(tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(PROPERTIES)
    table = config_of_toml(TABLE + f'"command.config" = "{properties}"', where="f").cluster
    named = config_of_toml(TABLE, where="f").cluster
    found = cluster_of({}, table, {})
    assert found == cluster_of({"command_config": properties}, named, {})
    assert found is not None
    assert found.timeout_ms == 5000
    assert found.options == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "café",
        "sasl.password": CANARY,
    }


def test_the_option_names_the_brokers() -> None:
    table = config_of_toml('[cluster]\n"bootstrap.servers" = "a:1"', where="f").cluster
    for given in ("b:2,c:3", ["b:2", "c:3"]):
        found = cluster_of({"bootstrap_server": given}, table, {})
        assert found is not None
        assert found.servers == ("b:2", "c:3")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'"sasl.password" = "{CANARY}"', "in the environment as TIERFOLD_SASL_PASSWORD"),
        (f'"ssl.keystore.key" = "{CANARY}"', "ssl.keystore.key is a secret"),
        (f'"sasl.jaas.config" = "{CANARY}"', "sasl.jaas.config is a secret"),
        (f'"{CANARY} x" = "y"', "no client of Kafka has the setting [hidden]"),
        (f"publsh = {CANARY!r}", "the setting 'publsh'. Did you mean publish"),
        ('"plugin.library.paths" = "/x.so"', "it would load a library"),
        (f'sasl.mechanism = "{CANARY}"', 'names with dots: "security.protocol" = "SSL"'),
        ('"sasl.username" = 1979-05-27', "sasl.username has a value that is not allowed"),
        (f'"sasl.username" = ["{CANARY}", 1]', "sasl.username has a value that is not allowed"),
    ],
)
def test_a_wrong_line_is_refused_without_its_value(line: str, message: str) -> None:
    with refused(message, where="f.toml [cluster]"):
        config_of_toml(f"[cluster]\n{line}\n", where="f.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"sasl.password=\\u12{CANARY}", "has an escape \\u without four hexadecimal digits"),
        (f"{CANARY}=x", "no client of Kafka has the setting [hidden]"),
        ("#" * (1 << 20) + "\n", "larger than 1 MiB"),
    ],
)
def test_a_wrong_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    with refused(message, where=str(file)):
        read_command_config(file)
    with refused("cannot be read: Is a directory", where=str(tmp_path)):
        read_command_config(tmp_path)


def test_settings_without_a_broker_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=PLAINTEXT\n")
    nothing = resolve(()).cluster
    with refused("no brokers are named", where="--command-config"):
        cluster_of({"command_config": file}, nothing, {})
    table = config_of_toml('[cluster]\n"security.protocol" = "PLAINTEXT"', where="f").cluster
    with refused("no brokers are named", where="[cluster]"):
        cluster_of({}, table, {})
