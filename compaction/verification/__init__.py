"""verification: whether two sets of segments hold the same latest value of every key.

    value_digest    a 128-bit digest of a value, in a numba kernel
    latest_values   the latest value of every key, as columns
    comparison      where two sets of latest values differ
    canary          what the canary reads after a partition is published
"""
