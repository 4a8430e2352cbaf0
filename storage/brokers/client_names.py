"""Says which names of a client's settings are taken, refused or ignored.

The rule, for a properties file and for the table `[cluster]`:

1. Names of connection, TLS and login that the client can follow are taken, in Java's and in
   librdkafka's spelling.
2. Refused is what would load a library or run a command, write secrets to a log, or not check
   certificates; and every other name of TLS and login, because a client that drops it would connect
   in another way than its file says.
3. Any other name of Kafka's or librdkafka's clients only tunes them. It is ignored, with a note,
   because tierfold decides how it reads: group, commits, isolation, rack, interceptors.
4. A name that no client knows is refused, with the nearest one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import Enum, auto
from functools import cache
from importlib import resources
from typing import Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.redaction import setting_name

SERVERS: Final = "bootstrap.servers"
TIMEOUT: Final = "request.timeout.ms"
JAAS: Final = "sasl.jaas.config"

_SAME: Final = (
    SERVERS,
    TIMEOUT,
    JAAS,
    "security.protocol",
    "broker.address.family",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.login.callback.handler.class",
    "https.ca.location",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.endpoint.identification.algorithm",
)
TAKEN: Final[Mapping[str, str]] = {name: name for name in _SAME} | {
    "metadata.broker.list": SERVERS,
    "socket.timeout.ms": TIMEOUT,
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
"""By name: the name under which tierfold keeps its value."""

SECRETS: Final = frozenset(
    {
        JAAS,
        "sasl.password",
        "sasl.oauthbearer.client.secret",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
    }
)
"""A settings file may be readable to all, so it does not take these."""

VARIABLES: Final[Mapping[str, str]] = {
    f"TIERFOLD_{name.upper().replace('.', '_')}": name
    for name in (
        "sasl.username",
        "sasl.password",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "ssl.key.password",
        "ssl.keystore.password",
    )
}
"""By variable of the environment: the setting that it supplies if no file does."""

_REFUSED: Final[Mapping[str, str]] = {
    "plugin.library.paths": "it would load a library into this process",
    "ssl.engine.location": "it would load a library into this process",
    "ssl.engine.id": "it would load a library into this process",
    "ssl.providers": "it would load a library into this process",
    "sasl.kerberos.kinit.cmd": "it would run a command",
    "debug": "it would write passwords and tokens to a log",
    "enable.ssl.certificate.verification": "without the check, anyone could answer for a broker",
    "enable.sasl.oauthbearer.unsecure.jwt": "anyone could forge such a token",
}
_ACCESS: Final = ("ssl", "sasl", "security.", "enable.ssl.", "enable.sasl.", "https.")
_TUNING: Final = (
    *("sasl.login.refresh.", "sasl.login.retry.", "sasl.login.connect.", "sasl.login.read."),
    *("ssl.protocol", "ssl.enabled.protocols", "ssl.keymanager.", "ssl.trustmanager."),
    *("ssl.secure.random.", "ssl.provider"),
)
"""Beginnings of names of login and TLS that change nothing about who may connect."""


class NameUse(Enum):
    """What tierfold does with a name."""

    TAKEN = auto()
    IGNORED = auto()


def use_of(name: str, where: str, own_names: Iterable[str] = ()) -> NameUse:
    """What tierfold does with a name that is not refused; raises BadSettings.

    `own_names`: which others may be meant.
    """
    if name in TAKEN:
        return NameUse.TAKEN
    if name in _REFUSED:
        raise BadSettings(
            f"{name} is refused: {_REFUSED[name]}", where=where, remedy="Leave it out."
        )
    if name not in client_names() and not name.startswith("config.providers."):
        near = get_close_matches(name, [*own_names, *TAKEN, *client_names()])
        remedy = f"Did you mean {' or '.join(near)}?" if near else "docs/kafka.md lists the names."
        raise BadSettings(
            f"no client of Kafka has the setting {setting_name(name)}", where=where, remedy=remedy
        )
    if name.startswith(_ACCESS) and not name.startswith(_TUNING):
        raise BadSettings(
            f"{name} is refused: the client of tierfold cannot connect that way",
            where=where,
            remedy="Use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER with a client secret, or"
            " a client certificate (docs/kafka.md).",
        )
    return NameUse.IGNORED


@cache
def client_names() -> frozenset[str]:
    """Return every name that a client's properties file may contain, from `conf/`."""
    text = resources.files("tierfold.conf").joinpath("client_names.txt").read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))
