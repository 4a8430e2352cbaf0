"""api: the verbs as functions, `import tierfold`; the command line calls them too.

    reading           `plan`, `explain`, `status`, `doctor`, `history`, `runs`
    verifying         `verify`
    changing          `compact`, `vacuum`, `restore`, `forget`
    approving         plan files: `plan(out=…)`, `compact(plan=…)`
    beginning         `init`
    rebuilding        `rebuild`
    uploading         `upload`, `local_retention`
    reporting         `report`: one page for people
    frames            `read`, `register`: a tier in Spark
    segment           `read_segment`
    table_functions   `tierfold_status` and `tierfold_plan` of SQL
    keywords          the keyword arguments that they share
    setting_texts     settings that are given as values, as texts
    opening           resolves the keyword arguments: settings, tier, scope, engine
    cluster_remarks   remarks that only a look at the cluster can show
    topic_settings    the settings of one topic, for `config`
    metrics_sinks     hands a run's metrics to Prometheus and OpenTelemetry
    failures          what `check=True` raises

Names load lazily: a worker that imports `tierfold.storage` imports none of this.
"""
