"""`verify`, which reads all live segments; the other verbs that change nothing start faster."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.api.failures import checked
from tierfold.jobs.api.keywords import VerifyKeywords, takes
from tierfold.jobs.api.metrics_sinks import check_metrics, with_metrics
from tierfold.jobs.api.opening import engine_of, opened
from tierfold.jobs.reports.verify_report import VerifyResult
from tierfold.jobs.verbs import verify as verify_verb


@takes(VerifyKeywords)
def verify(tier: str | Path, **given: Unpack[VerifyKeywords]) -> VerifyResult:
    """Read all live segments and check them: CRCs, offsets, indexes, latest values.

    Raises BadSettings for a wrong setting or argument, and UnreadableObject or CorruptLog if the
    tier or the catalog cannot be read. A corruption is in the result.

    >>> tierfold.verify("/mnt/tier", engine="local", check=True)
    """
    second_opinion = given.get("second_opinion", False)
    if second_opinion and given.get("engine") == "local":
        raise BadSettings(
            "the engine is local, but a second opinion needs Spark",
            where="--second-opinion",
            remedy="Leave out --engine local.",
        )
    duration_ms = given.get("max_duration_ms")
    extent = verify_verb.Extent(second_opinion=second_opinion, max_duration_ms=duration_ms)
    check_metrics(given)
    tools = opened(tier, given, asks_brokers=True)
    found = verify_verb.verify(
        tools.context,
        tools.settings,
        tools.scope,
        extent,
        engine_of(given),
    )
    result = VerifyResult(partitions=tuple(found), **tools.about())
    return checked(with_metrics(result, given), given)
