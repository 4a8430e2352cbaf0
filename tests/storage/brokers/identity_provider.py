"""An identity provider of OAuth 2.0: an endpoint for TLS that gives a client's secret for a token.

Source: RFC 6749, 4.4 (the client's id and secret in a basic authorization), RFC 7519 (the token),
RFC 7517 (the key with which brokers check it).
"""

from __future__ import annotations

import base64
import binascii
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE: Final = "the-cluster"
ISSUER: Final = "https://id.example.com"
"""Brokers expect both in a token."""

_KEY_FILE: Final = "tokens.pem"
_KEY_SET: Final = "tokens.jwks"
_LIFE_S: Final = 3600


def make_signing_key(folder: Path) -> None:
    """Write the key that signs tokens, and the set of keys that brokers read."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / _KEY_FILE).write_bytes(pem)
    numbers = key.public_key().public_numbers()
    public = {"n": _number(numbers.n), "e": _number(numbers.e)}
    named = {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256"}
    (folder / _KEY_SET).write_text(json.dumps({"keys": [named | public]}))


def key_set_url(folder: Path) -> str:
    """Where brokers find the keys."""
    return (folder / _KEY_SET).as_uri()


@dataclass
class IdentityProvider:
    """A running endpoint."""

    url: str
    user: str
    """The client's id, and the name that its tokens have."""
    secret: str = field(repr=False)
    audience: str = AUDIENCE
    issued: int = 0
    """How many tokens it has given."""

    @contextmanager
    def issuing_for(self, audience: str) -> Iterator[None]:
        """Give tokens for another audience within this block."""
        before, self.audience = self.audience, audience
        yield
        self.audience = before


@contextmanager
def identity_provider(keys: Path, user: str, secret: str) -> Iterator[IdentityProvider]:
    """Serve on loopback, with the certificate `server.pem` of the folder."""
    signer = serialization.load_pem_private_key((keys / _KEY_FILE).read_bytes(), None)
    assert isinstance(signer, rsa.RSAPrivateKey)
    provider = IdentityProvider(url="", user=user, secret=secret)

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Answer with a token, or 401 as RFC 6749, 5.2 says."""
            self.rfile.read(int(self.headers["Content-Length"]))
            if _basic(self.headers["Authorization"]) != f"{provider.user}:{provider.secret}":
                self._answer(401, {"error": "invalid_client"})
                return
            provider.issued += 1
            token = _token(signer, provider.user, provider.audience)
            answer = {"access_token": token, "token_type": "Bearer", "expires_in": _LIFE_S}
            self._answer(200, answer)

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(keys / "server.pem")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    provider.url = f"https://127.0.0.1:{server.server_port}/token"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _basic(authorization: str | None) -> str:
    kind, _, encoded = (authorization or "").partition(" ")
    try:
        return base64.b64decode(encoded).decode() if kind == "Basic" else ""
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _token(signer: rsa.RSAPrivateKey, user: str, audience: str) -> str:
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": user, "aud": audience, "iat": now, "exp": now + _LIFE_S}
    head = {"alg": "RS256", "kid": "one"}
    signed = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
    signature = signer.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{_encoded(signature)}"


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")
