"""spark: the Spark session and its Python workers.

    session           the session and every setting of it
    failures          whether a task raised an error, a worker died, or Spark did
    java_runtime      the Java that Spark starts, and why it ended
    disk_encryption   whether a session encrypts what it writes to disks
    worker_daemon     the parent process of Python workers
    unpacked_pyspark  imports PySpark with its bytecode in those processes
    private_sockets   folders for Unix sockets that no other user can enter
    request_sum       adds up the requests of Spark's tasks, and what they read from log directories
    progress          the progress of Spark's tasks
    stderr_filter     hides useless lines on stderr
"""
