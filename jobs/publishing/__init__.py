"""publishing: lets the brokers that serve a partition know what its row says, look by look.

    canary         reads a partition as a consumer does, and compares it with the tier
    canary_errors  what a canary that found something means, and what to do
    canary_note    the tier's note that a canary counted, or that a person published without one

`compaction.publishing` decides each step; nothing here does (docs/publishing.md).
"""
