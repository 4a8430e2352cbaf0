"""Resolves the keyword arguments of the API: settings, tier, scope, clock, budget, engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NotRequired, TypedDict

from tierfold.compaction.commits.clocks import WritingVerb
from tierfold.compaction.commits.holders import IfHeld
from tierfold.compaction.deletion.deletion_plan import VacuumLimits
from tierfold.compaction.model.bindings import Detached
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.planning.chunks import Budget
from tierfold.jobs.api.cluster_remarks import remarks_beside
from tierfold.jobs.api.keywords import CONFIG_VARIABLE, LOCAL_MAX_BYTES
from tierfold.jobs.api.setting_texts import as_texts
from tierfold.jobs.context.byte_progress import unheard
from tierfold.jobs.context.log_dirs import log_dirs_of
from tierfold.jobs.context.partition_lists import partitions_from, partitions_in
from tierfold.jobs.context.publishing_settings import PublishingSettings
from tierfold.jobs.context.run_clocks import RunClocks
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.jobs.context.scope import Listed, Scope
from tierfold.jobs.engines.engine_choice import Engine, in_process, on_spark
from tierfold.jobs.reports.request_report import Spent, spent_in
from tierfold.jobs.reports.result import Result
from tierfold.jobs.settings.cluster_table import cluster_of
from tierfold.jobs.settings.given_layout import OPTIONS, GivenLayout
from tierfold.jobs.settings.owner_labels import OwnerLabels
from tierfold.jobs.settings.publishing import publishing_of
from tierfold.jobs.settings.remarks import (
    Remarks,
    on_missing_log_dirs,
    on_unknown_classes,
    remarks_on_tier,
)
from tierfold.jobs.settings.resolution import Settings, resolve
from tierfold.jobs.verbs.approved_plans import carrying_out
from tierfold.storage.brokers.client_settings import ClientSettings
from tierfold.storage.clock import elapsed_s, now_ms
from tierfold.storage.tiers.locations import location_of
from tierfold.storage.tiers.near_reads import NearReads
from tierfold.storage.tiers.store_clocks import store_now_ms
from tierfold.storage.tiers.tier_uris import catalog_place

_LAYOUT_KEYWORDS: Final = {
    "layout": "layout",
    "key.prefix": "key_prefix",
    "rsm.config": "rsm_config",
}
"""The keyword of each option of the layout that has one value."""

_OF_A_TIER: Final = {
    "catalog": "--catalog",
    **{keyword: f"--{option.replace('.', '-')}" for option, keyword in _LAYOUT_KEYWORDS.items()},
    "encryption_keys": "--encryption-key",
    "holes_are_holes": "--holes-are-holes",
    "first_dirty": "--first-dirty",
    "now_ms": "--now",
}
"""Keywords that mean nothing without a tier, and their options."""

_ALL: Final = ("*",)


class About(TypedDict):
    """The fields that every `Result` has, apart from its partitions."""

    tier: str
    run_id: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    spent: Spent | None
    near: NearReads | None
    started_at_ms: int
    finished_at_ms: int
    duration_ms: int
    stored_bytes_before: int | None
    labels: NotRequired[OwnerLabels]


@dataclass(frozen=True, slots=True)
class Opened:
    """A tier, opened for one verb."""

    context: RunContext
    settings: Settings
    scope: Scope
    remarks: Remarks
    began_s: float
    """The same time, by `elapsed_s`."""
    has_advice: bool = False

    def about(self, *more: str, run_id: str = "") -> About:
        """Return what the verb's result says beside its partitions; `more`: further warnings."""
        look = self.context.cluster_view
        beside = remarks_beside(self.settings, look, has_advice=self.has_advice)
        more = (*more, *beside.warnings, *on_unknown_classes(self.context))
        notes = (*beside.notes, *on_missing_log_dirs(self.context))
        Remarks(warnings=more, notes=notes).log()
        doubts = () if self.context.clocks is None else self.context.clocks.warnings
        return About(
            tier=self.context.tier_uri,
            run_id=run_id,
            warnings=(*self.remarks.warnings, *doubts, *more),
            notes=(*self.remarks.notes, *notes),
            spent=spent_in(self.context),
            near=self.context.near_reads.sum if self.context.log_dirs else None,
            started_at_ms=self.context.begun_ms,
            finished_at_ms=now_ms(),
            duration_ms=round(1000 * (elapsed_s() - self.began_s)),
            stored_bytes_before=self.context.stored.before,
            labels=self.settings.labels,
        )


