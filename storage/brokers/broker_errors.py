"""Says why a cluster does not answer, in one plain sentence.

The texts of librdkafka, OpenSSL and the brokers are never repeated: an identity provider's answer
can hold a token. Only addresses, names of errors and of SASL mechanisms are taken from them.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from tierfold.compaction.model.errors import UnreadableObject


class Cause(Enum):
    """Why a broker does not answer: what is wrong, and the remedy. The first ones say most."""

    CREDENTIALS = (
        "it does not accept the user and the password",
        "Check sasl.username and sasl.password (or sasl.jaas.config), sasl.mechanism, and that this"
        " user exists on the cluster.",
    )
    REFUSED_TOKEN = (
        "it does not accept the token that the identity provider gave",
        "Compare audience, issuer and scope of the provider's tokens with what the broker expects"
        " (its sasl.oauthbearer.expected.audience and .issuer), and the clocks.",
    )
    MECHANISM = (
        "its listener does not take this sasl.mechanism",
        "Set sasl.mechanism to one that it takes.",
    )
    NO_LOGIN = (
        "its listener takes no login by SASL",
        "Set security.protocol to PLAINTEXT or SSL, or name the port of the SASL listener.",
    )
    NEEDS_LOGIN = (
        "it ends the connection at the first request without a login, as a SASL listener does",
        "Set security.protocol to SASL_SSL or SASL_PLAINTEXT, with sasl.mechanism and credentials.",
    )
    NO_TOKEN_FOR_CLIENT = (
        "the identity provider gives this client no OAUTHBEARER token to log in",
        "Check the client's id and secret (sasl.oauthbearer.client.id and .secret, or"
        " sasl.jaas.config) and sasl.oauthbearer.scope.",
    )
    UNTRUSTED_ENDPOINT = (
        "the identity provider's certificate is not trusted, so there is no OAUTHBEARER token to"
        " log in",
        "Name the file of its CA's certificate (PEM) in https.ca.location.",
    )
    TOKEN = (
        "no OAUTHBEARER token could be had to log in",
        "Check sasl.oauthbearer.token.endpoint.url, https.ca.location, and that this machine"
        " reaches the identity provider.",
    )
    UNKNOWN_CA = (
        "its certificate is from a CA that is not trusted here",
        "Name the file of the CA's certificate (PEM) in ssl.ca.location.",
    )
    WRONG_HOST = (
        "its certificate is for another host name",
        "Use the name that the certificate has, or have one issued that names this host.",
    )
    EXPIRED = (
        "its certificate has expired or is not valid yet",
        "Renew the broker's certificate, and check this machine's clock.",
    )
    UNTRUSTED = (
        "its certificate is not trusted",
        "Check ssl.ca.location, the broker's chain of certificates, and ssl.crl.location.",
    )
    CLIENT_CERTIFICATE = (
        "it refuses this client's certificate, or asks for one",
        "Set ssl.keystore.location, or ssl.certificate.location and ssl.key.location, to a"
        " certificate of a CA that the broker trusts.",
    )
    NO_TLS = (
        "its listener does not speak TLS",
        "Set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or name the port of the TLS"
        " listener.",
    )
    NEEDS_TLS = (
        "its listener speaks TLS, and this connection does not",
        "Set security.protocol to SSL or SASL_SSL.",
    )
    HANDSHAKE = (
        "no TLS connection could be agreed on",
        "Compare ssl.cipher.suites and the TLS versions of the broker.",
    )
    CONTROLLER = (
        "it is a controller, and answers no client",
        "Name the port of a broker's listener.",
    )
    UNRESOLVED = (
        "its host name cannot be resolved",
        "Check the name in --bootstrap-server, or, if it is not there, the brokers'"
        " advertised.listeners and this machine's DNS.",
    )
    REFUSED = (
        "nothing listens on this port",
        "Check host and port, or the brokers' advertised.listeners, and that the broker runs.",
    )
    UNREACHABLE = (
        "it cannot be reached",
        "Check host and port, or the brokers' advertised.listeners, the network and the firewall.",
    )
    NOT_KAFKA = (
        "something listens on this port, but does not answer as a broker",
        "Check host and port, and that the broker is not starting or overloaded.",
    )
    CLOSED = (
        "it ends the connection",
        "Check that the broker runs, and its log.",
    )
    TIMEOUT = (
        "it did not answer in time",
        "Run again, or raise request.timeout.ms.",
    )


PERMANENT: Final = frozenset(
    {
        *(Cause.CREDENTIALS, Cause.MECHANISM, Cause.NO_LOGIN),
        *(Cause.REFUSED_TOKEN, Cause.NO_TOKEN_FOR_CLIENT, Cause.UNTRUSTED_ENDPOINT, Cause.TOKEN),
        *(Cause.UNKNOWN_CA, Cause.WRONG_HOST, Cause.EXPIRED, Cause.UNTRUSTED),
        *(Cause.CLIENT_CERTIFICATE, Cause.NO_TLS, Cause.NEEDS_TLS, Cause.HANDSHAKE),
        Cause.CONTROLLER,
    }
)
"""Waiting does not help."""


def unanswered(cause: Cause, server: str, more: str = "") -> UnreadableObject:
    """The error of a broker that does not answer; `more` goes behind what is wrong."""
    what, remedy = cause.value
    return UnreadableObject(f"{what}{more}", where=f"broker {server}", remedy=remedy)
