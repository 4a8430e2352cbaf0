"""commits: what the catalog is asked to change, and what must hold.

    receipts     what a worker reports of a group, and whether it can be true
    commit       a commit as data: requirements and updates
    invariants   what holds between a row and the row that replaces it
    history      what happened to a partition, one entry per claim and commit
    restore      back to an earlier row: what would live again, or why it cannot
    forget       after an unclean leader election: what the catalog may forget
"""
