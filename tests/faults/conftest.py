"""Kafka's own reader, in one JVM for the whole session."""

from tests.oracle.conftest import lab, oracles

__all__ = ["lab", "oracles"]
