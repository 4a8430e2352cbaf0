"""context: the tier, catalog, clock and scope of a run.

    run_context     the tier, its catalog, the clock, the run's name
    scope           the partitions that a verb works on
    timestamps      parses and prints timestamps
    stopping        Ctrl-C and SIGTERM
    progress_bars   progress bars over bytes
    versions        the version of tierfold
"""
