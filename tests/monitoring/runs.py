"""A small tier and runs on it whose metrics are looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.jobs.commands import COMPACT, Ran, tierfold
from tests.jobs.tiers import folder_of, key_of, updated_tier

SETTINGS: Final = """
[topics."*"]
"cleanup.policy" = "compact"
"min.cleanable.dirty.ratio" = "0"
labels = {team = "shop", cost_center = "7"}

[topics."bills"]
labels = {team = "books"}
"""

TOPICS: Final = ("orders", "bills")


def labelled_tier(tier: Path) -> Path:
    """A tier of both topics, and beside it their settings with labels; return these."""
    updated_tier(tier, [key_of(topic) for topic in TOPICS], 3)
    config = tier.parent / "tierfold.toml"
    config.write_text(SETTINGS)
    return config


def refusing_run(tier: Path, *options: object) -> Ran:
    """Run `compact` on a tier of which one partition has a gap and is refused."""
    config = labelled_tier(tier)
    middle = sorted(folder_of(tier, key_of("orders")).glob("*.log"))[1]
    for path in middle.parent.glob(f"{middle.stem}.*"):
        path.unlink()
    ran = tierfold("compact", tier, *COMPACT, "--config", config, *options, "--json")
    assert ran.code == 3, ran.stdout
    return ran