def opened(
    tier: str | Path,
    given: Mapping[str, Any],
    *,
    has_advice: bool = False,
    writing: WritingVerb | None = None,
    asks_brokers: bool = False,
    publishes: bool = False,
) -> Opened:
    """Resolve the settings, then open the tier; log probable mistakes.

    `has_advice`: also those in the settings of the topics in scope. `writing`: a verb that checks
    the clocks before it writes; a dry run only reads. `asks_brokers`: it asks brokers, if any are
    named. `publishes`: it may publish to them. Raises BadSettings for a setting or a missing tier,
    which only the first upload may lack.
    """
    began_s = elapsed_s()
    settings = settings_of(given)  # First, so that nothing is read if they are wrong.
    cluster = _cluster_of(given, settings) if asks_brokers else None
    publishing = publishing_of(given, settings, cluster) if publishes else None
    needs_settings = _is_planned(settings, publishing, writing)
    scope = _scope_of(given)
    context = _context_of(tier, given, settings, may_be_new=writing is WritingVerb.UPLOAD)
    context = replace(
        context,
        progress=RunProgress(given.get("progress") or unheard),
        layout_words=_layout_words(given),
        holes_are_holes=_names(given.get("holes_are_holes")),
        declared=settings.declared,
        if_held=_if_held(given.get("if_held")),
        clocks=None if given.get("dry_run") else _clocks(context, given, writing),
        batch_bytes_max=lambda topic: settings.rules_for(topic).decompressed_batch_max_bytes or 0,
        cluster=None if cluster is None else RunCluster(cluster, needs_settings),
        publishing=publishing,
        log_dirs=log_dirs_of(given.get("log_dirs")),
    )
    context = carrying_out(context, scope.approval)
    if writing is WritingVerb.UPLOAD:  # Its topics are those of a log directory.
        remarks = Remarks(notes=settings.notes)
    else:  # With a cluster, the advice is on what the look at it shows.
        remarks = remarks_on_tier(settings, context, scope if has_advice and not cluster else None)
    if cluster is not None:
        remarks = replace(remarks, notes=(*remarks.notes, *cluster.notes))
    remarks.log()
    return Opened(context, settings, scope, remarks, began_s, has_advice=has_advice)


def _context_of(
    tier: str | Path, given: Mapping[str, Any], settings: Settings, *, may_be_new: bool
) -> RunContext:
    layout = layout_of(given).over(settings.layout).options()
    catalog, decided_ms = given.get("catalog"), given.get("now_ms")
    place = (str(tier), catalog, decided_ms, settings.store, layout)
    return run_context(*place, may_be_new=may_be_new)


def _is_planned(
    settings: Settings, publishing: PublishingSettings | None, writing: WritingVerb | None
) -> Callable[[str], bool]:
    """Return whether this verb compacts a topic, or sends for it: it needs its brokers' settings.

    A `vacuum`, `restore` or `forget` that sends nothing does not. What comes back may be compacted
    no more.
    """
    brings_back = writing in {WritingVerb.RESTORE, WritingVerb.FORGET}
    is_unsent = brings_back or writing is WritingVerb.VACUUM
    plans = publishing is not None and (publishing.is_on or not is_unsent)
    return lambda topic: plans and (brings_back or settings.rules_for(topic).is_compacted)


def _cluster_of(given: Mapping[str, Any], settings: Settings) -> ClientSettings | None:
    """Return the cluster to ask; None: none is named. Raises BadSettings."""
    cluster = cluster_of(given, settings.cluster, os.environ)
    if cluster is not None and isinstance(settings.binding, Detached):
        raise BadSettings(
            "tier.binding says that no broker serves the tier, and brokers are named",
            where="tier.binding",
            remedy="Leave out one of them: --bootstrap-server (and bootstrap.servers under"
            " [cluster]), or tier.binding.",
        )
    return cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCluster:
    """A cluster without a tier, for one verb."""

    cluster: RunCluster
    scope: Scope
    progress: RunProgress
    began_ms: int
    began_s: float
    """The same time, by `elapsed_s`."""

    def about(self, *more: str) -> About:
        """Return what the verb's result says beside its partitions; `more`: warnings."""
        Remarks(warnings=more).log()
        return About(
            tier="",
            run_id="",
            warnings=more,
            notes=self.cluster.settings.notes,
            spent=None,
            near=None,
            started_at_ms=self.began_ms,
            finished_at_ms=now_ms(),
            duration_ms=round(1000 * (elapsed_s() - self.began_s)),
            stored_bytes_before=None,
        )


def cluster_alone(given: Mapping[str, Any]) -> AskedCluster:
    """Resolve the settings of a verb on a cluster.

    Raises BadSettings if no brokers are named, or a keyword says something of a tier.
    """
    began_ms, began_s = now_ms(), elapsed_s()
    if about_tier := [option for name, option in _OF_A_TIER.items() if _is_given(given.get(name))]:
        raise BadSettings(
            "it says something of a tier, and none is named",
            where=about_tier[0],
            remedy="Name the tier's folder or URI, too, or leave it out.",
        )
    cluster = cluster_of(given, settings_of(given).cluster, os.environ)
    if cluster is None:
        raise BadSettings(
            "neither a tier nor brokers are named",
            where="TIER",
            remedy="Name a tier's folder or URI, or brokers with --bootstrap-server HOST:PORT.",
        )
    return AskedCluster(
        cluster=RunCluster(cluster),
        scope=_scope_of(given),
        progress=RunProgress(given.get("progress") or unheard),
        began_ms=began_ms,
        began_s=began_s,
    )


