"""Settings of tiered topics: drawn at random, and which of them Kafka takes together."""

from __future__ import annotations

from random import Random
from typing import Final

_LIMITS: Final = (
    *("retention.ms", "retention.bytes"),
    *("local.retention.ms", "local.retention.bytes"),
)


def kafka_takes(values: dict[str, str]) -> bool:
    """Kafka's checks between a topic's settings (`LogConfig.validateTopicLogConfigValues`)."""
    if values["remote.storage.enable"] != "true":
        return True
    total = {name: int(values[name]) for name in _LIMITS}
    for kind in ("ms", "bytes"):
        kept, local = total[f"retention.{kind}"], total[f"local.retention.{kind}"]
        if kept >= 0 and local != -2 and not 0 <= local <= kept:
            return False
        if values["remote.log.copy.disable"] == "true" and local not in {-2, kept}:
            return False
    return "compact" not in values["cleanup.policy"]


def drawn(rng: Random) -> dict[str, str]:
    """Settings of a topic, whether Kafka takes them or not."""
    values = {name: rng.choice(("-1", "1000", "604800000")) for name in _LIMITS}
    for name in ("local.retention.ms", "local.retention.bytes"):
        values[name] = rng.choice(("-2", "-1", "500", "604800000"))
    values["remote.storage.enable"] = rng.choice(("true", "true", "false"))
    values["remote.log.copy.disable"] = rng.choice(("true", "false"))
    values["cleanup.policy"] = rng.choice(("delete", "", "compact", "compact,delete"))
    return values
