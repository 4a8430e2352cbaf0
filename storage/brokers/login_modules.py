"""Reads `sasl.jaas.config`, in which Java's clients have users and passwords.

Rule: Kafka `JaasConfig`, whose text is `MODULE FLAG NAME="VALUE" …;`, with one module for a client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tierfold.compaction.model.errors import BadSettings

_PACKAGE: Final = "org.apache.kafka.common.security."
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})

_PASSWORD: Final = {"username": "sasl.username", "password": "sasl.password"}
_TOKEN: Final = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_MODULES: Final[Mapping[str, Mapping[str, str]]] = {
    f"{_PACKAGE}plain.PlainLoginModule": _PASSWORD,
    f"{_PACKAGE}scram.ScramLoginModule": _PASSWORD,
    f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule": _TOKEN,
}
"""By module: its options, and the name of a client's setting that each stands for."""

_TOKEN_OF_TEXT: Final = re.compile(
    r"""\s*(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|([\w.$-]+)|([=;]))"""
)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE: Final = re.compile(r"\\(.)")


class _Word(NamedTuple):
    text: str
    is_sign: bool
    """`=` or `;`, without quotes."""


_EQUALS: Final = _Word("=", is_sign=True)
_END: Final = _Word(";", is_sign=True)


def login_settings(text: str, where: str) -> dict[str, str]:
    """The client's settings that the text stands for, by name.

    Raises BadSettings, which repeats no option, for text that is not one module of PLAIN, SCRAM or
    OAUTHBEARER with a client's options.
    """
    words = _words(text)
    texts = [] if words is None else [word.text for word in words]
    # Module, flag and end are three, and each option is three more.
    if not words or len(words) % 3 or words[-1] != _END or texts[1].lower() not in _FLAGS:
        raise _unusable("sasl.jaas.config is not one login module with its options", where)
    if texts[0] not in _MODULES:
        if texts[0].endswith(".Krb5LoginModule"):
            raise no_kerberos("sasl.jaas.config asks for Kerberos", where)
        raise _unusable("sasl.jaas.config names a login module that only Java can load", where)
    names, found = _MODULES[texts[0]], {}
    for place in range(2, len(words) - 1, 3):
        name, sign, value = words[place : place + 3]
        if sign != _EQUALS or value.is_sign or name.text not in names:
            raise _unusable("sasl.jaas.config has an option that tierfold does not know", where)
        found[names[name.text]] = value.text
    return found


def no_kerberos(what: str, where: str) -> BadSettings:
    """The refusal of Kerberos: `confluent-kafka` is built without it."""
    return BadSettings(
        f"{what} (GSSAPI), which the client of tierfold is built without",
        where=where,
        remedy="Use a listener with SCRAM or a client certificate, and set sasl.mechanism or"
        " security.protocol=SSL.",
    )


def _unusable(what: str, where: str) -> BadSettings:
    return BadSettings(
        what,
        where=where,
        remedy=f"Write one of {', '.join(name.removeprefix(_PACKAGE) for name in _MODULES)} (with"
        f" {_PACKAGE} before it), required, its options in quotes, and a semicolon; or set"
        " sasl.username and sasl.password instead.",
    )


def _words(text: str) -> list[_Word] | None:
    """The words of the text, quotes and escapes resolved; None: it has other characters."""
    words, position, end = [], 0, len(text.rstrip())
    while position < end:
        found = _TOKEN_OF_TEXT.match(text, position)
        if found is None:
            return None
        position = found.end()
        quoted = found[1] if found[1] is not None else found[2]
        if quoted is None:
            words.append(_Word(found[3] or found[4], is_sign=found[4] is not None))
        else:
            words.append(_Word(_ESCAPE.sub(_resolved, quoted), is_sign=False))
    return words


def _resolved(escape: re.Match[str]) -> str:
    return _ESCAPES.get(escape[1], escape[1])
