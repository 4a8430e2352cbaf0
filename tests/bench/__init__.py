"""The benchmarks: Kafka's cleaner and tierfold take turns on the same logs, and more.

    logs            the four logs, made from a seed if they are missing
    synthetic       logs of any size and number of keys, made without Kafka
    contenders      one pass of Kafka's cleaner, and one of tierfold
    passes_in_turn  passes of tierfold, for spark-submit
    measures        elapsed time, CPU time and memory of a process and its descendants
    options         the command-line options that benchmarks share
    results         prints rows as JSON lines and keeps them in a file
    xy_plot         draws small plots of points and lines

`make bench` runs these:

    run             tierfold beside Kafka's cleaner
    buckets         a bucket beside a folder
    memory          the peak memory of a worker
    shapes          logs with gigabytes of keys, tombstones, 32 partitions
    second_runs     what a run reads of a clean tier after a little new data

Run these with `python -m tests.bench.NAME`; `make soak` runs `cliff`, `shapes` and `growth`:

    cliff           10 keys, a million, 50 million
    growth          how a pass grows with cores, bytes, segments and partitions
    metadata_replay brokers' metadata: time per record and memory of its fold
    layouts         Aiven's layout beside a plain folder
    planning        thousands of partitions, without Spark and Kafka
    profiled        where the time of a pass goes

Only `cliff` and `shapes` assert limits: of memory, and `cliff` of the time per record.
"""
