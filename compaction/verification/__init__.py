"""verification: whether segments hold the latest value of every key, and brokers give it.

    value_digest    a 128-bit digest of a value, in a numba kernel
    latest_values   the latest value of every key, as columns
    comparison      where two sets of latest values differ
    canary          what is read of brokers after a swap, and what that can show
    canary_records  whether brokers gave the records that the tier has
    first_canary    which partition is published first, to prove the tier
"""
