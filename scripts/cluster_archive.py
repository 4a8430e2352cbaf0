"""Builds the archive for a cluster's executors, for spark-submit's `--archives`.

    python scripts/cluster_archive.py dist

The archive contains tierfold with every kernel compiled, and the third-party packages that
executors import. Run the script with the interpreter that has these packages installed: the archive
is for executors with the same platform and the same minor version of Python.
"""

from __future__ import annotations

import compileall
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from importlib.metadata import distribution, version
from pathlib import Path, PurePath
from py_compile import PycInvalidationMode
from typing import Final

from tierfold.jobs.spark.session import ANY_CPU

ROOT: Final = Path(__file__).resolve().parent.parent
OTHERS: Final = (
    *("google-crc32c", "llvmlite", "lz4", "numba", "numpy", "pyarrow", "zstandard"),
    *("obstore", "typing-extensions"),
    *("cffi", "cryptography", "pycparser", "pycryptodome"),
    *("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3"),
)
"""What executors import: numerics, object stores, ciphers, S3. They have PySpark with Spark."""

AWS_SERVICES: Final = frozenset({"s3", "sso", "sso-oidc", "sts"})
"""The services of botocore that store objects or give credentials; it describes four hundred."""

NOT_RUN: Final = frozenset({"__pycache__", "include", "src", "test", "tests"})
"""Third-party folders that nothing imports: tests and C headers."""

GZIP_LEVEL: Final = 4


def main(folder: Path) -> Path:
    """Build the archive in `folder`; return its path."""
    archive = folder / f"tierfold-cluster-{version('tierfold')}-{_platform()}.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".tierfold-", dir=folder) as scratch:
        content = Path(scratch) / "content"
        # Airflow's tasks run where Airflow is, and people read where they run commands.
        unwanted = shutil.ignore_patterns("__pycache__", "airflow*", "docs")
        shutil.copytree(ROOT / "tierfold", content / "tierfold", ignore=unwanted)
        for name in OTHERS:
            _copy_distribution(name, content)
        _compile(content)
        packed = Path(scratch) / archive.name
        _pack(content, packed)
        packed.replace(archive)
    return archive


def _platform() -> str:
    python = f"py{sysconfig.get_config_var('py_version_nodot')}"
    return f"{python}-{platform.system().lower()}-{platform.machine()}"


def _copy_distribution(name: str, content: Path) -> None:
    """Copy the files that pip installed to the same place below `content`."""
    for file in distribution(name).files or ():
        is_outside = ".." in file.parts  # Commands, which are in `bin`.
        if not is_outside and NOT_RUN.isdisjoint(file.parts) and not _is_other_service(file):
            target = content / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file.locate(), target)


def _is_other_service(file: PurePath) -> bool:
    """Whether the file describes a service of AWS that no executor asks."""
    is_service = file.parts[:2] == ("botocore", "data") and len(file.parts) > 3
    return is_service and file.parts[2] not in AWS_SERVICES


def _compile(content: Path) -> None:
    """Compile kernels and modules, so that the executors compile nothing."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("NUMBA_")}
    subprocess.run(
        [sys.executable, "-m", "tierfold.jobs.verbs.kernel_warmup"],
        cwd=content,
        env=environment | ANY_CPU | {"PYTHONPATH": str(content)},
        check=True,
    )
    unchecked = PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(
        content, quiet=1, workers=0, force=True, invalidation_mode=unchecked
    ):
        sys.exit("a module of the archive cannot be compiled; see above")


def _pack(content: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:gz", compresslevel=GZIP_LEVEL) as packed:
        for path in sorted(content.iterdir()):
            packed.add(path, path.name, filter=_without_owner)


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Clear the owner: the user who unpacks the archive owns the files."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    built = main(Path(sys.argv[1]))
    sys.stdout.write(f"{built} ({built.stat().st_size / 1e6:.0f} MB)\n")
