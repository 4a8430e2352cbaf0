"""context: what a run works with.

    run_context   the tier, its catalog, the clock, the run's name
    scope         which partitions a person means
    timestamps    points in time as people write them
    stopping      Ctrl-C and SIGTERM
    versions      which tierfold this is
"""
