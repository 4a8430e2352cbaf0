"""`python -m tierfold VERB …`: the same as `tierfold VERB …`."""

from __future__ import annotations

from tierfold.jobs.cli.commands import main

main()
