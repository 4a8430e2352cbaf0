"""A client's secrets appear nowhere: not in output, logs, documents or command lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.planted_secrets import command_lines, holding
from tests.jobs.commands import in_own_process
from tests.jobs.tiers import sample_copy
from tests.storage.emulators import free_port

SECRET: Final = "a-planted/secret+of-Kafka"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN: Final = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
QUICK: Final = "request.timeout.ms=1000\n"
TOKEN: Final = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.oauthbearer.client.id=i
sasl.oauthbearer.token.endpoint.url=https://127.0.0.1:1/token
"""

FILES: Final = {
    "password": f"{LOGIN}{QUICK}sasl.username=u\nsasl.password={SECRET}\n",
    "login module": (
        f'{LOGIN}{QUICK}sasl.jaas.config={SCRAM} required username=u password="{SECRET}";\n'
    ),
    "wrong login module": f'{LOGIN}sasl.jaas.config={SCRAM} required pasword="{SECRET}";\n',
    "client's secret": f"{TOKEN}{QUICK}sasl.oauthbearer.client.secret={SECRET}\n",
    "unknown name": f"{LOGIN}sasl.pasword={SECRET}\n",
    "servers": f"bootstrap.servers=u:{SECRET}@h:9092\n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_no_secret_of_a_properties_file_appears(text: str, tmp_path: Path) -> None:
    tier, properties = sample_copy(tmp_path / "tier"), tmp_path / "client.properties"
    properties.write_text(text)
    given = ("--command-config", str(properties), "--document", str(tmp_path / "document.json"))
    if "bootstrap" not in text:
        given = (*given, "--bootstrap-server", f"127.0.0.1:{free_port()}")
    command = (sys.executable, "-m", "tierfold", "status")
    with command_lines() as commands:
        done = in_own_process(*command, str(tier), "--json", "-v", *given)
    assert done.code in {2, 3}, done.stderr
    found = {
        "output": f"{done.stdout}{done.stderr}".encode(),
        "document": (tmp_path / "document.json").read_bytes(),
        "command lines": "\n".join(commands).encode(),
    }
    assert b"--command-config" in found["command lines"]
    assert holding(found, [SECRET]) == []


def test_no_secret_of_the_environment_or_a_table_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier, settings = sample_copy(tmp_path / "tier"), tmp_path / "tierfold.toml"
    command = (sys.executable, "-m", "tierfold", "status", str(tier), "--json", "-v")
    table = '[cluster]\n"security.protocol" = "SASL_PLAINTEXT"\n"sasl.mechanism" = "PLAIN"\n'
    settings.write_text(f'{table}"sasl.username" = "u"\n"request.timeout.ms" = 1000\n')
    monkeypatch.setenv("TIERFOLD_SASL_PASSWORD", SECRET)
    server = f"127.0.0.1:{free_port()}"
    options = ("--config", str(settings), "--bootstrap-server", server)
    unreachable = in_own_process(*command, *options)
    assert unreachable.code == 3
    assert f"broker {server}: nothing listens" in unreachable.stdout
    settings.write_text(f'{table}"sasl.password" = "{SECRET}"\n')
    refused = in_own_process(*command, *options)
    assert refused.code == 2
    assert "is a secret, and has no place" in refused.stdout
    found = {
        str(number): f"{done.stdout}{done.stderr}".encode()
        for number, done in enumerate((unreachable, refused))
    }
    assert holding(found, [SECRET]) == []
