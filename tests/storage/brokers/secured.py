"""A broker with a listener for each way to connect; keys and certificates are made here."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from tests.brokers.access import ACCESS_SETTINGS, PASSWORD, USER
from tests.brokers.cluster import KafkaCluster
from tests.storage.brokers.identity_provider import AUDIENCE, ISSUER, key_set_url, make_signing_key
from tierfold.storage.brokers.client_settings import (
    ClientSettings,
    Given,
    client_settings,
    source_of,
)

SCRAM_USER: Final = "scram"

LISTENERS: Final = {
    "SASL": "SASL_PLAINTEXT",
    "ONLYPLAIN": "SASL_PLAINTEXT",
    "TOKENS": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "MTLS": "SSL",
    "SASLTLS": "SASL_SSL",
    "OTHERHOST": "SSL",
    "EXPIRED": "SSL",
}
"""Beside PLAINTEXT: a name and its protocol."""

_SECURITY: Final = "org.apache.kafka.common.security"
_SCRAM: Final = ("scram-sha-256", "scram-sha-512")
_CERTIFICATES: Final = {"OTHERHOST": "other", "EXPIRED": "expired"}


class SecuredCluster(KafkaCluster):
    """A cluster whose brokers have all these listeners, and grant rights."""

    def __init__(self, folder: Path) -> None:
        self.keys = folder / "keys"
        self.keys.mkdir()
        _make_keys(self.keys)
        make_signing_key(self.keys)
        settings = ACCESS_SETTINGS | self._listener_settings()
        super().__init__(folder, settings=settings, listeners=LISTENERS)

    def first_server(self, listener: str) -> str:
        """The address of the first broker at one of its listeners."""
        return self.servers_of(listener).partition(",")[0]

    def _listener_settings(self) -> dict[str, str]:
        found = {
            "listener.name.mtls.ssl.client.auth": "required",
            # A wrong password is answered at once.
            "connection.failed.authentication.delay.ms": "0",
        }
        plain = f'{_SECURITY}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        for name, protocol in LISTENERS.items():
            prefix = f"listener.name.{name.lower()}."
            if name == "TOKENS":
                found |= self._token_settings(prefix)
            elif "SASL" in protocol:
                mechanisms = ["plain", *(_SCRAM if name != "ONLYPLAIN" else ())]
                found[f"{prefix}sasl.enabled.mechanisms"] = ",".join(mechanisms).upper()
                found[f"{prefix}plain.sasl.jaas.config"] = plain
                for one in mechanisms[1:]:
                    module = f"{_SECURITY}.scram.ScramLoginModule required;"
                    found[f"{prefix}{one}.sasl.jaas.config"] = module
            if "SSL" in protocol:
                for store, file in (
                    ("keystore", _CERTIFICATES.get(name, "server")),
                    ("truststore", "ca"),
                ):
                    found[f"{prefix}ssl.{store}.type"] = "PEM"
                    found[f"{prefix}ssl.{store}.location"] = str(self.keys / f"{file}.pem")
        return found

    def _token_settings(self, prefix: str) -> dict[str, str]:
        package = f"{_SECURITY}.oauthbearer"
        return {
            f"{prefix}sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}oauthbearer.sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
            f"{prefix}oauthbearer.sasl.server.callback.handler.class": (
                f"{package}.OAuthBearerValidatorCallbackHandler"
            ),
            f"{prefix}sasl.oauthbearer.jwks.endpoint.url": key_set_url(self.keys),
            f"{prefix}sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{prefix}sasl.oauthbearer.expected.issuer": ISSUER,
        }

    def add_scram_user(self) -> None:
        """Make `SCRAM_USER`, with the same password, for both hashes."""
        admin = self.admin()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            hashed = ScramCredentialInfo(mechanism, 4096)
            user = UserScramCredentialUpsertion(SCRAM_USER, hashed, PASSWORD.encode())
            admin.alter_user_scram_credentials([user])[SCRAM_USER].result(30)


def client(server: str, values: Mapping[str, str]) -> ClientSettings:
    """The settings of a client with these properties."""
    given = Given(text=server, where="--bootstrap-server")
    found = client_settings([source_of(values, "f")], {}, given)
    assert found is not None
    return found


def _make_keys(folder: Path) -> None:
    """Write `ca.pem`, and for each of the others files with key, certificate and CA."""
    now = dt.datetime.now(dt.UTC)
    past = now - dt.timedelta(days=400)
    year = dt.timedelta(days=365)
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    authorities = {}
    for name in ("ca", "foreign"):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _certificate(subject, subject, key, now - year, now + year)
        is_ca = x509.BasicConstraints(ca=True, path_length=0)
        signed = builder.add_extension(is_ca, critical=True).sign(key, hashes.SHA256())
        authorities[name] = (key, signed)
        (folder / f"{name}.pem").write_bytes(_pem(authorities[name][1]))
    for name, alternative, begins, authority in (
        ("server", loopback, now - year, "ca"),
        ("other", x509.DNSName("other.example.com"), now - year, "ca"),
        ("expired", loopback, past - year, "ca"),
        ("client", x509.DNSName("client"), now - year, "ca"),
        ("unknown", x509.DNSName("client"), now - year, "foreign"),
    ):
        ca_key, ca = authorities[authority]
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _certificate(subject, ca.subject, key, begins, begins + 2 * year - year / 2)
        names = x509.SubjectAlternativeName([alternative])
        signed = builder.add_extension(names, critical=False).sign(ca_key, hashes.SHA256())
        chain = _pem(signed) + _pem(ca)
        (folder / f"{name}.pem").write_bytes(_pem_of_key(key, None) + chain)
        (folder / f"{name}.locked.pem").write_bytes(_pem_of_key(key, PASSWORD) + chain)
        locked = serialization.BestAvailableEncryption(PASSWORD.encode())
        store = pkcs12.serialize_key_and_certificates(None, key, signed, [ca], locked)
        (folder / f"{name}.p12").write_bytes(store)


def _pem_of_key(key: ec.EllipticCurvePrivateKey, password: str | None) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    if password is None:
        plain = serialization.NoEncryption()
        return key.private_bytes(serialization.Encoding.PEM, form, plain)
    locked = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, form, locked)


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begins: dt.datetime,
    ends: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
