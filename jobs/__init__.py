"""jobs: the stage. The Spark session, the pipeline, one module per verb, settings, command line.

    cli                 the command line: verbs that look, and `compact`
    cli_changes         restore, forget, retain
    cli_ends            exit codes, and where people read
    cli_options         the options that verbs share
    stopping            Ctrl-C and SIGTERM: where a verb may stop, and how spark-submit waits for it
    chatter             what of stderr is not passed on
    complaints          what is said of wrong words and of bugs, without their secrets
    plan_job, compact_job, retain_job, status_job, verify_job, dump_job, config_job
                        one module per verb, those below too; each is also a script, for python
                        and for spark-submit
    history_job         what happened to a partition, and what can be restored
    restore_job         an earlier state of a partition lives again; without Spark
    forget_job          what the catalog says of a log that was cut off is taken back
    scope, moments      which partitions, and which moment, a person means
    undo_report         what `history`, `restore` and `forget` show
    settings            what a topic's settings are: defaults, the user's file, --set, resolved
    broker_names        the names that only brokers use: known, without effect here
    remarks             what of the settings is probably not meant
    settings_known, setting_kinds
                        the settings there are, Kafka's names for them, what each may be
    settings_layers     who says what: reads the files and the command line
    settings_page       docs/settings.md, made from the table of settings
    quantities          sizes and durations as people write them
    wiring              the live things: tier, catalog, clock, consoles; nothing else makes them
    survey              stages 1 and 2: what is there, and what would be done (metadata only)
    commits             how a commit ended, and where no answer came, what the rows tell later
    publishing          stages 7 and 8: what was rewritten is checked and committed, without Spark
    waves               chunk after chunk: claim, pass, commit, and what that leaves to be done
    tables              what the tables of all verbs have in common
    retain_look, retain_outcome, retain_report
                        what may go of each partition; what is told of it; its table
    rounds              what the driver and the workers tell each other about one partition's round
    session, worker_daemon
                        the Spark session and its settings; its Python workers' parent
    private_sockets     the folders in which these two listen
    pipeline            stages 4 to 6, scan, reduce, rewrite, and then `publishing`
    stages/             those of them that run on Spark
    originals           the segments that brokers wrote, while they are still there
    second_opinion      the latest records of `verify` once more, by Spark's own window
    explained, explain  one partition's plan, segment by segment: the value, and its picture
    report              tables for people, one JSON document for machines
    catalog_tables      the catalog as DataFrames, for notebooks

The flow: view → plan → claim → scan → reduce → rewrite → check → commit → report. Data go one way;
a lost race starts again from a fresh view. Imports go inward: jobs → storage → compaction.
"""

# First of all: it tells numba where to keep kernels, and some of `compaction` are compiled.
import storage as _storage  # noqa: F401
