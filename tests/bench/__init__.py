"""The benchmark: Kafka's cleaner and tierfold take turns on the same logs.

    logs        the four logs, made from a seed if they are missing
    measures    elapsed time, and CPU time of a process with its descendants
    contenders  one pass of Kafka's cleaner, and one of tierfold
    run         `python -m tests.bench.run`, which `make bench` calls; not a test
    buckets     `python -m tests.bench.buckets`, which `make bench` calls: a folder and a bucket
    profiled    `python -m tests.bench.profiled`: where the time of one pass goes
    memory      `python -m tests.bench.memory`, which `make bench` calls: a worker's peak memory
    layouts     `python -m tests.bench.layouts`: the logs in Aiven's layout beside a plain folder
    planning    `python -m tests.bench.planning`: thousands of partitions, without Spark and Kafka

Nothing here asserts a time; it prints the measured times with their spread.
"""
