"""The benchmark: Kafka's cleaner and tierfold on the same logs, by turns, in one run.

    logs        the four logs, made from a seed where they are missing
    measures    elapsed time, and CPU of a whole process tree
    contenders  one pass of Kafka's cleaner, one of tierfold
    run         `python -m tests.bench.run`, which `make bench` calls; not a test
    profiled    `python -m tests.bench.profiled`: where the time of one pass goes
    planning    `python -m tests.bench.planning`: thousands of partitions, without Spark and Kafka

Nothing here asserts a time: it prints what it measured, spread included.
"""
