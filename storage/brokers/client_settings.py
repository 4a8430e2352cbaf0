"""Settings of a client as librdkafka takes them, from names of Java's or librdkafka's clients.

    1  the table `[cluster]` of the settings file      no secrets
    2  the properties file of --command-config
    3  the environment                                 only what is missing
    4  --bootstrap-server

A later source overrides an earlier one, setting by setting. Nothing here shows a secret: values are
in no `repr`, and messages repeat only those of settings that are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.storage.brokers.client_files import check_file, no_java_keystore, system_cas
from tierfold.storage.brokers.client_names import (
    JAAS,
    SERVERS,
    TAKEN,
    TIMEOUT,
    VARIABLES,
    NameUse,
    use_of,
)
from tierfold.storage.brokers.login_modules import login_settings, no_kerberos

TIMEOUT_MS: Final = 30_000
"""Kafka `AdminClientConfig`, `request.timeout.ms`."""

_TIMEOUTS_MS: Final = range(1000, 300_001)
"""librdkafka's own bound of `socket.timeout.ms`, and no less than a handshake takes."""

_SERVER: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.%a-z]{2,60}\]):([0-9]{1,5})")
_PORT_MAX: Final = 65535
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PASSWORDS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_TOKEN: Final = "OAUTHBEARER"
_OWN_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
"""Java needs one of these for what librdkafka does by itself: a token for a client's secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A setting's value, and where it was given."""

    text: str = field(repr=False)
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How to reach a cluster."""

    servers: tuple[str, ...]
    """`HOST:PORT` of the brokers to ask first; at least one."""
    timeout_ms: int
    """How long to wait for each answer."""
    options: Mapping[str, str] = field(repr=False)
    """librdkafka's names and values of login and TLS; some are secret."""
    notes: tuple[str, ...] = ()
    """What was ignored, one sentence per source."""

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.options["security.protocol"] in {"SSL", "SASL_SSL"}

    @property
    def uses_login(self) -> bool:
        """Whether the client logs in by SASL."""
        return "sasl.mechanism" in self.options

    @property
    def verifies_host(self) -> bool:
        """Whether a broker's certificate must name its host."""
        return self.options.get("ssl.endpoint.identification.algorithm") != "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The settings of one source."""

    found: Mapping[str, Given]
    """By the name under which tierfold keeps a setting."""
    note: str = ""
    """What was ignored, as a sentence."""


NOTHING: Final = Source(found={})


def source_of(
    values: Mapping[str, str], where: str, own_names: Iterable[str] = ()
) -> Source:
    """The settings, by a client's names for them.

    `own_names`: what else stands there, for a name that is misspelt. Raises BadSettings for a name
    that is refused or unknown, or has two values.
    """
    found: dict[str, Given] = {}
    ignored = []
    for name, text in values.items():
        if use_of(name, where, own_names) is NameUse.IGNORED:
            ignored.append(name)
            continue
        resolved = _resolved(name, text, where)
        named = login_settings(resolved, where) if name == JAAS else {TAKEN[name]: resolved}
        for own_name, value in named.items():
            if found.get(own_name, Given(text=value, where=where)).text != value:
                raise BadSettings(
                    f"{own_name} has two values, under two names",
                    where=where,
                    remedy="Write it once.",
                )
            found[own_name] = Given(text=value, where=where)
    has, them = ("has", "it") if len(ignored) == 1 else ("have", "them")
    effect = f"{has} no effect here: tierfold reads without {them}"
    return Source(found=found, note=f"{where}: {', '.join(ignored)} {effect}" if ignored else "")


def client_settings(
    sources: Iterable[Source], environment: Mapping[str, str], servers: Given | None
) -> ClientSettings | None:
    """The settings; None: no source names a broker. Raises BadSettings.

    `sources`: a later one overrides an earlier one; `servers`: --bootstrap-server.
    """
    sources = tuple(sources)
    found: dict[str, Given] = {}
    for source in sources:
        found |= source.found
    for variable, name in VARIABLES.items():
        if environment.get(variable):
            found.setdefault(name, Given(text=environment[variable], where=variable))
    if servers is not None:
        found[SERVERS] = servers
    if SERVERS not in found:
        return None
    return ClientSettings(
        servers=_servers(found[SERVERS]),
        timeout_ms=_timeout_ms(found.get(TIMEOUT)),
        options=_options(found),
        notes=tuple(source.note for source in sources if source.note),
    )


