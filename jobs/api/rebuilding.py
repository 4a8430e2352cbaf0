"""The verb that names again what a lost metadata topic had: `rebuild`.

It always needs brokers, so their client is loaded with this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from tierfold.compaction.commits.clocks import WritingVerb
from tierfold.jobs.api.failures import checked
from tierfold.jobs.api.keywords import RebuildKeywords, takes
from tierfold.jobs.api.opening import opened
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.reports.rebuild_report import RebuildResult
from tierfold.jobs.verbs import rebuild as rebuild_verb


@takes(RebuildKeywords)
def rebuild(tier: str | Path, **given: Unpack[RebuildKeywords]) -> RebuildResult:
    """Name again what the brokers' metadata topic lost, before they forget it.

    Nothing is sent without `publish`, whatever the settings say: a look comes first. Raises as the
    verbs of `changing`, also if no brokers are named.

    >>> tierfold.rebuild("/mnt/tier", bootstrap_server="broker-1:9092")
    """
    only_looks = given.get("dry_run", False) or not given.get("publish")
    tools = opened(tier, given, writing=WritingVerb.REBUILD, asks_brokers=True, publishes=True)
    publishing = tools.context.publishing_state if given.get("publish") else Publishing.OFF
    files = {"--config": given.get("config"), "--command-config": given.get("command_config")}
    repeated = [word for name, file in files.items() if file for word in (name, str(file))]
    found = rebuild_verb.rebuild(
        tools.context, tools.settings, tools.scope, repeated, is_dry_run=only_looks
    )
    about = tools.about(run_id="" if only_looks else tools.context.run)
    result = RebuildResult(partitions=tuple(found), publishing=publishing, **about)
    return checked(result, given)
