"""Plan files in the API: `plan(out=…)` writes one, `compact(plan=…)` carries it out.

What decides is in the file: the partitions, the time, `--set`, and what a person answers for. Where
things are, and how to get there, is given again: the catalog, the layout, its keys, the brokers,
and the files of settings, which may be elsewhere by then. What these files say is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.approval import Approved
from tierfold.jobs.api.setting_texts import as_texts
from tierfold.jobs.context.documents import write_document
from tierfold.jobs.context.plan_files import plan_document, read_plan
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.versions import tierfold_version
from tierfold.jobs.reports.plan_report import PlanResult
from tierfold.storage.tiers.locations import location_of

_DECIDES: Final = {
    "settings": "--set",
    "first_dirty": "--first-dirty",
    "holes_are_holes": "--holes-are-holes",
    "publish": "--publish",
    "readers_begin_again": "--readers-begin-again",
}
"""The keywords of `plan` that the file keeps, and their options."""

_OF_SCOPE: Final = {
    "topics": "--topic",
    "partitions": "--partition",
    "partitions_from": "--partitions-from",
    "now_ms": "--now",
}
"""Keywords that the file answers otherwise: by its partitions and its time."""


def with_plan(tier: str | Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of `compact` with those of its plan file, which becomes an `Approval`.

    Without one, they stay as they are. Raises BadSettings for a file that is no plan of this tier,
    and for keywords that would change the decision; UnreadableObject.
    """
    if given.get("plan") is None:
        return {**given}
    options = {**_OF_SCOPE, **_DECIDES}
    if also := [option for name, option in options.items() if _is_given(name, given.get(name))]:
        raise BadSettings(
            "it would change what was approved",
            where=f"{also[0]} beside --plan",
            remedy="Leave it out: the plan says it. Or give it to `plan --out`, and plan again.",
        )
    approval = read_plan(str(given["plan"]))
    approval.check_place(str(location_of(str(tier), of="tier")))
    return {**given, **approval.given, "plan": approval}


def write_plan(
    result: PlanResult,
    context: RunContext,
    given: Mapping[str, Any],
    partitions: Mapping[PartitionKey, Approved],
) -> None:
    """Write the plan file that the result names; raises as `write_document`."""
    approval = {
        "made_by": tierfold_version(),
        "tier": str(context.location),
        "catalog": context.catalog_uri,
        "now_ms": context.now_ms,
        "given": {
            **{name: given.get(name) for name in _DECIDES},
            "settings": as_texts(given.get("settings") or ()),
        },
    }
    write_document(result.plan_file, plan_document(result.to_dict(), approval, partitions))


def _is_given(name: str, value: object) -> bool:
    """Whether a keyword says something: --no-publish and an offset of 0 do, an empty list not."""
    return bool(value) or (isinstance(value, int) and name != "readers_begin_again")
