"""`tierfold upload` for spark-submit and python: `jobs/upload_job.py LOGDIR TIER …`."""

from __future__ import annotations

from tierfold.jobs.cli.commands import main

if __name__ == "__main__":
    main(prog_name="upload_job.py", first_arguments=("upload",))
