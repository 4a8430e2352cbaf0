"""`tierfold status` for spark-submit and python: `jobs/status_job.py TIER …`."""

from __future__ import annotations

from tierfold.jobs.cli.commands import main

if __name__ == "__main__":
    main(prog_name="status_job.py", first_arguments=("status",))
