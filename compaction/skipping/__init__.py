"""skipping: which segments a round need not read (KIP-1272).

    key_hashes      MurmurHash3 of keys, which is stored
    bloom_filter    a Bloom filter over the keys of a segment
    key_index       its sorted hashes: how many records and bytes some keys would supersede
    segment_facts   what else may change a segment: tombstones, markers, batches without records
    probe_counts    what key indexes were asked, and what they answered
    skip_decision   whether its keys are read, whether it is rewritten, and with which neighbours
"""
