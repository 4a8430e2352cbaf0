"""The verb that uploads a broker's log directory: `upload`."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from tierfold.compaction.commits.clocks import WritingVerb
from tierfold.jobs.api.failures import checked
from tierfold.jobs.api.keywords import UploadKeywords, takes
from tierfold.jobs.api.opening import opened
from tierfold.jobs.reports.upload_report import UploadResult
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


def _checked_directory(log_dir: str | Path) -> LogDirectory:
    """Return the log directory; raises as `LogDirectory.check`."""
    directory = LogDirectory(Path(log_dir))
    directory.check()
    return directory
