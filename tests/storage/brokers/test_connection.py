"""A client connects in each way that brokers allow, and says in one sentence why it cannot."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.brokers.access import PASSWORD, USER
from tests.storage.brokers.secured import SCRAM_USER, SecuredCluster, client
from tests.storage.emulators import free_port
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.storage.brokers.client_settings import ClientSettings
from tierfold.storage.brokers.connection import Connection, connected
from tierfold.storage.brokers.facts import broker_configs, partition_offsets, topic_facts

pytestmark = pytest.mark.jvm

TIMEOUT_MS = 1000
TLS = {"security.protocol": "SSL", "ssl.ca.location": "{keys}/ca.pem"}
PLAIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}
SCRAM = PLAIN | {"sasl.username": SCRAM_USER}
SASL_TLS = PLAIN | TLS | {"security.protocol": "SASL_SSL"}
PEM_STORES = {
    "security.protocol": "SSL",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "{keys}/ca.pem",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "{keys}/client.pem",
}


def settings(kafka: SecuredCluster, server: str, given: dict[str, str]) -> ClientSettings:
    values = {name: text.replace("{keys}", str(kafka.keys)) for name, text in given.items()}
    return client(server, {"request.timeout.ms": str(TIMEOUT_MS)} | values)


LOCKED = PEM_STORES | {
    "ssl.keystore.location": "{keys}/client.locked.pem",
    "ssl.key.password": PASSWORD,
}
PKCS12 = TLS | {
    "ssl.keystore.type": "PKCS12",
    "ssl.keystore.location": "{keys}/client.p12",
    "ssl.keystore.password": PASSWORD,
}


@pytest.mark.parametrize(
    ("listener", "given"),
    [
        ("PLAINTEXT", {}),
        ("SASL", PLAIN),
        ("SASL", SCRAM | {"sasl.mechanism": "SCRAM-SHA-256"}),
        ("SASL", SCRAM | {"sasl.mechanism": "SCRAM-SHA-512"}),
        ("TLS", TLS),
        ("SASLTLS", SASL_TLS),
        ("MTLS", PEM_STORES),
        ("MTLS", LOCKED),
        ("MTLS", PKCS12),
        ("OTHERHOST", TLS | {"ssl.endpoint.identification.algorithm": ""}),
    ],
)
def test_a_client_connects(kafka: SecuredCluster, listener: str, given: dict[str, str]) -> None:
    with connected(settings(kafka, kafka.first_server(listener), given)) as connection:
        assert connection.brokers == kafka.nodes
        assert len(connection.cluster_id) == 22


ANONYMOUS: dict[str, str] = {}
SCRAM_512 = SCRAM | {"sasl.mechanism": "SCRAM-SHA-512"}
FOREIGN_CA = TLS | {"ssl.ca.location": "{keys}/foreign.pem"}
UNKNOWN_CLIENT = PEM_STORES | {"ssl.keystore.location": "{keys}/unknown.pem"}


@pytest.mark.parametrize(
    ("listener", "given", "sentence", "remedy", "then"),
    [
        ("SASL", PLAIN | {"sasl.password": "wrong"}, "does not accept the user and the password",
         "Check sasl.username and sasl.password", ("SASL", PLAIN)),
        ("SASL", SCRAM_512 | {"sasl.password": "wrong"},
         "does not accept the user and the password", "and that this user", ("SASL", SCRAM_512)),
        ("ONLYPLAIN", SCRAM_512, "does not take this sasl.mechanism, only PLAIN.",
         "Set sasl.mechanism to one that it takes.", ("ONLYPLAIN", PLAIN)),
        ("PLAINTEXT", PLAIN, "takes no login by SASL", "Set security.protocol to PLAINTEXT or SSL",
         ("PLAINTEXT", ANONYMOUS)),
        ("PLAINTEXT", PLAIN, "takes no login by SASL", "or name the port of the SASL listener",
         ("SASL", PLAIN)),
        ("SASL", ANONYMOUS, "without a login, as a SASL listener does",
         "with sasl.mechanism and credentials", ("SASL", PLAIN)),
        ("TLS", ANONYMOUS, "speaks TLS, and this connection does not",
         "Set security.protocol to SSL", ("TLS", TLS)),
        ("PLAINTEXT", TLS, "does not speak TLS", "Set security.protocol to PLAINTEXT",
         ("PLAINTEXT", ANONYMOUS)),
        ("PLAINTEXT", TLS, "does not speak TLS", "or name the port of the TLS listener",
         ("TLS", TLS)),
        ("TLS", {"security.protocol": "SSL"}, "is from a CA that is not trusted here",
         "Name the file of the CA's certificate (PEM) in ssl.ca.location.", ("TLS", TLS)),
        ("TLS", FOREIGN_CA, "from a CA that is not trusted", "in ssl.ca.location.", ("TLS", TLS)),
        ("OTHERHOST", TLS, "is for another host name", "have one issued that names this host.",
         ("TLS", TLS)),
        ("EXPIRED", TLS, "has expired or is not valid yet", "Renew the broker's certificate",
         ("TLS", TLS)),
        ("MTLS", TLS, "refuses this client's certificate, or asks for one",
         "Set ssl.keystore.location", ("MTLS", PEM_STORES)),
        ("MTLS", UNKNOWN_CLIENT, "refuses this client's certificate, or asks for one",
         "to a certificate of a CA that the broker trusts", ("MTLS", PEM_STORES)),
    ],
)
def test_a_client_that_cannot_connect_says_why_and_what_to_do(
    kafka: SecuredCluster,
    listener: str,
    given: dict[str, str],
    sentence: str,
    remedy: str,
    then: tuple[str, dict[str, str]],
) -> None:
    server = kafka.first_server(listener)
    error = failure(settings(kafka, server, given))
    assert error.where == f"broker {server}"
    assert sentence in str(error)
    assert remedy in error.remedy
    assert PASSWORD not in str(error)
    listener, mended = then  # As the remedy says; a listener stands for a changed broker, too.
    with connected(settings(kafka, kafka.first_server(listener), mended)) as connection:
        assert connection.brokers == kafka.nodes


def test_a_controllers_port_is_named(kafka: SecuredCluster) -> None:
    listeners = kafka.brokers[0].settings["listeners"]
    server = listeners.partition("CONTROLLER://")[2].partition(",")[0]
    error = str(failure(settings(kafka, server, {})))
    assert "it is a controller, and answers no client. Name the port of a broker's" in error


def failure(given: ClientSettings) -> UnreadableObject:
    """Why no connection comes about, within the timeout and what a probe takes."""
    began = time.monotonic()
    with pytest.raises(UnreadableObject) as caught, connected(given):
        pass
    assert time.monotonic() - began < TIMEOUT_MS / 1000 + 4
    return caught.value


@contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """A port that is no broker's: it answers so and closes, or (None) never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            kept = []
            while True:
                try:
                    taken, _ = server.accept()
                except OSError:
                    return
                if answer is None:
                    kept.append(taken)
                else:
                    taken.recv(1000)
                    taken.sendall(answer)
                    taken.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def named(server: str) -> ClientSettings:
    return client(server, {"request.timeout.ms": str(TIMEOUT_MS)})


