"""Asks a port whether it speaks TLS, and why its certificate is not trusted.

librdkafka reports a certificate of an unknown CA, of another host and one that has expired by the
same words, and a TLS listener that is asked without TLS as a closed connection.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

from tierfold.storage.brokers.broker_errors import Cause
from tierfold.storage.brokers.client_settings import ClientSettings

_EXPIRED: Final = frozenset({9, 10})
_WRONG_HOST: Final = frozenset({62, 64})
_UNKNOWN_CA: Final = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's verify codes (x509_vfy.h): X509_V_ERR_…."""


def cause_of_untrusted(server: str, settings: ClientSettings, timeout_ms: int) -> Cause:
    """Why the certificate of a broker (`HOST:PORT`) is not trusted."""
    context = ssl.create_default_context(
        cafile=settings.options.get("ssl.ca.location"), cadata=settings.options.get("ssl.ca.pem")
    )
    context.check_hostname = settings.verifies_host
    try:
        _handshake(server, context, timeout_ms)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _EXPIRED:
            return Cause.EXPIRED
        if error.verify_code in _WRONG_HOST:
            return Cause.WRONG_HOST
        return Cause.UNKNOWN_CA if error.verify_code in _UNKNOWN_CA else Cause.UNTRUSTED
    except OSError:
        pass
    return Cause.UNTRUSTED


def speaks_tls(server: str, timeout_ms: int) -> bool:
    """Whether a TLS handshake with the port (`HOST:PORT`) begins well; nothing is trusted."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        _handshake(server, context, timeout_ms)
    except OSError:
        return False
    return True


def _handshake(server: str, context: ssl.SSLContext, timeout_ms: int) -> None:
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    with (
        socket.create_connection((host, int(port)), timeout_ms / 1000) as plain,
        context.wrap_socket(plain, server_hostname=host),
    ):
        pass


def listens(server: str, timeout_ms: int) -> bool:
    """Whether something accepts a connection at the port (`HOST:PORT`)."""
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout_ms / 1000).close()
    except OSError:
        return False
    return True
