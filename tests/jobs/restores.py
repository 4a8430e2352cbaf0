"""Restores by copy: a small compacted tier, and what is true of it afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.jobs.claims import ORDERS
from tests.jobs.commands import ALWAYS, CLOCK, Ran, status_of, tierfold
from tests.jobs.tiers import NOW_MS, records_in, updated_tier

NOW: Final = (CLOCK, str(NOW_MS))
LATER: Final = (CLOCK, str(NOW_MS + 3 * 86_400_000))
DETACHED: Final = ("--set", "tier.binding=detached")


def compacted_once(folder: Path) -> Path:
    """Two segments, compacted into one."""
    tier = updated_tier(folder, [ORDERS], 2)
    assert tierfold("compact", tier, *ALWAYS, *NOW).code == 0
    return tier


def lines_of(tier: Path, name: str = "orders-0") -> list[dict[str, Any]]:
    """The history, newest first."""
    lines: list[dict[str, Any]] = tierfold("history", tier, name, "--json").entries[0]["history"]
    return lines


def found_at(tier: Path, name: str = "orders-0") -> str:
    return str(lines_of(tier, name)[-1]["committed_at"])


def restore(tier: Path, to: str, *arguments: str, name: str = "orders-0") -> Ran:
    return tierfold("restore", tier, name, "--to", to, "--copy", "--json", *arguments)


def parts(tier: Path, segment_id: str) -> dict[str, bytes]:
    """The files of a segment, without its id."""
    return {path.suffix: path.read_bytes() for path in tier.rglob(f"*-{segment_id}.*")}


def values(tier: Path, topic: str = "orders") -> dict[bytes | None, bytes | None]:
    """The last value of each key in the live segments."""
    logs = [segment["log"] for segment in status_of(tier)[topic, 0]["segments"]]
    return {key: value for _, key, value in records_in(logs)}


def sound(tier: Path) -> None:
    verified = tierfold("verify", tier, "--json")
    assert (verified.code, verified.entries[0]["corruptions"]) == (0, []), verified