def _resolved(name: str, text: str, where: str) -> str:
    if "${" in text:
        raise BadSettings(
            f"{name} is a reference that only a provider of Kafka can resolve",
            where=where,
            remedy="Write the value itself, or supply it in the environment (docs/kafka.md).",
        )
    if "\0" in text:
        raise BadSettings(
            f"{name} has a NUL character", where=where, remedy="Write it without one."
        )
    return text


def _servers(given: Given) -> tuple[str, ...]:
    """The brokers to ask first; a message does not repeat them: one could hold a password."""
    listed = [one.strip() for one in given.text.split(",")]
    for number, server in enumerate(listed, 1):
        found = _SERVER.fullmatch(server)
        if found is None or not 0 < int(found[1]) <= _PORT_MAX:
            raise BadSettings(
                f"broker {number} of {len(listed)} is not written as HOST:PORT",
                where=given.where,
                remedy="Write it as broker-1.example.com:9092, several with commas between them.",
            )
    return tuple(listed)


def _timeout_ms(given: Given | None) -> int:
    if given is None:
        return TIMEOUT_MS
    text = given.text.strip()
    number = int(text) if re.fullmatch("[0-9]{1,9}", text) else 0
    if number not in _TIMEOUTS_MS:
        raise BadSettings(
            f"{TIMEOUT} has a value that is not allowed",
            where=given.where,
            remedy=f"Give milliseconds from {_TIMEOUTS_MS[0]} to {_TIMEOUTS_MS[-1]}.",
        )
    return number


def _options(found: Mapping[str, Given]) -> dict[str, str]:
    protocol = _one_of("security.protocol", found, _PROTOCOLS, "PLAINTEXT")
    options = {"security.protocol": protocol}
    if "broker.address.family" in found:
        family = _one_of("broker.address.family", found, ("ANY", "V4", "V6"), "")
        options["broker.address.family"] = family.lower()
    if protocol.startswith("SASL_"):
        options |= _login(found)
    if protocol.endswith("SSL"):
        options |= _trust(found) | _own_certificate(found)
    return options


def _one_of(name: str, found: Mapping[str, Given], allowed: tuple[str, ...], default: str) -> str:
    given = found.get(name)
    text = default if given is None else given.text.strip().upper()
    if given is not None and text not in allowed:
        raise BadSettings(
            f"{name} has a value that is not allowed",
            where=given.where,
            remedy=f"Known are {', '.join(allowed)}.",
        )
    return text


def _login(found: Mapping[str, Given]) -> dict[str, str]:
    protocol = found["security.protocol"]
    given = found.get("sasl.mechanism")
    if given is None:
        what = "sasl.mechanism is not set, and Kafka's default is Kerberos"
        raise no_kerberos(what, protocol.where)
    if given.text.strip().upper() == "GSSAPI":
        raise no_kerberos("sasl.mechanism is Kerberos", given.where)
    mechanism = _one_of("sasl.mechanism", found, (*_PASSWORDS, _TOKEN), "")
    handler = found.get("sasl.login.callback.handler.class")
    if handler is not None and handler.text.strip() not in _OWN_HANDLERS:
        raise BadSettings(
            "sasl.login.callback.handler.class names a class that only Java can load",
            where=handler.where,
            remedy="Use a listener with SCRAM, OAUTHBEARER with a client secret, or a client"
            " certificate (docs/kafka.md).",
        )
    if mechanism == _TOKEN:
        return _token_login(found, given.where)
    return {
        "sasl.mechanism": mechanism,
        "sasl.username": _needed("sasl.username", found, given.where),
        "sasl.password": _needed("sasl.password", found, given.where),
    }


