"""jobs: the verbs, Spark, settings and the command line.

    context    the tier, catalog, clock and scope of a run; signals
    settings   a topic's settings, and where each value comes from
    spark      the Spark session and its Python workers
    engines    who runs the stages: Spark, or this process
    pipeline   from the survey of partitions to the commit
    sources    `kafka-segments` and the catalog as DataFrames
    publishing lets brokers know what the catalog says
    verbs      one module per verb
    reports    results of verbs: documents, tables and pictures
    page       the page of `report`, and its pictures
    api        the verbs as functions: `import tierfold`
    cli        the command line
    airflow_tasks  verbs as tasks of Airflow

Each `VERB_job.py` in this folder launches a verb under spark-submit and holds no logic.

Flow: view → plan → claim → scan → reduce → rewrite → check → commit → report. A run that loses a
race starts again from a fresh view. Each package imports only the packages above it in this list.
"""
