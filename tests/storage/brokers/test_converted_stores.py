"""Stores of Java's clients and of OpenSSL are converted by the printed commands, and then work."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.brokers.access import PASSWORD
from tests.oracle.kafka_jars import tool
from tests.storage.brokers.secured import SecuredCluster, client
from tierfold.compaction.model.errors import BadSettings
from tierfold.storage.brokers.connection import connected

pytestmark = pytest.mark.jvm


def said(server: str, given: dict[str, str]) -> str:
    with pytest.raises(BadSettings) as caught:
        client(server, given)
    return str(caught.value)


def carried_out(remedy: str, folder: Path, *passwords: str) -> None:
    """Run the command between backticks in the folder, by a shell that is asked for passwords."""
    command = re.search("`([^`]+)`", remedy)
    assert command is not None, remedy
    line = re.sub("^keytool", tool("keytool"), command[1])
    asked = "".join(f"{password}\n" for password in passwords)
    subprocess.run(line, shell=True, cwd=folder, input=asked, text=True, check=True, timeout=60)


def as_java(store: Path, kind: str, *arguments: str) -> str:
    """Make a store of Java's own kind; its path."""
    passwords = ("-storepass", PASSWORD, "-noprompt", "-keystore", str(store), "-storetype", "JKS")
    subprocess.run([tool("keytool"), kind, *passwords, *arguments], check=True, timeout=60)
    return str(store)


def connects(kafka: SecuredCluster, listener: str, given: dict[str, str]) -> None:
    with connected(client(kafka.first_server(listener), given)) as connection:
        assert connection.brokers == kafka.nodes


def test_a_truststore_of_java(kafka: SecuredCluster, tmp_path: Path) -> None:
    ca = str(kafka.keys / "ca.pem")
    trusted = as_java(tmp_path / "trust.jks", "-importcert", "-alias", "ca", "-file", ca)
    given = {"security.protocol": "SSL", "ssl.truststore.location": trusted}
    carried_out(said(kafka.first_server("TLS"), given), tmp_path, PASSWORD)
    converted = str(tmp_path / "ca.pem")
    connects(kafka, "TLS", {"security.protocol": "SSL", "ssl.ca.location": converted})


@pytest.mark.soak
def test_a_keystore_of_java(kafka: SecuredCluster, tmp_path: Path) -> None:
    source = ("-srckeystore", str(kafka.keys / "client.p12"), "-srcstorepass", PASSWORD)
    own = as_java(tmp_path / "own.jks", "-importkeystore", *source)
    tls = {"security.protocol": "SSL", "ssl.ca.location": str(kafka.keys / "ca.pem")}
    given = tls | {"ssl.keystore.location": own, "ssl.keystore.password": PASSWORD}
    remedy = said(kafka.first_server("MTLS"), given)
    carried_out(remedy, tmp_path, PASSWORD, PASSWORD, PASSWORD)
    assert "ssl.keystore.location=client.p12 with ssl.keystore.type=PKCS12" in remedy
    converted = {
        "ssl.keystore.location": str(tmp_path / "client.p12"),
        "ssl.keystore.type": "PKCS12",
    }
    connects(kafka, "MTLS", given | converted)


def test_pkcs12_where_pem_is_wanted(kafka: SecuredCluster, tmp_path: Path) -> None:
    own = str(kafka.keys / "client.p12")
    given = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(kafka.keys / "ca.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": own,
    }
    remedy = said(kafka.first_server("MTLS"), given)
    converted = tmp_path / "own.pem"
    options = f"-nodes -out {converted} -passin stdin"
    named = remedy.replace("FILE", own).replace("-nodes", options)
    carried_out(named, tmp_path, PASSWORD)
    connects(kafka, "MTLS", given | {"ssl.keystore.location": str(converted)})