def _token_login(found: Mapping[str, Given], where: str) -> dict[str, str]:
    method = _one_of("sasl.oauthbearer.method", found, ("OIDC",), "OIDC")
    names = (
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.token.endpoint.url",
    )
    options = {name: _needed(name, found, where) for name in names}
    if not options[names[2]].startswith("https://"):
        raise BadSettings(
            f"{names[2]} does not begin with https://, so the client's secret would not be safe",
            where=found[names[2]].where,
            remedy="Name the endpoint that the identity provider has for TLS.",
        )
    for name in ("sasl.oauthbearer.scope", "sasl.oauthbearer.extensions"):
        if name in found:
            options[name] = found[name].text
    if "https.ca.location" in found:
        options["https.ca.location"] = _file("https.ca.location", found)
    elif (trusted := system_cas()) is not None:
        options["https.ca.location"] = trusted
    return {"sasl.mechanism": _TOKEN, "sasl.oauthbearer.method": method.lower(), **options}


def _needed(name: str, found: Mapping[str, Given], where: str) -> str:
    if found.get(name) is None or not found[name].text:
        variable = next((one for one, its_name in VARIABLES.items() if its_name == name), "")
        instead = f", or supply it in the environment as {variable}" if variable else ""
        raise BadSettings(
            f"{name} is missing",
            where=where,
            remedy=f"Write it into the file that --command-config names{instead}.",
        )
    return found[name].text


def _trust(found: Mapping[str, Given]) -> dict[str, str]:
    """Whom to trust: a file or text of certificates; without either, whom the system trusts."""
    options = {}
    store = found.get("ssl.truststore.location")
    if store is not None:
        if _one_of("ssl.truststore.type", found, ("JKS", "PKCS12", "PEM"), "JKS") != "PEM":
            raise no_java_keystore("ssl.truststore.location", store.text, store.where)
        options["ssl.ca.location"] = _file("ssl.truststore.location", found)
    for name in ("ssl.ca.location", "ssl.crl.location"):
        if name in found:
            options[name] = _file(name, found)
    if "ssl.ca.pem" in found:
        options["ssl.ca.pem"] = found["ssl.ca.pem"].text
    if "ssl.cipher.suites" in found:
        options["ssl.cipher.suites"] = found["ssl.cipher.suites"].text
    checks = found.get("ssl.endpoint.identification.algorithm")
    if checks is not None:
        allowed = ("HTTPS", "NONE", "")
        checked = _one_of("ssl.endpoint.identification.algorithm", found, allowed, "HTTPS")
        # An empty one is Java's way to say none.
        options["ssl.endpoint.identification.algorithm"] = checked.lower() or "none"
    return options


def _own_certificate(found: Mapping[str, Given]) -> dict[str, str]:
    """The client's certificate and key, if there are any."""
    options: dict[str, str] = {}
    store = found.get("ssl.keystore.location")
    if store is not None:
        kind = _one_of("ssl.keystore.type", found, ("JKS", "PKCS12", "PEM"), "JKS")
        if kind == "JKS":
            raise no_java_keystore("ssl.keystore.location", store.text, store.where)
        path = _file("ssl.keystore.location", found, is_pem=kind == "PEM")
        if kind == "PEM":  # One file has both.
            options |= {"ssl.certificate.location": path, "ssl.key.location": path}
        else:
            options["ssl.keystore.location"] = path
            options["ssl.keystore.password"] = _needed(
                "ssl.keystore.password", found, store.where
            )
    for name in ("ssl.certificate.location", "ssl.key.location"):
        if name in found:
            options[name] = _file(name, found)
    for name in ("ssl.certificate.pem", "ssl.key.pem", "ssl.key.password"):
        if name in found:
            options[name] = found[name].text
    return options


def _file(name: str, found: Mapping[str, Given], *, is_pem: bool = True) -> str:
    check_file(name, found[name].text, found[name].where, is_pem=is_pem)
    return found[name].text
