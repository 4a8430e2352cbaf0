"""tierfold compacts Kafka topics in their remote tier, outside the brokers.

    jobs         runs: Spark, the verbs, settings, the command line
    storage      reads and writes: Kafka's bytes, tiers, the catalog
    compaction   decides: pure functions on frozen values
    conf         defaults as data

The four are links to the folders of that name at the top of the repository. Imports go inward:
jobs → storage → compaction.
"""

from tierfold.storage.kernel_cache import ensure_kernel_cache

# Before the import of any module that imports numba.
ensure_kernel_cache()
