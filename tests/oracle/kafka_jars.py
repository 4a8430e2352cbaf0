"""Fetches Kafka's jars and compiles our Java tools, once per version of Kafka, into a cache folder.

Pyspark's Ivy fetches the jars from Maven Central, so no Maven is needed. The name of each folder in
the cache has a hash of its sources. It is filled under a temporary name, then renamed, all under a
lock. So two test runs at once are safe, and a killed run leaves no incomplete folder.

The tools are written against the oldest version. Where a later one has moved a class, they are
compiled with its new name (`_MOVED`). Kafka's own test jars, with `LocalTieredStorage`, end with
`_LAST_TEST_JARS`; for a later broker the class that they miss gets its old name (`java_moved`).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tierfold.compaction.model.kafka_versions import KAFKA_VERSIONS

OLDEST: Final = KAFKA_VERSIONS[0]
CACHE_VARIABLE: Final = "TIERFOLD_KAFKA_CACHE"

_HERE: Final = Path(__file__).resolve().parent
_IVY_FILES: Final = (_HERE / "ivy.xml", _HERE / "ivy_test_jars.xml")
_JAVA_SOURCES: Final = _HERE / "java"
_OLD_NAMES: Final = _HERE / "java_moved"
_STREAMS_FILE: Final = _HERE / "ivy_streams.xml"
_STREAMS_SOURCES: Final = _HERE / "java_streams"
_LAST_TEST_JARS: Final = "4.3.0"
_JAR_PATTERN: Final = "[artifact]-[revision](-[classifier]).[ext]"
_MOVED: Final = {
    f"org.apache.kafka.common.utils.{name}": f"org.apache.kafka.common.utils.internals.{name}"
    for name in ("BufferSupplier", "Exit")
}
"""Classes that the tools use, by their name in the oldest version, and their name since 4.4."""


class KafkaLabError(Exception):
    """The oracle could not be set up, or one of its tools failed; the message says what to do."""


def cache_folder(version: str) -> Path:
    """The folder of a version's jars and classes; `TIERFOLD_KAFKA_CACHE` sets where it is."""
    default = Path.home() / ".cache" / "tierfold"
    return Path(os.environ.get(CACHE_VARIABLE) or default) / f"kafka-{version}"


def class_path(version: str = OLDEST) -> str:
    """The Java class path of our tools and Kafka's jars, fetched and compiled if missing.

    Raises `KafkaLabError` if there is no JDK, no network, or the tools do not compile.
    """
    cache = cache_folder(version)
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        jars = _fetched(cache, version)
        sources = sorted(_JAVA_SOURCES.rglob("*.java"))
        inputs = [*_IVY_FILES, *sources, Path(__file__)]
        classes = _made_once(cache, "classes", inputs, partial(_compile_tools, version, jars))
    return os.pathsep.join((str(classes), str(jars / "*")))


def broker_class_path(version: str) -> str:
    """The Java class path of a broker with `LocalTieredStorage`, fetched if missing.

    Versions later than 4.3 need `javac`. Raises `KafkaLabError` as `class_path` does.
    """
    cache = cache_folder(version)
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        jars = _fetched(cache, version)
        if _test_jars(version) == version:
            return str(jars / "*")
        sources = sorted(_OLD_NAMES.rglob("*.java"))
        make = partial(_compile, version, [jars], sources)
        moved = _made_once(cache, "moved", sources, make)
    return os.pathsep.join((str(jars / "*"), str(moved)))


def streams_class_path(version: str) -> str:
    """The Java class path of `TableApplication` with Kafka Streams, fetched if missing.

    Raises `KafkaLabError` as `class_path` does.
    """
    cache = cache_folder(version)
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        jars = _fetched(cache, version)
        sources = sorted(_STREAMS_SOURCES.rglob("*.java"))
        make = partial(_make_streams, version, jars, sources)
        streams = _made_once(cache, "streams", [_STREAMS_FILE, *sources], make)
    return os.pathsep.join((str(streams), str(streams / "*"), str(jars / "*")))


