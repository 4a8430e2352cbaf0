"""Finds planted secrets in the places that they could leak to: files, objects, command lines."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow.parquet as pq

from tests.end_to_end.processes import repeated, text_of, with_descendants

_LOOK_EVERY_S: Final = 0.05


def holding(contents: Mapping[str, bytes], secrets: Iterable[str]) -> list[str]:
    """The names of the contents that hold a secret: plain, URL-encoded, or in base64."""
    forms = [
        form.encode()
        for secret in secrets
        for form in (secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode())
    ]
    return [name for name, content in contents.items() if any(form in content for form in forms)]


def files_below(folder: Path, *names: str) -> dict[str, bytes]:
    """Every file below a folder whose name matches one of the patterns `names`."""
    paths = (path for name in names for path in folder.rglob(name) if path.is_file())
    return {str(path): path.read_bytes() for path in paths}


def objects_in(s3: Any, bucket: str) -> dict[str, bytes]:
    """Every object of a bucket, and its metadata; the rows of a table as text."""
    found = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for key in (entry["Key"] for entry in page.get("Contents", ())):
            answer = s3.get_object(Bucket=bucket, Key=key)
            content: bytes = answer["Body"].read()
            if key.endswith(".parquet"):
                content = str(pq.read_table(io.BytesIO(content)).to_pylist()).encode()
            found[key] = content + str(answer["Metadata"]).encode()
    return found


@contextmanager
def command_lines() -> Iterator[set[str]]:
    """The command lines of this process's descendants, collected until the block ends."""
    seen: set[str] = set()

    def look() -> None:
        seen.update(text_of(pid, "cmdline") for pid in with_descendants(os.getpid()))

    with repeated(look, _LOOK_EVERY_S):
        yield seen
