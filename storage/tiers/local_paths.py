"""Resolves the place of a tier or catalog: a path, or a `file:` URI of this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from tierfold.compaction.model.errors import BadSettings

_SCHEME: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):(//)?")


def local_path(text: str, *, of: str) -> Path:
    """The absolute path that `text` names; it need not exist. `of` is "tier" or "catalog".

    Raises BadSettings for an empty text, another scheme than `file:`, a URI of another machine.
    """
    if not text.strip():
        # Some programs read an empty path as the working directory, others as the root.
        raise BadSettings(
            f"the path is empty: {text!r}",
            where=of,
            remedy="Name a folder. If it was in a variable, that is not set.",
        )
    scheme = _SCHEME.match(text)
    path = Path(text) if scheme is None else Path(_path_of_uri(text, scheme[0].strip().lower(), of))
    if "\0" in str(path):
        raise BadSettings(
            "a path cannot hold a zero byte", where=text, remedy=f"Name the {of} by its path."
        )
    return path.absolute()


def _path_of_uri(text: str, scheme: str, of: str) -> str:
    if scheme.rstrip("/") != "file:":
        raise BadSettings(
            f"the {of}'s scheme {scheme} is not supported",
            where=text,
            remedy="Name a folder. Write a relative path with a colon as ./a:b.",
        )
    try:
        uri = urlsplit(text)
    except ValueError:
        # Without its cause, which may quote a password.
        raise BadSettings(
            "this is no valid URI", where=text, remedy=f"Name the {of} by its path."
        ) from None
    if uri.netloc.lower() not in {"", "localhost"} or not uri.path.startswith("/"):
        raise BadSettings(
            "a file URI names an absolute path on this machine",
            where=text,
            remedy=f"Write file:///path/to/{of}.",
        )
    if uri.query or uri.fragment:
        raise BadSettings(
            "a file URI has no query and no fragment",
            # The rest may be a secret that was meant for another scheme.
            where=text.partition("?")[0].partition("#")[0],
            remedy="In a name, write %3F for a question mark and %23 for a number sign.",
        )
    return unquote(uri.path)
