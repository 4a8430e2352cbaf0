"""`tierfold local-retention` for python and spark-submit: `local_retention_job.py LOGDIR …`."""

from __future__ import annotations

from tierfold.jobs.cli.commands import main

if __name__ == "__main__":
    main(prog_name="local_retention_job.py", first_arguments=("local-retention",))
