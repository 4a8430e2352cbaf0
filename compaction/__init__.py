"""compaction: the decision logic. Pure functions over frozen values: no Spark, no I/O, no clock.

    model          the types: segments, settings, errors, outcomes
    discovery      which segments exist: listings, leader epochs, overlaps, the partition's view
    planning       what should be done: regions, eligibility, groups, the plan, its explanation
    cleaning       which records stay: offset map, transactions, tombstones, counts
    verification   whether sources and result agree on every key's latest value
    commits        what the catalog is asked to change, and what must hold before and after
    deletion       which segments expire, and which objects may be deleted

A *view* is a partition as it was read. A *plan* is what should be done. A *round* is a plan under
one compaction epoch. A *group* is the segments that one task merges. A *receipt* is what the task
reports. A *commit* is what the catalog is asked to accept.

Time is an argument (`now_ms`), sizes are integers, spans are half open (`model.units`). Each
package imports only the packages above it in this list.
"""
