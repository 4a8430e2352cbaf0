"""A client's settings become librdkafka's; what could run code or show a secret is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.jobs.settings.refusals import CANARY, refused
from tierfold.compaction.model.errors import BadSettings
from tierfold.storage.brokers.client_files import system_cas
from tierfold.storage.brokers.client_names import SECRETS, TAKEN, VARIABLES, client_names
from tierfold.storage.brokers.client_settings import (
    TIMEOUT_MS,
    ClientSettings,
    Given,
    client_settings,
    source_of,
)

PEM = "-----BEGIN CERTIFICATE-----\n"
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "u",
    "sasl.password": CANARY,
}
TOKEN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://id.example.com/token",
    "sasl.oauthbearer.client.id": "i",
    "sasl.oauthbearer.client.secret": CANARY,
}
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def read(
    *sources: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    servers: str | None = "h:9092",
) -> ClientSettings | None:
    given = None if servers is None else Given(text=servers, where="--bootstrap-server")
    return client_settings(
        [source_of(values, "f") for values in sources], environment or {}, given
    )


def options(
    *sources: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    found = read(*sources, environment=environment)
    assert found is not None
    assert CANARY not in repr(found)
    return dict(found.options)


@pytest.fixture
def pem(tmp_path: Path) -> str:
    file = tmp_path / "a.pem"
    file.write_text(PEM)
    return str(file)


def test_without_settings_a_client_speaks_plaintext() -> None:
    found = read()
    assert found == ClientSettings(
        servers=("h:9092",), timeout_ms=TIMEOUT_MS, options={"security.protocol": "PLAINTEXT"}
    )
    assert read(servers=None) is None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_login_is_read_from_both_spellings(mechanism: str, name: str) -> None:
    password = {"sasl.username": "u", "sasl.password": CANARY}
    modules = {
        "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
        "SCRAM": "org.apache.kafka.common.security.scram.ScramLoginModule",
    }
    jaas = f'{modules[mechanism[:5]]} required username="u" password="{CANARY}";'
    expected = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, **password}
    common = {"security.protocol": "sasl_plaintext", name: mechanism}
    assert options({**common, **password}) == expected
    assert options({**common, "sasl.jaas.config": jaas}) == expected


def test_a_client_with_a_secret_asks_for_its_own_token() -> None:
    expected = TOKEN | {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.scope": "s"}
    if (trusted := system_cas()) is not None:
        expected["https.ca.location"] = trusted
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    java = {
        name: text for name, text in TOKEN.items() if not name.startswith("sasl.oauthbearer.client")
    } | {
        "sasl.jaas.config": f'{module} required clientId="i" clientSecret="{CANARY}" scope="s";',
        "sasl.login.callback.handler.class": HANDLER,
    }
    assert options(TOKEN | {"sasl.oauthbearer.scope": "s"}) == options(java) == expected


def test_an_identity_provider_is_trusted_as_the_system_trusts(tmp_path: Path) -> None:
    files = [tmp_path / "one.pem", tmp_path / "two.pem"]
    assert system_cas(files) is None
    files[1].write_text(PEM)
    assert system_cas(files) == str(files[1])


def test_certificates_are_read_from_both_spellings(pem: str) -> None:
    ssl = {"security.protocol": "SSL"}
    stores = {"ssl.truststore.type": "PEM", "ssl.truststore.location": pem}
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": pem, "ssl.key.password": CANARY}
    expected = ssl | {"ssl.ca.location": pem}
    assert options(ssl | stores) == options(ssl | {"ssl.ca.location": pem}) == expected
    assert options(ssl | stores | own) == expected | {
        "ssl.certificate.location": pem,
        "ssl.key.location": pem,
        "ssl.key.password": CANARY,
    }
    inline = {
        "ssl.truststore.certificates": PEM,
        "ssl.keystore.certificate.chain": PEM,
        "ssl.keystore.key": CANARY,
    }
    assert options(ssl | inline) == ssl | {
        "ssl.ca.pem": PEM,
        "ssl.certificate.pem": PEM,
        "ssl.key.pem": CANARY,
    }


def test_a_pkcs12_keystore_is_passed_on(tmp_path: Path) -> None:
    store = tmp_path / "client.p12"
    store.write_bytes(b"\x30\x82")
    given = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
    }
    with refused("ssl.keystore.password is missing"):
        read(given)
    found = options(given, environment={"TIERFOLD_SSL_KEYSTORE_PASSWORD": CANARY})
    assert found["ssl.keystore.location"] == str(store)
    assert found["ssl.keystore.password"] == CANARY


@pytest.mark.parametrize(
    ("java", "librdkafka"), [("", "none"), ("NONE", "none"), ("https", "https")]
)
def test_the_check_of_the_host_name_is_javas(java: str, librdkafka: str) -> None:
    name = "ssl.endpoint.identification.algorithm"
    found = read({"security.protocol": "SSL", name: java})
    assert found is not None
    assert found.options[name] == librdkafka
    assert found.verifies_host == (librdkafka == "https")


def test_a_later_source_overrides_and_the_environment_fills_in() -> None:
    table = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "t"}
    file = {"sasl.mechanisms": "SCRAM-SHA-256", "bootstrap.servers": "f:1", "sasl.username": "f"}
    environment = {"TIERFOLD_SASL_PASSWORD": CANARY, "TIERFOLD_SASL_USERNAME": "e"}
    found = read(table, file, environment=environment, servers=None)
    assert found is not None
    assert found.servers == ("f:1",)
    assert found.options == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "f",
        "sasl.password": CANARY,
    }


def test_what_only_tunes_a_client_is_ignored_with_a_note() -> None:
    tuning = dict.fromkeys(
        ("group.id", "enable.auto.commit", "isolation.level", "client.rack", "interceptor.classes"),
        CANARY,
    )
    found = read(tuning)
    assert found is not None
    assert found.options == {"security.protocol": "PLAINTEXT"}
    assert found.notes == (
        "f: group.id, enable.auto.commit, isolation.level, client.rack, interceptor.classes have no"
        " effect here: tierfold reads without them",
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("plugin.library.paths", "it would load a library into this process"),
        ("ssl.engine.location", "it would load a library into this process"),
        ("ssl.providers", "it would load a library into this process"),
        ("sasl.kerberos.kinit.cmd", "it would run a command"),
        ("debug", "it would write passwords and tokens to a log"),
        ("enable.ssl.certificate.verification", "anyone could answer for a broker"),
        ("enable.sasl.oauthbearer.unsecure.jwt", "anyone could forge such a token"),
        ("sasl.client.callback.handler.class", "cannot connect that way"),
        ("sasl.login.class", "cannot connect that way"),
        ("ssl.engine.factory.class", "cannot connect that way"),
        ("security.providers", "cannot connect that way"),
        ("sasl.oauthbearer.assertion.file", "cannot connect that way"),
    ],
)
def test_what_would_run_code_or_weaken_the_login_is_refused(name: str, why: str) -> None:
    with refused(why, where="f"):
        read({name: CANARY})


def test_no_name_of_login_or_tls_is_dropped_silently() -> None:
    """Apart from those that change nothing about who may connect."""
    ignored = set()
    for name in client_names():
        if name.startswith(("ssl", "sasl", "security", "enable.s", "https", "plugin", "debug")):
            with suppress(BadSettings):
                if not source_of({name: "x"}, "f").found:
                    ignored.add(name)
    assert {name for name in ignored if not name.startswith("sasl.login.re")} == {
        *("ssl.protocol", "ssl.enabled.protocols", "ssl.provider"),
        *("ssl.keymanager.algorithm", "ssl.trustmanager.algorithm"),
        *("ssl.secure.random.implementation",),
        *("sasl.login.connect.timeout.ms",),
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sasl.pasword": CANARY}, "'sasl.pasword'. Did you mean sasl.password"),
        ({f"{CANARY} x": "1"}, "no client of Kafka has the setting [hidden]"),
        ({"security.protocol": CANARY}, "Known are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (LOGIN | {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism is Kerberos (GSSAPI)"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is not set, and Kafka's default is"),
        (LOGIN | {"sasl.mechanism": CANARY}, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        (LOGIN | {"sasl.password": ""}, "in the environment as TIERFOLD_SASL_PASSWORD"),
        (LOGIN | {"sasl.login.callback.handler.class": "x.Y"}, "a class that only Java can load"),
        (LOGIN | {"sasl.password": "${file:/x:y}"}, "only a provider of Kafka can resolve"),
        (LOGIN | {"sasl.password": "a\0b"}, "has a NUL character"),
        (LOGIN | {"sasl.mechanisms": "PLAIN"}, "sasl.mechanism has two values, under two names"),
        (TOKEN | {"sasl.oauthbearer.token.endpoint.url": "http://h/t"}, "begin with https://"),
        (TOKEN | {"sasl.oauthbearer.token.endpoint.url": "file:/t"}, "begin with https://"),
        (TOKEN | {"sasl.oauthbearer.method": "default"}, "Known are OIDC"),
        ({"broker.address.family": CANARY}, "Known are ANY, V4, V6"),
        ({"request.timeout.ms": "999"}, "Give milliseconds from 1000 to 300000"),
        ({"request.timeout.ms": CANARY}, "Give milliseconds from 1000 to 300000"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/none"}, "cannot be read: No such file"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/t.jks"},
            "`keytool -list -rfc -keystore /t.jks > ca.pem`, and set ssl.ca.location=ca.pem",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.truststore.location": "/t.p12",
                "ssl.truststore.type": "PKCS12",
            },
            "is a truststore of Java, which the client of tierfold cannot read",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "/k.jks"},
            "-srckeystore /k.jks -destkeystore client.p12`, and set ssl.keystore.location=client",
        ),
    ],
)
def test_a_wrong_setting_is_refused_with_what_to_do(given: dict[str, str], message: str) -> None:
    with refused(message, where="f"):
        read(given)


def test_a_java_keystore_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    store = tmp_path / "trust.pem"
    store.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with refused("is a truststore of Java"):
        read({"security.protocol": "SSL", "ssl.truststore.type": "PEM",
              "ssl.truststore.location": str(store)})
    os.mkfifo(tmp_path / "fifo")
    with refused("cannot be read: it is not a regular file"):
        read({"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "fifo")})
    store.write_text("no certificate")
    with refused("holds no PEM"):
        read({"security.protocol": "SSL", "ssl.ca.location": str(store)})


@pytest.mark.parametrize(
    "servers",
    ["", "h", "h:", "h:0", "h:65536", "h:9092,", "a b:1", f"u:{CANARY}@h:1", "SSL://h:1", "h:1/x"],
)
def test_brokers_are_host_and_port(servers: str) -> None:
    with refused("is not written as HOST:PORT", where="--bootstrap-server"):
        read(servers=servers)


def test_no_value_is_in_a_repr() -> None:
    source = source_of(LOGIN, "f")
    assert source.found["sasl.password"].text == CANARY
    assert CANARY not in repr(source)


def test_several_brokers_are_read() -> None:
    found = read(servers="broker-1.example.com:9092, 10.0.0.1:1,[::1]:65535")
    assert found is not None
    assert found.servers == ("broker-1.example.com:9092", "10.0.0.1:1", "[::1]:65535")


def test_the_environment_supplies_only_names_that_are_taken() -> None:
    assert set(VARIABLES.values()) <= set(TAKEN.values())
    assert set(TAKEN.values()) >= SECRETS
    assert set(TAKEN) <= client_names()
    assert VARIABLES["TIERFOLD_SASL_PASSWORD"] == "sasl.password"
