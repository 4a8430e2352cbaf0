"""Connects to a cluster, and waits for each answer only so long.

librdkafka tries again for ever, so every wait has an end here, `request.timeout.ms`; and while it
tries, the cause is taken from what it reports. A client is kept as long as the connection: one that
goes out of scope before its answer arrives would hang.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from logging import Logger
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tierfold.compaction.brokers.missing_rights import lacking
from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.compaction.model.rights import Right
from tierfold.storage.brokers.broker_errors import PERMANENT, Cause, unanswered
from tierfold.storage.brokers.client_settings import ClientSettings
from tierfold.storage.brokers.reported_failures import ReportedFailure, ReportedFailures
from tierfold.storage.brokers.tls_probe import cause_of_untrusted, listens, speaks_tls
from tierfold.storage.clock import elapsed_s

_Answer = TypeVar("_Answer")

_POLL_S: Final = 0.05
_CONNECT_MS: Final = 10_000
"""How long to try brokers that cannot be reached; one may be starting."""
_PROBE_MS: Final = 3_000
_LATE_S: Final = 2.0
"""How much later than its own timeout librdkafka may answer."""

_OF_OPENSSL: Final = (
    *("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem"),
    *("ssl.key.location", "ssl.key.pem", "ssl.keystore.location", "ssl.crl.location"),
    "ssl.cipher.suites",
)
"""What librdkafka names if OpenSSL refuses it."""

_DENIED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
_NO_ANSWER: Final = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}  # noqa: SLF001
)


class Connection:
    """A cluster that has answered; `connected` makes it."""

    def __init__(self, settings: ClientSettings) -> None:
        """Connect; raises as `connected`."""
        self.settings = settings
        self._reported = ReportedFailures()
        self._is_connected = False
        try:
            self.admin = AdminClient(self.options({}), logger=self.logger)
        except KafkaException as error:
            raise _refused_settings(error) from None
        try:
            answer = self.answer(self.admin.describe_cluster(request_timeout=self.timeout_s))
            if isinstance(answer, KafkaError):
                raise self.refusal(answer)
        except BaseException:
            # Garbage that is collected in a thread of the client itself aborts the process.
            self.admin.__exit__(None, None, None)
            raise
        self._is_connected = True
        self._reported.clear()  # Of brokers whose place another took.
        self.cluster_id: str = answer.cluster_id or ""
        self.brokers: tuple[int, ...] = tuple(sorted(node.id for node in answer.nodes))
        """The ids of the brokers that run."""

    @property
    def timeout_s(self) -> float:
        """How long to wait for an answer."""
        return self.settings.timeout_ms / 1000

    @property
    def server(self) -> str:
        """The broker that messages name, as `HOST:PORT`."""
        return self.settings.servers[0]

    def consumer(self, options: Mapping[str, Any]) -> Consumer:
        """A consumer of this cluster; what it reports counts as the connection's."""
        return Consumer(self.options(options), logger=self.logger)

    @property
    def logger(self) -> Logger:
        """Takes what a client of `options` reports, which counts as the connection's."""
        return self._reported.logger

    def options(self, more: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a client of this cluster in librdkafka's names; `more` prevail."""
        return {
            "bootstrap.servers": ",".join(self.settings.servers),
            "client.id": "tierfold",
            "socket.timeout.ms": self.settings.timeout_ms,
            "socket.connection.setup.timeout.ms": min(_CONNECT_MS, self.settings.timeout_ms),
            "reconnect.backoff.max.ms": 1000,
            # Otherwise it sends the brokers statistics, and asks them which.
            "enable.metrics.push": False,
            "error_cb": self._reported.note,
            **self.settings.options,
            **more,
        }

    def answer(self, future: Future[_Answer]) -> _Answer | KafkaError:
        """What the brokers answer; raises UnreadableObject if none of them does."""
        began_s = elapsed_s()
        while not future.done():
            wait([future], _POLL_S)
            self.admin.poll(0)  # Takes what the client reports; an answer comes without it.
            waited_s = elapsed_s() - began_s
            if not self._is_connected and self._is_hopeless(waited_s):
                raise self.silence()
            if waited_s > self.timeout_s + _LATE_S:
                raise self.silence()
        try:
            return future.result()
        except KafkaException as error:
            refused: KafkaError = error.args[0]
            if refused.code() in _NO_ANSWER:
                raise self.silence() from None
            return refused

    def _is_hopeless(self, waited_s: float) -> bool:
        """Whether no broker to ask first can be used, for reasons that waiting does not change."""
        worst = self._reported.worst()
        if worst is None or not self._reported.cover(self.settings.servers):
            return False
        return worst.cause in PERMANENT or waited_s * 1000 > _CONNECT_MS

    def refusal(self, error: KafkaError, right: Right | None = None) -> UnreadableObject:
        """The error of a request that the brokers refuse; `right`: what it needs."""
        if error.code() in _DENIED and right is not None:
            return lacking([right], self.server)
        return UnreadableObject(
            f"the cluster refuses the request ({error.name()})",
            where=f"broker {self.server}",
            remedy="Run again; if it persists, ask the cluster's operator.",
        )

    def silence(self) -> UnreadableObject:
        """Why no broker answers."""
        worst = self._reported.worst()
        if worst is None:
            is_there = self._is_connected or not listens(self.server, self._probe_ms)
            worst = ReportedFailure(Cause.TIMEOUT if is_there else Cause.NOT_KAFKA, "")
        server = worst.server or self.server
        return unanswered(self._cause(worst.cause, server), server, worst.more)

    @property
    def _probe_ms(self) -> int:
        return min(_PROBE_MS, self.settings.timeout_ms)

    def _cause(self, cause: Cause, server: str) -> Cause:
        """The cause, more exactly where the port itself can be asked."""
        if cause is Cause.UNTRUSTED:
            return cause_of_untrusted(server, self.settings, self._probe_ms)
        if cause is Cause.NEEDS_LOGIN and (self._is_connected or self.settings.uses_login):
            return Cause.CLOSED
        if cause is Cause.CLOSED and not self.settings.uses_tls:
            if speaks_tls(server, self._probe_ms):
                return Cause.NEEDS_TLS
            return Cause.CLOSED if self._is_connected else Cause.NOT_KAFKA
        return cause


def _refused_settings(error: KafkaException) -> BadSettings:
    """The refusal of a client that cannot be made; OpenSSL has looked at the files by now."""
    text = str(error.args[0].str())
    name = next((name for name in _OF_OPENSSL if name in text), "")
    what = f"OpenSSL cannot use {name}" if name else "librdkafka cannot use these settings"
    return BadSettings(
        what,
        where="--command-config or [cluster]",
        remedy="Check that certificate and key belong together, that the password of the key is"
        " right, and that ssl.cipher.suites has OpenSSL's names.",
    )


@contextmanager
def connected(settings: ClientSettings) -> Iterator[Connection]:
    """A connection to the cluster.

    Raises BadSettings if OpenSSL refuses a key or a certificate, UnreadableObject if no broker
    answers.
    """
    yield Connection(settings)
