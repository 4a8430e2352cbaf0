"""Servers that speak the protocols of S3 and Azure, started once per test process.

moto comes from PyPI and always runs. The tests on versitygw and Azurite are left out where these
are not installed (`emulator_programs`), and the end of the run says so.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import functools
import hmac
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import boto3
from botocore.config import Config

from tests.storage.emulator_programs import AZURITE, NODE, ROOT, VERSITYGW, missing_emulators

IDENTITY: Final = {
    "AWS_ACCESS_KEY_ID": "AKIATIERFOLDTEST",
    "AWS_SECRET_ACCESS_KEY": "a-planted/secret+of-S3",
    "AWS_REGION": "us-east-1",
}
AZURE_ACCOUNT: Final = "devstoreaccount1"
AZURE_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""Azurite's well-known account and key."""

_NUMBERS: Final = itertools.count()
_STARTED_WITHIN_S: Final = 60

PORTS: Final = range(20_000, 30_000)
"""Of emulators. The kernel gives no other process one of them: between the search for a free port
and the emulator's start, a JVM of Spark once got the port that was found."""

_PORTS_TRIED: Final = itertools.count()

_WHILE_OPEN: Final = 'folder=$1; shift; "$@" <&- & read -r; kill -KILL $!; rm -rf "$folder"'
"""Runs a command until the pipe to this process closes, then deletes the command's folder.

A process of xdist ends without `atexit`.
"""

_RUNNING: Final[list[subprocess.Popen[bytes]]] = []
"""Keeps the pipes open."""


def new_name() -> str:
    """A bucket's name that no other test uses."""
    return f"bucket-{os.getpid()}-{next(_NUMBERS)}"


def new_bucket(endpoint: str) -> str:
    """Create a bucket on an S3 emulator."""
    name = new_name()
    s3_client(endpoint).create_bucket(Bucket=name)
    return name


def uploaded(folder: Path, endpoint: str) -> str:
    """Upload a tier to a new bucket on an S3 emulator; return its URI."""
    bucket = new_bucket(endpoint)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        key = f"tier/{path.relative_to(folder)}"
        s3_client(endpoint).put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    return f"s3://{bucket}/tier"


def s3_environment(endpoint: str) -> dict[str, str]:
    """The environment variables by which tierfold finds an S3 emulator and its credentials."""
    return {**IDENTITY, "AWS_ENDPOINT_URL": endpoint}


@functools.cache
def s3_client(endpoint: str) -> Any:
    """A client that sets up what a test needs."""
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=IDENTITY["AWS_REGION"],
        aws_access_key_id=IDENTITY["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=IDENTITY["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}),
    )


def new_container(endpoint: str) -> str:
    """Create a container on Azurite: a request signed with the account's key."""
    name = new_name()
    date = email.utils.formatdate(usegmt=True)
    lines = [
        "PUT", *[""] * 11, f"x-ms-date:{date}", "x-ms-version:2021-08-06",
        f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{name}", "restype:container",
    ]  # fmt: skip
    key = base64.b64decode(AZURE_KEY)
    digest = hmac.digest(key, "\n".join(lines).encode(), "sha256")
    request = urllib.request.Request(
        f"{endpoint}/{name}?restype=container",
        method="PUT",
        headers={
            "Authorization": f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}",
            "x-ms-date": date,
            "x-ms-version": "2021-08-06",
        },
    )
    with urllib.request.urlopen(request, timeout=_STARTED_WITHIN_S):
        return name


class Server(NamedTuple):
    """A running emulator."""

    endpoint: str
    pid: int
    """Of a process that it is a child of."""
    folder: Path
    """Its own; versitygw keeps each bucket as a folder in it."""


@functools.cache
def moto() -> str:
    """The endpoint of moto."""
    return _started(
        lambda port, _: [sys.executable, "-m", "tests.storage.moto_server", str(port)]
    ).endpoint


def s3() -> str:
    """The endpoint of versitygw, or of moto, which is slower, where versitygw is not installed."""
    return moto() if "versitygw" in missing_emulators() else versitygw()


def versitygw() -> str:
    """The endpoint of versitygw."""
    return versitygw_server().endpoint


@functools.cache
def versitygw_server() -> Server:
    """A running versitygw."""
    return _started(
        lambda port, folder: [
            str(VERSITYGW), "--port", f"127.0.0.1:{port}", "--quiet", "posix", folder,
        ],
        ROOT_ACCESS_KEY=IDENTITY["AWS_ACCESS_KEY_ID"],
        ROOT_SECRET_KEY=IDENTITY["AWS_SECRET_ACCESS_KEY"],
    )  # fmt: skip


@functools.cache
def azurite() -> str:
    """The endpoint of Azurite's account."""
    server = _started(
        lambda port, folder: [
            str(NODE), str(AZURITE), "--blobPort", str(port), "--blobHost", "127.0.0.1",
            "--location", folder, "--silent", "--skipApiVersionCheck",
        ]
    )  # fmt: skip
    return f"{server.endpoint}/{AZURE_ACCOUNT}"


def free_port() -> int:
    """A port on which nothing listens; other processes of the same test run get others."""
    while True:
        port = PORTS[(os.getpid() * 101 + next(_PORTS_TRIED)) % len(PORTS)]
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port


def _started(command: Callable[[int, str], list[str]], **environment: str) -> Server:
    """Start a server on a free port, wait until it listens, and end it with this process.

    `command`: (port, a folder of its own) → the command.
    """
    folder = tempfile.mkdtemp(prefix="emulator-")
    port = free_port()
    server = subprocess.Popen(
        ["bash", "-c", _WHILE_OPEN, "emulator", folder, *command(port, folder)],
        cwd=ROOT,
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _RUNNING.append(server)
    deadline = time.monotonic() + _STARTED_WITHIN_S
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return Server(f"http://127.0.0.1:{port}", server.pid, Path(folder))
        time.sleep(0.05)
    raise RuntimeError(f"{command(port, folder)[0]} did not start within {_STARTED_WITHIN_S} s")
