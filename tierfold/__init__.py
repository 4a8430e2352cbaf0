"""tierfold compacts Kafka topics in their remote tier, outside the brokers.

    jobs         what runs: Spark, the verbs, settings, the command line
    storage      what reads and writes: Kafka's bytes, tiers, the catalog
    compaction   what decides: pure functions over frozen values
    conf         defaults as data

The four are links to the folders of that name at the top of the repository. Imports go inward:
jobs → storage → compaction.
"""

from tierfold.storage.kernel_cache import ensure_kernel_cache

# Before any module is imported that imports numba.
ensure_kernel_cache()
