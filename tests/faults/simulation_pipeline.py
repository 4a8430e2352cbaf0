"""Stages 4 to 8 of a run in one process: Spark's distribution of the work, and nothing else of it.

A task may run twice, at the same time or long after its twin, and only one receipt counts; a worker
may die over a group and take its job with it, which Spark tells the driver.
"""
