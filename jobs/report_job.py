"""`tierfold report` for spark-submit and python: `jobs/report_job.py TIER …`."""

from __future__ import annotations

from tierfold.jobs.cli.commands import main

if __name__ == "__main__":
    main(prog_name="report_job.py", first_arguments=("report",))
