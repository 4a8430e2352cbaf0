"""A client logs in with a token of a real identity provider, or says in one sentence why not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from tests.brokers.access import USER, Right, granted
from tests.jobs.commands import tierfold
from tests.storage.brokers.identity_provider import (
    AUDIENCE,
    IdentityProvider,
    identity_provider,
)
from tests.storage.brokers.secured import SecuredCluster, client
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.brokers.connection import connected

pytestmark = pytest.mark.jvm

SECRET: Final = "a-planted/secret+of-OAuth"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
_CREDENTIALS: Final = "sasl.oauthbearer.client.credentials.client"
LIBRDKAFKA: Final = {
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": USER,
    "sasl.oauthbearer.client.secret": SECRET,
}
JAVA: Final = {
    "sasl.login.callback.handler.class": f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    "sasl.jaas.config": (
        f"{_PACKAGE}.OAuthBearerLoginModule required"
        f' clientId="{USER}" clientSecret="{SECRET}" scope="kafka";'
    ),
}
JAVA_SINCE_4_1: Final = {
    f"{_CREDENTIALS}.id": USER,
    f"{_CREDENTIALS}.secret": SECRET,
    "sasl.jaas.config": f"{_PACKAGE}.OAuthBearerLoginModule required;",
}


@pytest.fixture(scope="module")
def provider(kafka: SecuredCluster) -> Iterator[IdentityProvider]:
    with identity_provider(kafka.keys, USER, SECRET) as found:
        yield found


def login(
    kafka: SecuredCluster, provider: IdentityProvider, more: Mapping[str, str]
) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": provider.url,
        "https.ca.location": str(kafka.keys / "ca.pem"),
        **more,
    }


@pytest.mark.parametrize("names", [LIBRDKAFKA, JAVA, JAVA_SINCE_4_1], ids=["c", "java", "java-4.1"])
def test_a_token_lets_a_client_in(
    kafka: SecuredCluster, provider: IdentityProvider, names: dict[str, str]
) -> None:
    server, before = kafka.first_server("TOKENS"), provider.issued
    with connected(client(server, login(kafka, provider, names))) as connection:
        assert connection.brokers == kafka.nodes
    assert provider.issued > before


def test_status_reads_what_the_user_of_the_token_may(
    kafka: SecuredCluster, provider: IdentityProvider, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    lines = login(kafka, provider, JAVA).items()
    file.write_text("".join(f"{name}={value}\n" for name, value in lines))
    rights = (
        Right(AclOperation.READ, METADATA_TOPIC),
        Right(AclOperation.DESCRIBE_CONFIGS, METADATA_TOPIC),
        Right(AclOperation.DESCRIBE_CONFIGS, "kafka-cluster", ResourceType.BROKER),
        Right(AclOperation.DESCRIBE, "*"),
    )
    server = kafka.servers_of("TOKENS")
    ask = ("status", "--bootstrap-server", server, "--command-config", file, "--json")
    with granted(kafka, *rights):
        ran = tierfold(*ask)
    assert ran.code == 0, ran
    assert ran.document["cluster"]["metadata_topic_id"] == kafka.metadata.id
    refused = tierfold(*ask)
    assert (refused.code, "--operation Read" in refused.stderr) == (3, True), refused
    assert SECRET not in f"{ran}{refused}"


@pytest.mark.parametrize(
    ("given", "audience", "sentence"),
    [
        (
            {"sasl.oauthbearer.client.secret": "wrong"},
            AUDIENCE,
            "the identity provider gives this client no OAUTHBEARER token to log in.",
        ),
        (
            {},
            "another-cluster",
            "it does not accept the token that the identity provider gave.",
        ),
        (
            {"https.ca.location": "{keys}/foreign.pem"},
            AUDIENCE,
            "the identity provider's certificate is not trusted",
        ),
        (  # Then those count that the system trusts, and this one is not among them.
            {"https.ca.location": None},
            AUDIENCE,
            "the identity provider's certificate is not trusted",
        ),
        (
            {"sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/"},
            AUDIENCE,
            "no OAUTHBEARER token could be had to log in.",
        ),
    ],
)
def test_a_login_that_fails_says_why(
    kafka: SecuredCluster,
    provider: IdentityProvider,
    given: dict[str, str | None],
    audience: str,
    sentence: str,
) -> None:
    changed = login(kafka, provider, LIBRDKAFKA | given)
    values = {
        name: text.replace("{keys}", str(kafka.keys))
        for name, text in changed.items()
        if text is not None
    }
    server, began = kafka.first_server("TOKENS"), time.monotonic()
    with (
        provider.issuing_for(audience),
        pytest.raises(UnreadableObject) as caught,
        connected(client(server, values)),
    ):
        pass
    assert time.monotonic() - began < 8, "it was tried again"
    assert caught.value.where == f"broker {server}"
    assert sentence in str(caught.value)
    assert SECRET not in str(caught.value)
    with connected(client(server, login(kafka, provider, LIBRDKAFKA))) as connection:
        assert connection.brokers == kafka.nodes  # What is wrong was put right.
