"""The archive for a cluster's executors holds every kernel that a job needs, compiled."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.processes import bare_environment
from tests.jobs.commands import ALWAYS
from tests.jobs.tiers import key_of, put_segment, put_updates, sample_copy
from tests.storage.legacy_messages import message, wrapper
from tests.storage.live_segments import data
from tierfold.jobs.spark.session import ANY_CPU
from tierfold.storage.kafka.compression import Codec

KERNELS = """
import importlib, json, pkgutil, sys
from numba.core.registry import CPUDispatcher
import tierfold
for module in pkgutil.walk_packages(tierfold.__path__, "tierfold."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
ours = [module for name, module in sys.modules.items() if name.partition(".")[0] == "tierfold"]
kernels = {value for module in ours for value in vars(module).values()
           if isinstance(value, CPUDispatcher)}
print(json.dumps({
    f"{kernel.py_func.__module__}.{kernel.__name__}": [
        kernel._cache.cache_path,
        len(kernel._cache._cache_file._load_index()),
        kernel.targetoptions.get("inline") == "always",
    ]
    for kernel in kernels
}))
"""
"""By kernel: its cache's path, how many compiled forms that has, and whether it is inlined.

Inlined kernels have no compiled form.
"""


def output_of(unpacked: Path, *arguments: str | Path) -> str:
    """Run Python in the archive, as an executor does, without this checkout on its path."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=unpacked,
        env=bare_environment() | ANY_CPU | {"PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def machine_code(unpacked: Path) -> dict[str, int]:
    """The modification time of each file of compiled kernels."""
    return {str(path): path.stat().st_mtime_ns for path in unpacked.rglob("*.nb[ci]")}


def test_every_kernel_is_compiled(unpacked: Path) -> None:
    kernels = json.loads(output_of(unpacked, "-c", KERNELS))
    assert "tierfold.storage.kafka.records._decode" in kernels
    for name, (folder, forms, is_inlined) in kernels.items():
        package = unpacked.joinpath(*name.split(".")[:-2])
        assert folder == str(package / "__pycache__"), name
        assert forms > 0 or is_inlined, name


@pytest.mark.soak
def test_the_jobs_compile_no_other_kernel(unpacked: Path, tmp_path: Path) -> None:
    tier = sample_copy(tmp_path / "tier")
    for number in range(2):
        put_updates(tier, key_of("updates"), number)
    mixed = [replace(data(i, (b"key", b"value")), codec=codec) for i, codec in enumerate(Codec)]
    put_segment(tier, key_of("mixed"), mixed, start_offset=0)
    legacy = message(0, b"value") + wrapper(2, message(0, b"1") + message(1, b"2"))
    put_segment(tier, key_of("legacy"), [legacy], start_offset=0)
    before = machine_code(unpacked)
    in_process = ("--engine", "local")
    output_of(unpacked, "-m", "tierfold", "compact", tier, *ALWAYS, *in_process)
    # The second run writes key indexes for the first one's segments, and the third reads them.
    for number in (2, 3):
        put_updates(tier, key_of("updates"), number)
        output_of(unpacked, "-m", "tierfold", "compact", tier, *ALWAYS, *in_process)
    output_of(unpacked, "-m", "tierfold", "verify", tier, *in_process)
    assert len(before) > 40
    assert machine_code(unpacked) == before


def test_packages_that_only_the_driver_needs_are_left_out(unpacked: Path) -> None:
    tops = {path.name for path in unpacked.iterdir()}
    assert {"tierfold", "numba", "numpy", "pyarrow"} <= tops
    assert tops.isdisjoint({"click", "deltalake", "pandas", "pyspark", "rich", "tests"})
