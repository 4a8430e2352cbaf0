"""Defaults as data: TOML for the topics' settings, properties for Spark's log."""
