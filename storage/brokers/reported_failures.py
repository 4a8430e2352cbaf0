"""Finds the cause in what librdkafka reports while it tries again, for ever.

librdkafka answers a call only with "timed out". What went wrong is in its error callback and in
its log lines, of which these take the address and, by patterns, the cause.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from tierfold.storage.brokers.broker_errors import Cause

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_BROKER: Final = re.compile(
    r"(?:^|\s)(?:[a-z_]{3,14}://)?([^\s/]{1,300}:\d{1,5})/(?:bootstrap|\d+): "
)

_CAUSES: Final = (
    (re.compile(r"supported mechanisms: +\(|not valid in current SASL state"), Cause.NO_LOGIN),
    (re.compile(r"supported mechanisms: [A-Z]"), Cause.MECHANISM),
    # RFC 7628, 3.2.2: what a server answers to a token that it does not accept.
    (re.compile(r'SASL authentication error: \{"status"'), Cause.REFUSED_TOKEN),
    (re.compile(r"SASL authentication error"), Cause.CREDENTIALS),
    # RFC 6749, 5.2: what an identity provider answers to a client that gets none.
    (re.compile(r'OAUTHBEARER token: .*"error"|OIDC token from .*\(40[013]\)'),
     Cause.NO_TOKEN_FOR_CLIENT),
    (re.compile(r"(?:OAUTHBEARER token:|OIDC token from) .*certificate"),
     Cause.UNTRUSTED_ENDPOINT),
    (re.compile(r"OAUTHBEARER token"), Cause.TOKEN),
    (re.compile(r"certificate verify failed"), Cause.UNTRUSTED),
    (re.compile(r"alert (?:bad|unknown|expired|revoked)? ?(?:certificate|ca)|certificate required"),
     Cause.CLIENT_CERTIFICATE),
    (re.compile(r"PLAINTEXT broker listener|wrong version number|packet length too long"),
     Cause.NO_TLS),
    (re.compile(r"SSL handshake failed"), Cause.HANDSHAKE),
    (re.compile(r"Required feature not supported"), Cause.CONTROLLER),
    (re.compile(r"Failed to resolve"), Cause.UNRESOLVED),
    (re.compile(r"Connection refused"), Cause.REFUSED),
    (re.compile(r"Connect to .* failed|setup timed out|timed out in state CONNECT"),
     Cause.UNREACHABLE),
    (re.compile(r"closed by peer.*in state UP\)"), Cause.NEEDS_LOGIN),
    (re.compile(r"closed by peer|Disconnected|Receive failed|Send failed"), Cause.CLOSED),
)
"""What librdkafka 2.16 writes; the first that matches counts."""

_MECHANISMS: Final = re.compile(r"supported mechanisms: ([A-Z0-9,-]{1,200})")
_RANKS: Final = {cause: rank for rank, cause in enumerate(Cause)}


class ReportedFailure(NamedTuple):
    """Why one broker could not be used."""

    cause: Cause
    server: str
    """`HOST:PORT`; empty: no broker in particular."""
    more: str = ""
    """What the broker takes instead."""


class ReportedFailures(logging.Handler):
    """What librdkafka has reported of each broker, the most telling of it."""

    def __init__(self) -> None:
        """None yet."""
        super().__init__()
        self.logger = logging.Logger("librdkafka")
        """Passed to a client; it has no parent, so nothing is printed."""
        self.logger.addHandler(self)
        self._worst: dict[str, ReportedFailure] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self._take(record.getMessage())

    def note(self, error: KafkaError) -> None:
        """The callback for errors."""
        self._take(error.str())

    def clear(self) -> None:
        """Forget all."""
        self._worst.clear()

    def _take(self, text: str) -> None:
        cause = next((cause for pattern, cause in _CAUSES if pattern.search(text)), None)
        if cause is None:
            return
        named, takes = _BROKER.search(text), _MECHANISMS.search(text)
        more = f", only {takes[1].replace(',', ', ')}" if takes and cause is Cause.MECHANISM else ""
        found = ReportedFailure(cause, "" if named is None else named[1], more)
        known = self._worst.get(found.server)
        if known is None or _RANKS[found.cause] <= _RANKS[known.cause]:
            self._worst[found.server] = found

    def worst(self) -> ReportedFailure | None:
        """The most telling one; None: librdkafka has reported nothing that is known."""
        return min(self._worst.values(), key=lambda one: _RANKS[one.cause], default=None)

    def cover(self, servers: Iterable[str]) -> bool:
        """Whether each of the brokers could not be used, or the login failed for all."""
        return "" in self._worst or all(server in self._worst for server in servers)
