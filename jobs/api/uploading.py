"""The verbs on a broker's log directory: `upload`, `local_retention`."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from tierfold.compaction.commits.clocks import WritingVerb
from tierfold.jobs.api.failures import checked
from tierfold.jobs.api.keywords import ScopeKeywords, UploadKeywords, takes
from tierfold.jobs.api.opening import opened
from tierfold.jobs.reports.local_retention_report import LocalRetentionResult
from tierfold.jobs.reports.upload_report import UploadResult
from tierfold.jobs.verbs import local_retention as local_retention_verb
from tierfold.jobs.verbs import upload as upload_verb
from tierfold.jobs.verbs.upload_survey import survey_uploads
from tierfold.storage.log_dirs.log_directory import LogDirectory
from tierfold.storage.tiers.new_tier import begin_tier, is_empty_place


@takes(UploadKeywords)
def upload(
    log_dir: str | Path, tier: str | Path, **given: Unpack[UploadKeywords]
) -> UploadResult:
    """Upload the rolled segments of a broker's log directory into a tier.

    Nothing of the directory is written, renamed or deleted. Raises as the verbs of `changing`, also
    if `log_dir` is no log directory.

    >>> tierfold.upload("/var/lib/kafka/data", "s3://bucket/archive", topics=["orders"])
    """
    is_dry_run = given.get("dry_run", False)
    directory = _checked_directory(log_dir)
    tools = opened(tier, given, writing=WritingVerb.UPLOAD)
    store = tools.context.tier.store
    is_new = is_empty_place(store)
    if is_new and not is_dry_run:
        begin_tier(store, tools.context.layout_options)
    verb = (tools.context, tools.settings, directory, tools.scope)
    found = (survey_uploads if is_dry_run else upload_verb.upload)(*verb, is_new=is_new)
    about = tools.about(run_id="" if is_dry_run else tools.context.run)
    result = UploadResult(partitions=tuple(found), log_dir=str(log_dir), **about)
    return checked(result, given)


@takes(ScopeKeywords)
def local_retention(
    log_dir: str | Path, tier: str | Path, **given: Unpack[ScopeKeywords]
) -> LocalRetentionResult:
    """Return which segments of a broker's log directory may go under local retention.

    Nothing is changed. Raises BadSettings for a wrong setting or argument, also if `log_dir` is no
    log directory, and UnreadableObject or CorruptLog if it, the tier or the catalog cannot be read.

    >>> tierfold.local_retention("/var/lib/kafka/data", "/mnt/archive").to_pandas()
    """
    directory = _checked_directory(log_dir)
    tools = opened(tier, given)
    found = local_retention_verb.local_retention(
        tools.context, tools.settings, directory, tools.scope
    )
    about = tools.about()
    result = LocalRetentionResult(partitions=tuple(found), log_dir=str(log_dir), **about)
    return checked(result, given)


def _checked_directory(log_dir: str | Path) -> LogDirectory:
    """Return the log directory; raises as `LogDirectory.check`."""
    directory = LogDirectory(Path(log_dir))
    directory.check()
    return directory