def _is_given(value: object) -> bool:
    """Whether a keyword says something: an offset or a time of 0 does, an empty list does not."""
    return isinstance(value, int) or bool(value)


def _scope_of(given: Mapping[str, Any]) -> Scope:
    return Scope(
        topics=_names(given.get("topics")) or _ALL,
        partitions=_names(given.get("partitions")) or _ALL,
        listed=_listed(given.get("partitions_from")),
        first_dirty=given.get("first_dirty"),
        approval=given.get("plan"),
    )


def _if_held(given: str | None) -> IfHeld:
    """Return what to do with partitions that live runs hold; raises BadSettings."""
    try:
        return IfHeld.SKIP if given is None else IfHeld(given)
    except ValueError:
        raise BadSettings(
            f"{given!r} is not one of {', '.join(IfHeld)}",
            where="if_held",
            remedy="Leave it out: a partition that a run at work holds is left to that run.",
        ) from None


def _clocks(
    context: RunContext, given: Mapping[str, Any], writing: WritingVerb | None
) -> RunClocks | None:
    if writing is None:
        return None
    place = location_of(context.tier_uri, of="tier")
    within = catalog_place(place, context.layout_options)
    return RunClocks(
        verb=writing,
        where=context.tier_uri,
        store_now_ms=lambda: store_now_ms(place, within, context.tier_options),
        given_ms=given.get("now_ms"),
        insists=bool(given.get("clock_is_right")),
        warn=lambda sentence: Remarks(warnings=(sentence,)).log(),
    )


def _names(given: Sequence[str | int] | str | int | None) -> tuple[str, ...]:
    """Return the names, also of one that is given without a list; by default none."""
    one_or_more = [given] if isinstance(given, str | int) else given
    return tuple(map(str, one_or_more or ()))


def ids_of(given: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return the ids, also of texts that have several with commas between; by default none."""
    texts = (one.strip() for text in _names(given) for one in text.split(","))
    return tuple(dict.fromkeys(filter(None, texts)))


def _listed(given: object) -> frozenset[Listed] | None:
    """Return the partitions that are listed; None: there is no list. Raises BadSettings."""
    match given:
        case None:
            return None
        case str() | Path():
            return partitions_from(str(given))
        case Result():
            return partitions_in(given.to_dict(), where="partitions_from")
        case _:
            return partitions_in(given, where="partitions_from")


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Resolve the settings; raises BadSettings."""
    config = given.get("config") or os.environ.get(CONFIG_VARIABLE)
    texts, declared = as_texts(given.get("settings") or ()), given.get("policy_from")
    return resolve(texts, Path(config) if config else None, Path(declared) if declared else None)


def budget_of(given: Mapping[str, Any]) -> Budget:
    """Return the limits of the run."""
    names = ("max_partitions", "max_bytes", "max_duration_ms")
    return Budget(**{name: given.get(name) for name in names})


def limits_of(given: Mapping[str, Any], now_ms: int) -> VacuumLimits:
    """Return the time and the options of one `vacuum`."""
    ages: tuple[Literal["grace_ms", "orphan_age_ms"], ...] = ("grace_ms", "orphan_age_ms")
    return VacuumLimits(
        now_ms=now_ms,
        takes_set_apart=bool(given.get("diverged")),
        **{name: age_ms for name in ages if (age_ms := given.get(name)) is not None},
    )


def local_max_of(given: Mapping[str, Any]) -> int | None:
    """Return how many bytes the run may read; None: Spark runs it, without a limit."""
    if given.get("engine") != "local":
        return None
    return given.get("local_max_bytes") or LOCAL_MAX_BYTES


def engine_of(given: Mapping[str, Any]) -> Engine:
    """Return the chosen engine; it starts once there is something to do."""
    local_max_bytes = local_max_of(given)
    if local_max_bytes is not None:
        return in_process(local_max_bytes)
    return partial(on_spark, session=given.get("spark"))


def layout_of(given: Mapping[str, Any]) -> GivenLayout:
    """Return what the keywords say of the tier's layout; raises BadSettings."""
    texts = {
        option: str(given[name])
        for option, name in _LAYOUT_KEYWORDS.items()
        if given.get(name) is not None
    }
    # As the command line spells them, which all messages and documents do.
    where = {option: f"--{option.replace('.', '-')}" for option in OPTIONS}
    return GivenLayout.of(texts, as_texts(given.get("encryption_keys") or ()), where)


def _layout_words(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The options of the layout as the command line has them, to repeat them in a message."""
    single = [(name, given.get(name)) for name in _LAYOUT_KEYWORDS.values()]
    keys = [("encryption_key", key) for key in as_texts(given.get("encryption_keys") or ())]
    return tuple(
        word
        for name, value in (*single, *keys)
        if value is not None
        for word in (f"--{name.replace('_', '-')}", str(value))
    )
