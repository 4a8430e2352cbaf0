"""A small tier and runs on it whose metrics are looked at."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from tests.jobs.commands import COMPACT, Ran, tierfold
from tests.jobs.tiers import folder_of, key_of, updated_tier
from tierfold.jobs.reports.metrics import LAST_SUCCESS, STOPPED, Group, Sample

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


def samples(text: str) -> dict[tuple[str, str, str], float]:
    """By metric, verb and topic."""
    return {
        (one.name, one.labels["verb"], one.labels.get("topic", "")): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def success(topic: str, at_s: float, *, is_success: bool = True) -> Group:
    """The metrics of a topic after a run that ended at this time."""
    key = {"tier": "/t", "verb": "compact", "topic": topic}
    names = {"tierfold_refused_partitions": 1.0} | ({LAST_SUCCESS: at_s} if is_success else {})
    return Group(
        key=key,
        samples=tuple(Sample(name=name, value=value, labels=key) for name, value in names.items()),
    )


def run_with(*stopped: str) -> Group:
    """The run's own metrics, with a partition of each of these topics stopped."""
    key = {"tier": "/t", "verb": "compact"}
    labels = (
        {**key, "topic": topic, "partition": f"{topic}-0", "reason": "a gap"} for topic in stopped
    )
    values = [Sample(name="tierfold_run_duration_seconds", value=1, labels=key)]
    values += [Sample(name=STOPPED, value=1, labels=one) for one in labels]
    return Group(key=key, samples=tuple(values))


def monitoring(name: str) -> str:
    """A file of conf/monitoring, from where users find it."""
    return resources.files("tierfold.conf").joinpath(f"monitoring/{name}").read_text("utf-8")
