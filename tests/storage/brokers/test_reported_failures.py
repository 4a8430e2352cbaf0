"""The cause is found in what librdkafka 2.16 writes, and nothing else of it is kept."""

from __future__ import annotations

import logging

import pytest

from tests.jobs.settings.refusals import CANARY
from tierfold.storage.brokers.broker_errors import Cause, unanswered
from tierfold.storage.brokers.reported_failures import ReportedFailure, ReportedFailures

SERVER = "broker-1.example.com:9092"
SASL = f"sasl_ssl://{SERVER}/bootstrap: "
SSL = f"ssl://{SERVER}/1: "
LOGGED = f"FAIL [rdkafka#consumer-7] [thrd:{SERVER}/bootstrap]: {SERVER}/bootstrap: "


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f"{SASL}SASL authentication error: Authentication failed: {CANARY}", Cause.CREDENTIALS),
        (f'{SASL}SASL authentication error: {{"status":"invalid_token"}} (after 19ms in state'
         " AUTH_REQ)", Cause.REFUSED_TOKEN),
        (
            f"{SASL}SASL PLAIN mechanism handshake failed: Broker: Request not valid in current"
            " SASL state: broker's supported mechanisms:  (after 1ms in state AUTH_HANDSHAKE)",
            Cause.NO_LOGIN,
        ),
        (
            f"{SSL}SSL handshake failed: error:0A000086:SSL routines::certificate verify failed:"
            f" broker certificate could not be verified, {CANARY}",
            Cause.UNTRUSTED,
        ),
        (
            f"{SSL}Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL"
            " alert number 42 (after 3ms in state APIVERSION_QUERY)",
            Cause.CLIENT_CERTIFICATE,
        ),
        (
            f"{SSL}SSL handshake failed: Disconnected: SSL connection closed by peer: connecting to"
            " a PLAINTEXT broker listener? (after 2ms in state SSL_HANDSHAKE)",
            Cause.NO_TLS,
        ),
        (
            f"{SSL}SSL handshake failed: error:0A00010B:SSL routines::wrong version number (after",
            Cause.NO_TLS,
        ),
        (
            f"{SSL}SSL handshake failed: error:0A000410:SSL routines::ssl/tls alert handshake"
            " failure: SSL alert number 40 (after 2ms in state SSL_HANDSHAKE)",
            Cause.HANDSHAKE,
        ),
        (f"{LOGGED}Connect to ipv4#10.0.0.1:9092 failed: Connection refused (a", Cause.REFUSED),
        (f"{LOGGED}Connect to ipv4#10.0.0.1:9092 failed: No route to host (aft", Cause.UNREACHABLE),
        (f"{LOGGED}Connection setup timed out in state CONNECT (after 1000ms", Cause.UNREACHABLE),
        (f"{LOGGED}Failed to resolve '{SERVER}': Name or service not known (aft", Cause.UNRESOLVED),
        (f"{LOGGED}Disconnected: connection closed by peer: receive 0 after POLLIN (after 0ms in"
         " state UP)", Cause.NEEDS_LOGIN),
        (f"{LOGGED}Disconnected: connection closed by peer: receive 0 after POLLIN (after 0ms in"
         " state APIVERSION_QUERY)", Cause.CLOSED),
        (f"{LOGGED}Metadata request failed: connected: Local: Required feature not supported by"
         " broker (0ms): Permanent", Cause.CONTROLLER),
    ],
)
def test_the_cause_and_the_broker_are_found(text: str, cause: Cause) -> None:
    reported = ReportedFailures()
    reported.logger.warning("%s", text)
    assert reported.worst() == ReportedFailure(cause, SERVER)
    assert CANARY not in repr(reported.worst())
    assert reported.cover([SERVER])
    assert not reported.cover([SERVER, "broker-2.example.com:9092"])


def test_the_mechanisms_that_a_broker_takes_are_named() -> None:
    reported = ReportedFailures()
    reported.logger.info(
        f"{SASL}SASL SCRAM-SHA-512 mechanism handshake failed: Broker: Unsupported SASL mechanism:"
        " broker's supported mechanisms: PLAIN,OAUTHBEARER (after 1ms in state AUTH_HANDSHAKE)"
    )
    worst = reported.worst()
    assert worst == ReportedFailure(Cause.MECHANISM, SERVER, ", only PLAIN, OAUTHBEARER")
    assert "its listener does not take this sasl.mechanism, only PLAIN, OAUTHBEARER. Set" in str(
        unanswered(worst.cause, worst.server, worst.more)
    )


def test_the_most_telling_failure_is_kept() -> None:
    reported = ReportedFailures()
    assert reported.worst() is None
    reported.logger.info(f"{SASL}SASL authentication error: Authentication failed (after 1ms in")
    reported.logger.info(f"{SASL}Disconnected: connection closed by peer (after 1ms in state INIT)")
    reported.logger.info("1/1 brokers are down")
    assert reported.worst() == ReportedFailure(Cause.CREDENTIALS, SERVER)
    reported.clear()
    assert reported.worst() is None


ASKED = "OIDC [tierfold#producer-1] [thrd:background]: Failed to retrieve OIDC token from"
URL = '"https://id.example.com/token"'
DENIED = Cause.NO_TOKEN_FOR_CLIENT


@pytest.mark.parametrize(
    ("logged", "said", "cause"),
    [
        (f'{CANARY} {{"error": "invalid_client"}} (401)', '{"error": "invalid_client"}', DENIED),
        (f"<html>{CANARY} (403)", f"<html>{CANARY}", DENIED),
        (f"<html>{CANARY} (404)", f"<html>{CANARY}", Cause.TOKEN),
        (f"Couldn't connect to server (-1) {CANARY}", "Couldn't connect to server", Cause.TOKEN),
        (
            "SSL certificate OpenSSL verify result: self-signed certificate in certificate chain"
            " (19) (-1)",
            "SSL certificate OpenSSL verify result: self-signed certificate in certificate chain"
            " (19)",
            Cause.UNTRUSTED_ENDPOINT,
        ),
    ],
)
def test_a_failed_token_counts_for_every_broker(logged: str, said: str, cause: Cause) -> None:
    reported = ReportedFailures()
    reported.logger.error(f"{ASKED} {URL}: {logged}")
    reported.logger.error(f"Failed to acquire SASL OAUTHBEARER token: {said}")
    assert reported.worst() == ReportedFailure(cause, "")
    assert reported.cover(["a:1", "b:2"])


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    ReportedFailures().logger.critical("%s/bootstrap: SASL authentication error", CANARY)
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("librdkafka").handlers == []
