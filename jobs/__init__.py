"""jobs: what runs: the verbs, Spark, settings, the command line.

    context    what a run works with: tier, catalog, clock, scope; how it is stopped
    settings   what a topic's settings are, and who set them
    spark      the Spark session and its Python workers
    pipeline   from the survey of partitions to the commit
    sources    `kafka-segments` and the catalog as DataFrames
    verbs      one module per verb
    reports    what people see: tables and pictures
    cli        the command line

`VERB_job.py` at the top of this folder are launchers for spark-submit, without logic.

The flow: view → plan → claim → scan → reduce → rewrite → check → commit → report. A run that loses
a race starts again from a fresh view. Each package imports only the packages above it in this list.
"""
