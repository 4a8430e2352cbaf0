"""The clock counts milliseconds on the same scale as the file system."""

from __future__ import annotations

from pathlib import Path

from tierfold.storage.clock import boot_s, now_ms


def test_the_clock_counts_milliseconds_as_the_file_system_does(tmp_path: Path) -> None:
    before = now_ms()
    (tmp_path / "file").touch()
    written_ms = (tmp_path / "file").stat().st_mtime_ns // 1_000_000
    # A file system may stamp with the kernel's last tick, a few milliseconds ago.
    assert before - 1000 <= written_ms <= now_ms()


def test_the_boot_clock_counts_from_the_start_of_the_machine() -> None:
    """Its sleep included, like `/proc/uptime`, which has hundredths."""
    uptime_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    assert uptime_s - 0.02 <= boot_s() <= uptime_s + 5
