"""airflow_tasks: verbs as tasks of Airflow 3, with the extra `tierfold[airflow]`.

    tierfold_operator  `TierfoldOperator`, a task that runs a verb
    outcomes           which outcomes fail or retry a task, and what goes into XCom
    partition_groups   divides a plan into groups for mapped tasks
    spark_submit       runs a verb under spark-submit and reads its document
    submit_hook        the provider's hook, which stops a run gently

Nothing else imports this package, so that Airflow is needed nowhere else.
"""
