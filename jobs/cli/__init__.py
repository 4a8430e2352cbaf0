"""cli: the command line.

    commands              the verbs that read, and `compact`
    change_commands       `restore`, `forget`, `vacuum`
    options               the options that verbs share
    arguments             resolves them: settings, tier, scope, clock, budget
    without_pandas        keeps pandas out of a command's process
    sizes_and_durations   parses `10GiB`, `90m`
    usage_errors          reports usage errors and bugs without secrets
    exit_codes            consoles and exit codes
"""
