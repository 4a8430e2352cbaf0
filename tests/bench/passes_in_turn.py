"""For spark-submit: compacts tiers one after the other and prints the seconds of each as JSON.

    passes_in_turn.py NOW_MS TIER…
"""

from __future__ import annotations

import json
import sys
import time

from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines.engine_choice import on_spark
from tierfold.jobs.pipeline.partition_report import COMPACTED
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.compact import compact


def seconds(tier: str, now_ms: int) -> float:
    """Compact a tier; return the seconds. Raises RuntimeError if a partition is not compacted."""
    began_s = time.perf_counter()
    reports = compact(
        run_context(tier, None, now_ms),
        resolve(("cleanup.policy=compact",)),
        Scope(),
        engine=on_spark,
    )
    for report in reports:
        if report.outcome != COMPACTED:
            raise RuntimeError(f"{report.key}: {report.outcome}: {report.reason}")
    return time.perf_counter() - began_s


if __name__ == "__main__":
    _, now, *tiers = sys.argv
    sys.stdout.write(json.dumps([seconds(tier, int(now)) for tier in tiers]))
