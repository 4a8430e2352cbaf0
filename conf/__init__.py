"""Defaults as data, and an example of a user's file, in TOML; properties for Spark's log."""
