"""`tierfold verify` for spark-submit and python: `jobs/verify_job.py TIER …`."""

from __future__ import annotations

from tierfold.jobs.cli.commands import main

if __name__ == "__main__":
    main(prog_name="verify_job.py", first_arguments=("verify",))
