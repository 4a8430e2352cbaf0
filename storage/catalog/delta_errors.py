"""Translates the errors of delta-rs: one sentence, a remedy, and no secret.

delta-rs has one class for many causes, so its texts decide. They have several lines, with colours,
URLs and the store's XML. `test_delta_errors.py` has the texts of the version that is installed.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from deltalake.exceptions import (
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)
from obstore.exceptions import GenericError

from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    TierfoldError,
    UnreadableObject,
)
from tierfold.storage.catalog.delta_commits import REPAIR
from tierfold.storage.tiers.store_errors import (
    Cause,
    Failure,
    RequestFailedError,
    failures,
    unreadable,
)

_FAILURES: Final = (DeltaError, SchemaMismatchError, OSError, ValueError, pa.ArrowException)

_OF_STORE: Final = (
    "Object Store error",
    "Object at location",
    "Os {",
    "os error",
    "Generic Local",
)
"""Parts of the messages about an error of a disk or a store."""

_OF_BUCKET: Final = "Error performing"
"""A part of each message about a request: `Error performing GET http://…`."""

_GONE: Final = "File not found"
"""What delta-rs reports, without a reason, of a log file that it listed and then did not find."""

_NUMBER: Final = re.compile(r"\(os error (\d+)\)")
"""How Rust writes the number of a system's error."""

_LOST_FILE: Final = re.compile(r"Object at location (\S.*?) not found: ")
"""What delta-rs reports of a file in a folder that it did not find, the file in the group."""

_PLAIN: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.ENOTDIR}
)
"""Errors whose own words say all; those around them are of no use."""

_NEXT_LINE: Final = re.compile(r"\s*\n\s*(?:\x1b\[[0-9;]*m)?↳(?:\x1b\[[0-9;]*m)?\s*")
"""How delta-rs begins the line of a cause."""


@contextmanager
def translated_errors(uri: str) -> Iterator[None]:
    """Turn an error of delta-rs, Arrow or the disk into a TierfoldError about the table."""
    try:
        yield
    except TierfoldError:
        raise
    except DeltaProtocolError as error:
        raise BadSettings(
            f"the table needs a newer Delta protocol: {_first_line(str(error))}",
            where=uri,
            remedy="Use the tierfold version that wrote it, or a newer one.",
        ) from error
    except _FAILURES as error:
        # A foreign text may contain a signed URL, which a traceback would show.
        raise plain_error(error, uri) from (None if _OF_BUCKET in str(error) else error)
    except BaseException as error:
        # Rust's panics are no `Exception`. A clock before 1970 causes one.
        if type(error).__name__ != "PanicException":
            raise
        raise CorruptLog(
            f"the library of its tables failed: {_first_line(str(error))}",
            where=uri,
            remedy="Check this machine's clock, then whether the files are whole.",
        ) from error


def is_refused(error: Exception) -> bool:
    """Whether an object store refused to give a file, and did not say that there is none."""
    text = str(error)
    return _OF_BUCKET in text and _failure_in(text).cause is not Cause.MISSING


def plain_error(error: Exception, uri: str) -> CorruptLog | UnreadableObject:
    """The error for a user; it distinguishes errors of the store from corrupt data."""
    text = str(error)
    if _GONE in text:
        return _of_bucket(Failure(Cause.MISSING), uri)
    if _OF_BUCKET in text:
        return _of_bucket(_failure_in(text), uri)
    if (lost := _LOST_FILE.search(text)) is not None:
        return UnreadableObject(
            "a file of the table is not there, or no longer",
            where=lost[1],
            remedy=f"Run again: another run may have replaced it meanwhile. {REPAIR}",
        )
    if isinstance(error, OSError | TableNotFoundError) or any(sign in text for sign in _OF_STORE):
        number = _NUMBER.search(text)
        cause = int(number[1]) if number else getattr(error, "errno", None)
        what = os.strerror(cause) if cause in _PLAIN else _first_line(text)
        return UnreadableObject(
            f"the table cannot be read or written: {what}",
            where=uri,
            remedy="Check that the folder is there, its permissions, and the free space.",
        )
    return CorruptLog(
        f"the table contradicts itself: {_first_line(text)}", where=uri, remedy=REPAIR
    )


def _failure_in(text: str) -> Failure:
    """Why a request failed; obstore writes the same texts on one line."""
    try:
        with failures():
            raise GenericError(_NEXT_LINE.sub(": ", text))
    except RequestFailedError as failed:
        return failed.failure


def _of_bucket(failure: Failure, uri: str) -> UnreadableObject:
    if failure.cause is not Cause.MISSING:
        return unreadable(failure, uri, "read or write")
    return UnreadableObject(
        "a file of the table is not there, or no longer",
        where=uri,
        remedy="Run again. If that does not help, restore the catalog from a backup.",
    )


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".") or "no reason given"
