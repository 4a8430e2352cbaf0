"""`tierfold runs` for spark-submit and python: `jobs/runs_job.py TIER …`."""

from __future__ import annotations

from tierfold.jobs.cli.commands import main

if __name__ == "__main__":
    main(prog_name="runs_job.py", first_arguments=("runs",))