def has_jars(version: str) -> bool:
    """Whether the cache has the jars of a version, so that no network is needed."""
    return _named(cache_folder(version), "jars", _IVY_FILES).is_dir()


def _test_jars(version: str) -> str:
    """The version of the test jars beside a version's jars."""
    return min(version, _LAST_TEST_JARS, key=lambda text: [int(x) for x in text.split(".")])


def _fetched(cache: Path, version: str) -> Path:
    return _made_once(cache, "jars", _IVY_FILES, partial(_fetch_jars, version, _IVY_FILES))


def _make_streams(version: str, jars: Path, sources: Sequence[Path], folder: Path) -> None:
    _fetch_jars(version, [_STREAMS_FILE], folder)
    _compile(version, [jars, folder], sources, folder)


def _compile_tools(version: str, jars: Path, folder: Path) -> None:
    """Compile the tools into `folder`, with the names that the classes have in this version."""
    clients = jars / f"kafka-clients-{version}.jar"
    with zipfile.ZipFile(clients) as jar:
        known = {name.removesuffix(".class").replace("/", ".") for name in jar.namelist()}
    with tempfile.TemporaryDirectory() as written:
        sources = []
        for source in sorted(_JAVA_SOURCES.rglob("*.java")):
            text = source.read_text()
            for name, new_name in _MOVED.items():
                text = text if name in known else text.replace(f"{name};", f"{new_name};")
            sources.append(Path(written) / source.name)
            sources[-1].write_text(text)
        _compile(version, [jars], sources, folder)


def _compile(
    version: str, jars: Sequence[Path], sources: Sequence[Path], folder: Path
) -> None:
    javac = [tool("javac"), "-nowarn", "--release", "17", "-d", str(folder)]
    _run(
        [*javac, "-cp", os.pathsep.join(f"{one}/*" for one in jars), *map(str, sources)],
        f"the oracle's Java tools do not compile with Kafka {version}. Use a JDK 17 or newer;"
        f" if a class is missing, Kafka has moved it: add it to {__file__}",
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # Closing the file releases the lock.
        yield


def _made_once(
    cache: Path, kind: str, inputs: Sequence[Path], make: Callable[[Path], None]
) -> Path:
    """The folder made from `inputs`; if missing, `make` fills a temporary one that is renamed."""
    folder = _named(cache, kind, inputs)
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=cache, prefix=f"{kind}-new-") as temporary:
            made = Path(temporary) / kind
            made.mkdir()
            make(made)
            made.rename(folder)
    return folder


def _named(cache: Path, kind: str, inputs: Sequence[Path]) -> Path:
    digest = hashlib.sha256()
    for path in inputs:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return cache / f"{kind}-{digest.hexdigest()[:16]}"


def _fetch_jars(version: str, files: Sequence[Path], folder: Path) -> None:
    spark = find_spec("pyspark")
    homes = spark.submodule_search_locations if spark else None
    found = sorted(Path(homes[0]).glob("jars/ivy-*.jar")) if homes else []
    if not found:
        raise KafkaLabError("pyspark's Ivy jar is missing: reinstall the test requirements")
    versions = [f"-Dkafka={version}", f"-Dtests={_test_jars(version)}"]
    ivy = [tool("java"), *versions, "-cp", str(found[-1]), "org.apache.ivy.Main"]
    for file in files:
        where = ["-warn", "-ivy", str(file), "-cache", str(folder.parent / "ivy")]
        _run(
            [*ivy, *where, "-retrieve", str(folder / _JAR_PATTERN)],
            f"the jars of Kafka {version} could not be fetched from Maven Central: check the"
            " version and the network, then run again",
        )


def tool(name: str) -> str:
    """The path of a program of the JDK in JAVA_HOME or else in PATH; raises `KafkaLabError`."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(name, path=str(Path(home) / "bin")) if home else None
    path = path or shutil.which(name)
    if path is None:
        raise KafkaLabError(f"Kafka's classes need `{name}`: install a JDK 17 or newer")
    return path


def _run(command: Sequence[str], failure: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KafkaLabError(f"{failure}\n{(done.stdout + done.stderr)[-4000:]}")