@pytest.mark.parametrize("answer", [None, b"HTTP/1.0 400 Bad Request\r\n\r\n", b""])
def test_a_port_of_something_else_is_named(answer: bytes | None) -> None:
    with listening(answer) as server:
        assert "does not answer as a broker" in str(failure(named(server)))


def test_a_host_without_a_broker_is_named() -> None:
    down = f"127.0.0.1:{free_port()}"
    assert str(failure(named(down))).startswith(f"broker {down}: nothing listens on this port.")
    unknown = failure(named("no-such-host.invalid:9092"))
    assert "its host name cannot be resolved" in str(unknown)


def test_one_of_several_brokers_is_enough(kafka: SecuredCluster) -> None:
    server = f"127.0.0.1:{free_port()},{kafka.servers}"
    with connected(settings(kafka, server, {})) as connection:
        assert connection.brokers == kafka.nodes


@pytest.fixture
def halted(kafka: SecuredCluster) -> Iterator[Connection]:
    """A connection to brokers that have answered, and no longer do."""
    with connected(settings(kafka, kafka.servers, {})) as connection, kafka.halted():
        yield connection


@pytest.mark.parametrize(
    "ask",
    [
        lambda connection: topic_facts(connection, [METADATA_TOPIC]),
        broker_configs,
        lambda connection: partition_offsets(connection, [(METADATA_TOPIC, 0)]),
    ],
    ids=["topics", "settings", "offsets"],
)
def test_each_question_ends_in_time(
    kafka: SecuredCluster, halted: Connection, ask: Callable[[Connection], object]
) -> None:
    began = time.monotonic()
    with pytest.raises(UnreadableObject) as caught:
        ask(halted)
    assert time.monotonic() - began < TIMEOUT_MS / 1000 + 3
    assert caught.value.where.startswith("broker 127.0.0.1:")
    assert "Run again" in caught.value.remedy
    kafka.go_on()
    with connected(settings(kafka, kafka.servers, {})) as again:
        assert ask(again)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (
            TLS
            | {
                "ssl.certificate.location": "{keys}/client.pem",
                "ssl.key.location": "{keys}/server.pem",
            },
            "ssl.key.location",
        ),
        (LOCKED | {"ssl.key.password": "wrong"}, "ssl.key.location"),
        (
            {name: text for name, text in LOCKED.items() if name != "ssl.key.password"},
            "ssl.key.location",
        ),
        (PKCS12 | {"ssl.keystore.password": "wrong"}, "ssl.keystore.location"),
        (PKCS12 | {"ssl.keystore.location": "{keys}/ca.pem"}, "ssl.keystore.location"),
        (TLS | {"ssl.cipher.suites": "NONE-SUCH"}, "ssl.cipher.suites"),
    ],
)
def test_what_openssl_refuses_is_a_wrong_setting(
    kafka: SecuredCluster, given: dict[str, str], name: str
) -> None:
    found = settings(kafka, kafka.first_server("MTLS"), given)
    with pytest.raises(BadSettings, match=f"OpenSSL cannot use {name}") as caught, connected(found):
        pass
    assert "--command-config" in caught.value.where
    assert PASSWORD not in str(caught.value)


def test_a_token_that_cannot_be_had_is_named(kafka: SecuredCluster) -> None:
    token = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.client.id": "i",
        "sasl.oauthbearer.client.secret": PASSWORD,
        "sasl.oauthbearer.token.endpoint.url": f"https://127.0.0.1:{free_port()}/token",
    }
    error = str(failure(settings(kafka, kafka.first_server("SASL"), token)))
    assert "no OAUTHBEARER token could be had to log in" in error
    assert PASSWORD not in error
