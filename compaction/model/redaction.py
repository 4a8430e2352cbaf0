"""Redaction of foreign text: hides secrets, and escapes characters that are not printable.

Every error (`compaction.model.errors`) and every foreign exception goes through `redacted`, so that
logs, tables, the catalog and `--json` can repeat them safely.

It hides secrets as Kafka does (`Password.HIDDEN`): the user part and the query of a URI, and the
value after a name that suggests a secret. In doubt it hides more.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "[hidden]"
"""The placeholder for a secret (Kafka `org.apache.kafka.common.config.types.Password`)."""

# One or two slashes: a path made from a URI has lost one. After three, as in `file:///`, there is
# no user part, unless a `:` comes before an `@`.
_URI: Final = re.compile(r"([A-Za-z0-9+.-]{0,10}):(/{1,2}(?!/)|/{3,}(?=\S*:\S*@))(\S*)")

_CONTAINER_SCHEMES: Final = ("abfs", "abfss", "wasb", "wasbs")
_CONTAINER: Final = re.compile(r"[a-z0-9$-]{1,63}")
"""A container, which Azure's URIs have instead of a user: `abfss://container@account/…`."""

_ASSIGNED: Final = re.compile(
    r"((?:secret|passw|token|credential|signature|jaas|\bsig|\bsas"
    r"|(?:access|account|api|private|master|keystore)[._-]?key)[\w.-]{0,80}[\"']?\s*)"
    r"(=\s*(?:\[hidden\]|\"[^\"]*\"|'[^']*'|\S+)|:\s*(?:Some\()?(?:\"[^\"]*\"|'[^']*'))",
    re.IGNORECASE,
)
"""`password=…`, `"secret": "…"`. A colon counts only before quotes, because it also follows a topic
in messages."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,60}(\.[a-zA-Z0-9_-]{1,60}){0,20}|")
"""The name of a setting, or nothing."""


def redacted(text: str) -> str:
    """Foreign text made safe for a terminal, a log or a table; safe text stays unchanged."""
    return printable(without_secrets(text))


def without_secrets(text: str) -> str:
    """The text with `HIDDEN` for users and queries of URIs, and for values of secret names."""
    return _ASSIGNED.sub(_hidden_value, _URI.sub(_hidden_parts, text))


def printable(text: str) -> str:
    r"""The text with escapes (`\x1b`, `\n`, `\u202e`) for characters that are not printable."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def setting_name(name: str) -> str:
    """An unknown setting's name, quoted; `HIDDEN` if it does not look like a name."""
    return repr(name) if _NAME.fullmatch(name) else HIDDEN


def _hidden_parts(found: re.Match[str]) -> str:
    scheme, slashes, rest = found.groups()
    first = re.search(r"[/?#]", rest)
    authority = rest if first is None else rest[: first.start()]
    user, at, _ = authority.partition("@")
    is_container = scheme in _CONTAINER_SCHEMES and _CONTAINER.fullmatch(user) is not None
    # A secret may contain unescaped slashes, so everything up to the last @ is hidden.
    if "@" in rest and (at or ":" in rest) and not (is_container and rest.count("@") == 1):
        rest = HIDDEN + rest[rest.rindex("@") :]
    query = re.search(r"[?#]", rest)
    if query is not None:
        rest = rest[: query.end()] + HIDDEN
    return f"{scheme}:{slashes}{rest}"


def _hidden_value(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2][0]}{HIDDEN}"
