"""Fetches Kafka's jars and compiles our Java tools, once, into a cache folder.

Pyspark's Ivy fetches the jars from Maven Central, so no Maven is needed. The name of each folder in
the cache has a hash of its sources. It is filled under a temporary name, then renamed, all under a
lock. So two test runs at once are safe, and a killed run leaves no incomplete folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

KAFKA_VERSION: Final = "4.3.0"
CACHE_VARIABLE: Final = "TIERFOLD_KAFKA_CACHE"

_HERE: Final = Path(__file__).resolve().parent
_IVY_FILE: Final = _HERE / "ivy.xml"
_JAVA_SOURCES: Final = _HERE / "java"
_JAR_PATTERN: Final = "[artifact]-[revision](-[classifier]).[ext]"


class KafkaLabError(Exception):
    """The oracle could not be set up, or one of its tools failed; the message says what to do."""


def cache_folder() -> Path:
    """The folder of jars and classes; `TIERFOLD_KAFKA_CACHE` sets another one."""
    default = Path.home() / ".cache" / "tierfold" / f"kafka-{KAFKA_VERSION}"
    return Path(os.environ.get(CACHE_VARIABLE) or default)


def class_path() -> str:
    """The Java class path of our tools and Kafka's jars, fetched and compiled if missing.

    Raises `KafkaLabError` if there is no JDK, no network, or the tools do not compile.
    """
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        jars = _made_once(cache, "jars", [_IVY_FILE], _fetch_jars)
        jars_path = str(jars / "*")
        sources = sorted(_JAVA_SOURCES.rglob("*.java"))

        def compile_tools(folder: Path) -> None:
            javac = [tool("javac"), "-nowarn", "--release", "17", "-d", str(folder)]
            _run(
                [*javac, "-cp", jars_path, *map(str, sources)],
                "the oracle's Java tools do not compile: use a JDK 17 or newer",
            )

        classes = _made_once(cache, "classes", [_IVY_FILE, *sources], compile_tools)
    return os.pathsep.join((str(classes), jars_path))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # Closing the file releases the lock.
        yield


def _made_once(
    cache: Path, kind: str, inputs: Sequence[Path], make: Callable[[Path], None]
) -> Path:
    """The folder made from `inputs`; if missing, `make` fills a temporary one that is renamed."""
    digest = hashlib.sha256()
    for path in inputs:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    folder = cache / f"{kind}-{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=cache, prefix=f"{kind}-new-") as temporary:
            made = Path(temporary) / kind
            made.mkdir()
            make(made)
            made.rename(folder)
    return folder


def _fetch_jars(folder: Path) -> None:
    spark = find_spec("pyspark")
    homes = spark.submodule_search_locations if spark else None
    found = sorted(Path(homes[0]).glob("jars/ivy-*.jar")) if homes else []
    if not found:
        raise KafkaLabError("pyspark's Ivy jar is missing: reinstall the test requirements")
    ivy = [tool("java"), "-cp", str(found[-1]), "org.apache.ivy.Main", "-warn"]
    where = ["-ivy", str(_IVY_FILE), "-cache", str(folder.parent / "ivy")]
    _run(
        [*ivy, *where, "-retrieve", str(folder / _JAR_PATTERN)],
        "Kafka's jars could not be fetched from Maven Central: check the network, then run again",
    )


def tool(name: str) -> str:
    """The path of `java` or `javac` in JAVA_HOME or else in PATH; raises `KafkaLabError`."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(name, path=str(Path(home) / "bin")) if home else None
    path = path or shutil.which(name)
    if path is None:
        raise KafkaLabError(f"the oracle needs `{name}`: install a JDK 17 or newer")
    return path


def _run(command: Sequence[str], failure: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KafkaLabError(f"{failure}\n{(done.stdout + done.stderr)[-4000:]}")
