"""compaction: the mind. It decides and never touches: no Spark, no I/O, no clock, no dice.

Nouns      units · segments (partition, segment, the catalog's row) · listing · aborted · producers
           · rules (effective settings) · errors (who must act) · outcomes (how a commit ends)
           · wording (numbers in sentences) · shown (what may be shown: no secrets, no escapes)
What       view (what lives) · lineage (leader epochs) · regions (cleaned, dirty, held back)
           · eligibility (how dirty, how overdue, what is due) · grouping
           · plan (Rest | Compact | Refuse) · plan_check
           · explanation (the plan, told segment by segment)
Which      key_hash · key_columns · key_blocks · winners (the reduce by key)
           · strategies (what is remembered of them, what a change means)
           · transactions (aborted data, markers) · fates (records and batches) · tally
           · keyless (how many records without a key may go)
Whether    receipts (what workers say they did) · absorption (empty groups) · commit (as data)
           · invariants (before and after) · undo (back to an earlier row)
           · forgetting (after an unclean election)
Told       history (rows as a story: who did what)
How much   chunks (of a partition, waves of a run) · packing (work dealt to tasks)

Ladder: a *view* is what is there; a *plan* is what should be done; a *round* is a plan under one
compaction epoch; a *group* is what one task rewrites; a *receipt* is what it says it did; a *commit
proposal* is what the catalog is asked to accept.

Time is an argument (`now_ms`), sizes are integers, spans are half open (`units`).
"""
