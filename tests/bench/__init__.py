"""The benchmark: Kafka's cleaner and tierfold take turns on the same logs.

    logs        the four logs, made from a seed if they are missing
    measures    elapsed time, and CPU time of a process with its descendants
    contenders  one pass of Kafka's cleaner, and one of tierfold
    synthetic   logs of any size and number of keys, made without Kafka
    results     rows as JSON lines, printed and kept in a file
    xy_plot     small plots of points and lines
    run         `python -m tests.bench.run`, which `make bench` calls; not a test
    buckets     `python -m tests.bench.buckets`, which `make bench` calls: a folder and a bucket
    profiled    `python -m tests.bench.profiled`: where the time of one pass goes
    memory      `python -m tests.bench.memory`, which `make bench` calls: a worker's peak memory
    layouts     `python -m tests.bench.layouts`: the logs in Aiven's layout beside a plain folder
    planning    `python -m tests.bench.planning`: thousands of partitions, without Spark and Kafka
    cliff       `python -m tests.bench.cliff`: 10 keys, a million, 50 million
    shapes      `python -m tests.bench.shapes`: gigabytes of keys, tombstones, 32 partitions
    growth      `python -m tests.bench.growth`: a pass by cores, bytes, segments and partitions

Only `cliff` and `shapes` assert something: limits of memory, and how much time may grow.
"""
