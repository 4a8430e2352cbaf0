"""`python -m jobs VERB …`: the same as `tierfold VERB …`."""

from __future__ import annotations

from jobs.cli import main

main()
