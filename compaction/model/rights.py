"""Rights of Kafka's authorizer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

DESCRIBE_CONFIGS: Final = "DescribeConfigs"
"""The operation that shows settings."""


class Resource(Enum):
    """What a right is for: the word in sentences, and the option of kafka-acls.sh."""

    TOPIC = ("topic", "--topic")
    CLUSTER = ("cluster", "--cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """A right of Kafka's authorizer."""

    operation: str
    """As kafka-acls.sh takes it, such as `DescribeConfigs`."""
    resource: Resource
    name: str = ""
    """The topic's name; empty: the cluster."""
