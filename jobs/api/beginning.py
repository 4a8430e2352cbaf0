"""The function `init`: a first settings file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from tierfold.jobs.api.keywords import InitKeywords, takes
from tierfold.jobs.api.opening import cluster_alone, opened
from tierfold.jobs.reports.first_settings import first_settings
from tierfold.jobs.verbs.init import topics_of_cluster, topics_of_tier


@takes(InitKeywords)
def init(tier: str | Path | None = None, **given: Unpack[InitKeywords]) -> str:
    """Return a first settings file for a tier, or for a cluster: TOML, with policies as comments.

    It says how large each topic is. Of a tier, a sample of each topic's largest partition is read,
    too, and the file says what compaction would remove of it. Nothing is changed.

    >>> print(tierfold.init("/mnt/tier"))
    """
    servers: str | Sequence[str] = given.get("bootstrap_server") or ""
    # An empty file: what $TIERFOLD_CONFIG names may be yet to be written.
    alone, place = {**given, "config": os.devnull}, ""
    if tier is None:
        asked = cluster_alone(alone)
        topics = topics_of_cluster(asked.cluster, asked.progress)
    else:
        tools = opened(tier, alone)
        topics, place = topics_of_tier(tools.context, tools.settings), str(tools.context.location)
    return first_settings(
        topics,
        place,
        servers if isinstance(servers, str) else ",".join(servers),
        str(given.get("command_config") or ""),
    )
