"""Settings as brokers answer them: each with the place that it comes from (KIP-226)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from tierfold.compaction.model.errors import UnreadableObject


class ConfigSource(StrEnum):
    """Where brokers have a value from: Kafka's `ConfigEntry.ConfigSource`."""

    TOPIC = "topic"
    """Set for this topic."""
    BROKER = "broker"
    """Set for one broker while it runs."""
    DEFAULT_BROKER = "default broker"
    """Set for all brokers while they run."""
    STATIC_BROKER = "static broker"
    """From the server.properties of the broker that answered."""
    KAFKA_DEFAULT = "Kafka's default"
    UNKNOWN = "unknown"


class ConfigValue(NamedTuple):
    """An effective setting."""

    text: str
    """As Kafka writes it; empty also where brokers mask it."""
    source: ConfigSource


Configs: TypeAlias = Mapping[str, ConfigValue]
"""All settings of a topic or of a broker, by Kafka's name."""


def number_in(configs: Configs, name: str) -> int | None:
    """A setting that is a whole number; None: it is not there, or not set.

    Raises UnreadableObject if it is another text, which no broker of Kafka answers.
    """
    found = configs.get(name)
    if found is None or not found.text:
        return None
    try:
        return int(found.text)
    except ValueError:
        raise UnreadableObject(
            f"brokers answer {found.text!r} for {name}, which is no whole number",
            where="the cluster",
            remedy="Check that it runs Kafka's own brokers; tierfold can follow no others.",
        ) from None
