"""cli: the command line.

    commands              the verbs that read, and `compact`
    change_commands       `restore`, `forget`, `vacuum`
    options               the options that verbs share
    sizes_and_durations   `10GiB`, `90m`
    usage_errors          what is said of wrong words and of bugs
    exit_codes            how a verb ends
"""
