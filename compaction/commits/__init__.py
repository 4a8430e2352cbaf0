"""commits: what a commit changes in the catalog, and what must hold before and after.

    receipts       what a worker reports of a group, and how that is checked
    commit         a commit as data: requirements and updates
    row_changes    the row that a claim or a commit writes
    spared         what a round leaves of superseded records
    round_commit   the commit of a round, from its receipts
    seen_by_readers what a served row notes of a round, for tombstones that wait
    clocks         whether a run may write by the time that it takes as now
    held_partition a claimed partition: its row, its unanswered commit, what the present row says
    holders        who is at work on a partition: claim it, skip it or wait
    invariants     what must hold between a row and the row that replaces it
    served_rows    what must also hold for brokers that serve the partition
    rebuilt_row    the row of a partition whose lost metadata is named again
    served_view    the row that a claim writes of a partition which is published
    moved_tier     what a row notes of a tier that stands elsewhere
    history        what happened to a partition, one entry per claim and commit
    restore        a return to an earlier row: what becomes live again, or a refusal
    published_restore what a restore means for the brokers that serve the row
    adoption       what a row takes over from brokers: its catalog was lost, set back, or another's
    undone_passes  which passes an unclean leader election undoes, and what comes back for them
    leave_alone    which segments a person may leave alone because brokers never had them
    forget         after an unclean leader election: what would be lost, and what prevents it
"""
