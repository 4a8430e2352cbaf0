"""cli: the command line.

    commands              the verbs that read, and `compact`
    change_commands       `restore`, `forget`, `vacuum`
    init_command          `init`
    report_command        `report`
    upload_command        `upload`, `local-retention`
    log_dir_options       `--log-dir`
    options               the options that verbs share
    tier_argument         TIER, from the command line, the environment or the settings file
    table_options         what is printed of a table of partitions
    without_pandas        keeps pandas out of a command's process
    without_mllib         keeps MLlib's functions out of a command's Spark session
    confirmation          asks before `vacuum` deletes what may still be needed
    sizes_and_durations   parses `10GiB`, `90m`
    output                prints a verb's result, as tables or as JSON
    log_lines             prints what is logged: `-v`, `-q`
    progress_bars         shows the progress of a run
    help_pages            breaks the lines of help pages
    usage_errors          reports usage errors and bugs without secrets
    exit_codes            exit codes, and output that a terminal can take
"""
