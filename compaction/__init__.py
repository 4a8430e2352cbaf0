"""compaction: the decision logic. Pure functions over frozen values: no Spark, no I/O, no clock.

    model          the types: segments, settings, errors, outcomes
    brokers        what brokers have: the records of their metadata, and what they make of them
    publishing     what to send next to the brokers that serve a partition
    discovery      which segments exist: listings, leader epochs, overlaps, the partition's view
    uploading      which segments of a broker's log directory are uploaded, and which may go
    planning       what should be done: regions, eligibility, groups, the plan, its explanation
    cleaning       which records stay: offset map, transactions, tombstones, counts
    skipping       which segments a round need not read: Bloom filters, key indexes
    estimation     how many bytes a run would probably remove, from a sample
    verification   whether sources and results agree on every key's latest value
    commits        what a commit changes in the catalog, and what must hold before and after
    deletion       which segments expire, and which objects may be deleted
    diagnosis      what is wrong with a tier and its cluster, and what leads out

docs/glossary.md explains the words. Time is an argument (`now_ms`), sizes are integers, and spans
are half open (`model.units`). Each package imports only the packages above it in this list.
"""
