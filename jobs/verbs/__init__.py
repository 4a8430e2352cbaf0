"""verbs: one module per verb.

    plan             `plan`
    plan_explained   `plan --explain`: the value
    compact          `compact`
    status           `status`
    verify           `verify`
    verify_targets   what `verify` reads of each partition
    second_opinion   `verify --second-opinion`
    history          `history`
    restore          `restore`
    forget           `forget`
    vacuum           `vacuum`
    vacuum_survey    what `vacuum` may delete of each partition
    vacuum_outcome   what became of it
    dump             `dump`
    config           `config`
"""
