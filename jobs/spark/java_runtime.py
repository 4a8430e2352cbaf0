"""Finds the Java runtime that Spark would start, and says why its process ended.

Rule: Spark's `bin/spark-class` takes the `java` of JAVA_HOME if that is set, otherwise of PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Final

from tierfold.compaction.model.errors import BadSettings

JAVA_VERSION_MIN: Final = 17

_NO_JAVA: Final = (
    f"Install a Java runtime {JAVA_VERSION_MIN} or newer (Debian, Ubuntu: apt-get install "
    f"openjdk-{JAVA_VERSION_MIN}-jre-headless; elsewhere: Temurin {JAVA_VERSION_MIN}) and put it on"
    " PATH or in JAVA_HOME. For a small tier, --engine local needs no Java."
)

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')

_OPTIONS: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")

_ANSWER_S: Final = 30.0

LOCAL_IP: Final = "SPARK_LOCAL_IP"
"""The variable with this machine's address, or a name of it, which Spark then looks up."""

LOOPBACK: Final = "127.0.0.1"
"""Where the processes of a local session find each other."""


def ensure_java() -> None:
    """Raise BadSettings unless there is a program that Spark would start."""
    if _java_program() is None:
        home = os.environ.get("JAVA_HOME")
        raise BadSettings(
            f"JAVA_HOME is {home}, where there is no bin/java" if home else "no Java runtime",
            where="Spark",
            remedy=_NO_JAVA,
        )


def jvm_exit() -> BadSettings:
    """Why Spark's JVM ended before it answered, as far as it is known.

    It is no Java, or too old a one; otherwise the JVM itself has said why.
    """
    program = _java_program()
    found = "" if program is None else _answer_of(program)
    version = _VERSION.search(found)
    if version is None:
        return BadSettings(
            "Java could not be started; see its message above", where="Spark", remedy=_NO_JAVA
        )
    if int(version[1]) < JAVA_VERSION_MIN:
        return BadSettings(
            f"{program} is Java {version[1]}, and Spark needs {JAVA_VERSION_MIN} or newer",
            where="Spark",
            remedy=_NO_JAVA,
        )
    if unresolved := _unresolved_name():
        return BadSettings(
            f"{LOCAL_IP} is {unresolved}, a host name that does not resolve",
            where="Spark",
            remedy=f"Unset it, or give an address of this machine, such as {LOOPBACK}. For a small"
            " tier, --engine local needs no Java.",
        )
    return BadSettings(
        f"Spark's process ended before it answered, although {program} is Java {version[1]}",
        where="Spark",
        remedy="Its messages above say why: often an option that it does not know"
        " (JAVA_TOOL_OPTIONS), or too little memory. For a small tier, --engine local needs no"
        " Java.",
    )


def _unresolved_name() -> str:
    """The user's name for this machine if it does not resolve; otherwise empty.

    Spark looks up no other name for a local session, not even the machine's own.
    """
    name = os.environ.get(LOCAL_IP, "")
    try:
        socket.getaddrinfo(name or LOOPBACK, None)
    except (OSError, UnicodeError):
        return name
    return ""


def _java_program() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if not home:
        return shutil.which("java")
    program = Path(home) / "bin" / "java"
    return str(program) if os.access(program, os.X_OK) else None


def _answer_of(program: str) -> str:
    """What it prints about its version, without options of the user's; empty if it does not run."""
    environment = {name: text for name, text in os.environ.items() if name not in _OPTIONS}
    try:
        return subprocess.run(
            [program, "-version"],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_ANSWER_S,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""
