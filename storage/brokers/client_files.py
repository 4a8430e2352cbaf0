"""Checks the files of certificates and keys that settings name, before librdkafka opens them.

librdkafka says only that OpenSSL failed; a missing file, a right or a Java keystore is found here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tierfold.compaction.model.errors import BadSettings

_JAVA_KEYSTORE: Final = b"\xfe\xed\xfe\xed"
"""The magic number of JKS (`sun.security.provider.JavaKeyStore`)."""

SYSTEM_CAS: Final = tuple(
    map(
        Path,
        (
            "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Alpine
            "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
            "/etc/ssl/ca-bundle.pem",  # SUSE
            "/etc/ssl/cert.pem",  # macOS
        ),
    )
)
"""Where systems keep the certificates of the CAs that they trust."""

_PEM: Final = b"-----BEGIN "
_HEAD_BYTES: Final = 1 << 20


def check_file(name: str, path: str, where: str, *, is_pem: bool = True) -> None:
    """Raise BadSettings if the file cannot be read, or, with `is_pem`, has no PEM."""
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise OSError(0, "it is not a regular file")  # librdkafka opens it again.
        with Path(path).open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name is not one"
        raise BadSettings(
            f"the file {path} of {name} cannot be read: {why}",
            where=where,
            remedy="Name a file that this user can read.",
        ) from None
    if head.startswith(_JAVA_KEYSTORE):
        raise no_java_keystore(name, path, where)
    if is_pem and _PEM not in head:
        raise BadSettings(
            f"the file {path} of {name} holds no PEM",
            where=where,
            remedy="Name a file with -----BEGIN … lines; `openssl pkcs12 -in FILE -nodes` converts"
            " PKCS#12 to it.",
        )


def system_cas(files: Iterable[Path] = SYSTEM_CAS) -> str | None:
    """The file of the CAs that this system trusts; None: there is none of them.

    The wheels of confluent-kafka ask an identity provider with a libcurl that knows only Fedora's.
    """
    return next((str(file) for file in files if file.is_file()), None)


def no_java_keystore(name: str, path: str, where: str) -> BadSettings:
    """The refusal of a Java keystore or truststore, with the command that converts it."""
    if "truststore" in name:
        kind, command = "truststore", f"keytool -list -rfc -keystore {path} > ca.pem"
        instead = "ssl.ca.location=ca.pem instead"
    else:
        kind = "keystore"
        command = f"keytool -importkeystore -srckeystore {path} -destkeystore client.p12"
        instead = "ssl.keystore.location=client.p12 with ssl.keystore.type=PKCS12"
    return BadSettings(
        f"{name} is a {kind} of Java, which the client of tierfold cannot read",
        where=where,
        remedy=f"Convert it with `{command}`, and set {instead}.",
    )
