"""The default settings, an example of a user's file, and the configuration of Spark's log."""
