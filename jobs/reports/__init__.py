"""reports: the result of each verb, as a JSON document and as tables.

    result           the value with both sides, which `jobs.cli.output` prints
    views            which partitions are printed, and in which order; CSV
    screen           where lines break, on every screen
    tables           the parts that all tables share
    plan_report      the result of `plan` and `compact`
    explained_plan   the result of `plan --explain`, as a picture
    estimate_report  what a run would remove, by `plan --estimate`, and whether it is worth it
    status_report    the result of `status`
    doctor_report    the result of `doctor`
    config_report    the result of `config`
    broker_report    what `status` shows of brokers
    verify_report    the result of `verify`
    vacuum_report    the result of `vacuum`
    metrics          a run's metrics, from its document
    first_settings   the settings file that `init` writes
    history_report   the result of `history`
    runs_report      the results of `runs`
    change_report    the results of `restore` and `forget`
    rebuild_report   the result of `rebuild`
    upload_report    the result of `upload`
    local_retention_report  the result of `local-retention`
    refusals_report  why partitions are refused, each reason once
    publishing_lines  what brokers were sent, or are to be sent
    holders_report   the runs that had partitions of this one, in one sentence each
    request_report   the requests of a run to a bucket, and their price

Nothing here decides or computes.
"""
