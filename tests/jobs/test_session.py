"""Where Spark cannot start: a sentence that says what to install, and nothing begun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.tiers import sample_copy

ROOT = Path(__file__).resolve().parents[2]
TOO_OLD = "#!/bin/sh\necho UnsupportedClassVersionError >&2\nexit 1\n"


def compact(tier: Path, path: str) -> subprocess.CompletedProcess[str]:
    """Compact with nothing of the environment but `path`."""
    return subprocess.run(
        [sys.executable, "-m", "jobs", "compact", str(tier), "--set", "cleanup.policy=compact"],
        cwd=ROOT,
        env={"PATH": path, "HOME": os.environ["HOME"]},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("java", [None, TOO_OLD])
def test_without_a_java_that_can_run_spark_the_sentence_says_what_to_install(
    tmp_path: Path, java: str | None
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    # Spark's launcher is a bash script; only Java is to be missing, or broken.
    for name in ("bash", "env", "dirname", "basename", "nice", "ps", "uname", "sh", "cat"):
        found = next(p for p in (Path("/bin") / name, Path("/usr/bin") / name) if p.exists())
        (tools / name).symlink_to(found)
    if java is not None:
        (tools / "java").write_text(java)
        (tools / "java").chmod(0o755)
    tier = sample_copy(tmp_path / "tier")
    done = compact(tier, str(tools))
    assert done.returncode == 2, done.stderr
    assert "Install a Java runtime 17 or newer" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tier / "_tierfold").exists()
