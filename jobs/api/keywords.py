"""The keyword arguments that the functions of the API share.

A keyword that is left out, or None, has the default of the command line's option of that name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tierfold.jobs.context.byte_progress import Listener

CONFIG_VARIABLE: Final = "TIERFOLD_CONFIG"
"""The variable of the environment that names the file of settings."""

TIER_VARIABLE: Final = "TIERFOLD_TIER"
"""The variable of the environment that names the tier of a command that is given none."""

LOCAL_MAX_BYTES: Final = 2 * 2**30
"""Default of `local_max_bytes`."""

RUNS_SHOWN: Final = 20
"""How many runs `runs` shows by default."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


class SettingsKeywords(TypedDict, total=False):
    """With which settings."""

    settings: Mapping[str, object] | Sequence[str] | None
    """Settings by Kafka's names, `{"cleanup.policy": "compact"}`; or texts `NAME=VALUE`."""
    config: str | Path | None
    """A file with settings of brokers and topics, in TOML. Default: `$TIERFOLD_CONFIG`."""
    policy_from: str | Path | None
    """A YAML file, or a folder of such files, with `KafkaTopic` resources of Strimzi: their
    annotations, such as `tierfold.io/cleanup.policy`, are settings of their topics."""


class PlaceKeywords(SettingsKeywords, total=False):
    """Which tier."""

    catalog: str | None
    """The catalog's folder or URI. Default: `_tierfold` in the tier."""
    layout: Literal["aiven", "local"] | None
    """How the tier is laid out. Default: inferred from its folders' names."""
    key_prefix: str | None
    """Aiven's `key.prefix`."""
    rsm_config: str | Path | None
    """A file with the broker's own properties of Aiven's plugin."""
    encryption_keys: Mapping[str, str | Path] | Sequence[str]
    """Key files of an encrypted tier by their id, or texts `ID=FILE`; the first encrypts."""


class TierKeywords(PlaceKeywords, total=False):
    """Which tier, and when."""

    now_ms: int | None
    """Decide as of this time, in epoch milliseconds. Default: now."""


class CheckKeywords(TierKeywords, total=False):
    """Whether a failed partition raises an error."""

    check: bool
    """Raise PartitionFailed or RunFenced, once all partitions are done. Default: False."""


class HoleKeywords(TypedDict, total=False):
    """Where no segment is missing."""

    holes_are_holes: Sequence[str] | str
    """Names of partitions, or shell patterns, or one: where their segments leave gaps, brokers had
    compacted the topic before it was tiered, and no segment is missing. Default: none."""


class PartitionKeywords(HoleKeywords, total=False):
    """Which partitions."""

    topics: Sequence[str]
    """Shell patterns, or one; a name without wildcards must exist. Default: all topics."""
    partitions: Sequence[str | int] | int
    """Numbers, or shell patterns for the number, or one of them. Default: all."""
    partitions_from: object
    """A list of partitions: the planned, compacted or sound ones in the result of another verb or
    its document; or dictionaries with `topic` and `partition`; or the path or
    URI of a file with one of them in JSON. Default: all."""
    progress: Listener | None
    """Called with a `tierfold.Progress` as a step begins, goes on and ends."""


class ScopeKeywords(CheckKeywords, PartitionKeywords, total=False):
    """Which partitions, and whether one that failed raises an error."""


class ClusterKeywords(TypedDict, total=False):
    """Which cluster serves the tier."""

    bootstrap_server: str | Sequence[str] | None
    """`HOST:PORT` of brokers to ask, too. Default: `bootstrap.servers` in the settings, if any."""
    command_config: str | Path | None
    """A properties file with a client's security settings, as Kafka's own tools take it."""


class InitKeywords(ClusterKeywords, total=False):
    """The keywords of `init`."""

    catalog: str | None
    layout: Literal["aiven", "local"] | None
    key_prefix: str | None
    rsm_config: str | Path | None
    encryption_keys: Mapping[str, str | Path] | Sequence[str]
    progress: Listener | None


class ConfigKeywords(SettingsKeywords, ClusterKeywords, total=False):
    """The keywords of `config`."""


class ReplayKeywords(ScopeKeywords, ClusterKeywords, total=False):
    """From which offset on."""

    first_dirty: int | None
    """Where the dirty region begins; 0 cleans the whole log again. Default: the cleaner offset."""


class PriceKeywords(TypedDict, total=False):
    """What a store charges."""

    storage_price: float | None
    """US dollars per GiB and month. Default: the list price of the tier's store; of a folder, that
    of Amazon S3 Standard."""


class DoctorKeywords(ScopeKeywords, ClusterKeywords, PriceKeywords, total=False):
    """The keywords of `doctor`."""


class ReportKeywords(
    TierKeywords, PartitionKeywords, ClusterKeywords, PriceKeywords, total=False
):
    """The keywords of `report`."""


class SendKeywords(TypedDict, total=False):
    """Whether brokers learn of what the verb does."""

    publish: bool | None
    """Publish to the brokers that are named, or do not. Default: `publish` under `[cluster]`,
    except for `rebuild`; if that is not set, brokers are sent nothing, and what they serve stays as
    it is."""


class PublishKeywords(SendKeywords, total=False):
    """Whether brokers learn of what is compacted."""

    canary: Literal["off", "borders", "all"]
    """What to read of a partition, as a consumer does, once it is published. `borders`, the
    default: around the borders of replaced segments. `off`: nothing, and you answer for it that
    these brokers read this tier."""
    readers_begin_again: bool
    """Publish also a tier from which tombstones went before: readers that are on their way from the
    start to the end will begin again. The catalog records it. Default: False."""


class LogDirKeywords(TypedDict, total=False):
    """Where brokers have logs of their own."""

    log_dirs: Sequence[str | Path] | str | Path
    """Log directories of brokers, or one, as `log.dirs` names them: a segment that a machine has
    there with the same bytes is not downloaded. Default: none."""


class PlanKeywords(ReplayKeywords, PublishKeywords, LogDirKeywords, total=False):
    """The keywords of `plan`."""


class EngineKeywords(TypedDict, total=False):
    """What reads and writes segments."""

    engine: Literal["spark", "local"]
    """`spark`, the default; or `local`: this process, without Spark or Java, for small tiers."""
    local_max_bytes: int
    """Maximum bytes of logs that the engine `local` reads. Default: 2 GiB."""
    spark: SparkSession | None
    """The session of the engine `spark`. Default: the one that is there, or else a new one, which
    stays for the next call. No session is ever stopped."""


class MetricsKeywords(TypedDict, total=False):
    """Where the metrics of a run go; docs/metrics.md."""

    metrics_file: str | Path | None
    """Write a Prometheus textfile there, such as for node_exporter; it is replaced at once."""
    pushgateway: str | None
    """Push them to the Pushgateway at this URL."""


class WritingKeywords(TypedDict, total=False):
    """What stops a verb that writes."""

    clock_is_right: bool
    """Write also if this machine's clock is more than ten minutes behind the newest commit or the
    store's clock. Default: False, that is an error."""
    if_held: Literal["skip", "wait", "take-over"]
    """Of a partition that a run at work holds. `skip`, the default: leave it to that run; a verb on
    one partition refuses. `wait`: until that run is done or silent. `take-over`: discard what it is
    doing."""


class CompactKeywords(
    PlanKeywords, EngineKeywords, WritingKeywords, MetricsKeywords, total=False
):
    """The keywords of `compact`."""

    plan: str | Path | None
    """A plan file, path or URI, which `plan(out=…)` wrote: compact exactly what it says. Partitions
    of which anything has changed since are refused. It has the time, the partitions and `settings`,
    so these keywords are not given beside it."""
    max_partitions: int | None
    """Compact only the first N partitions that are due."""
    max_bytes: int | None
    """Read at most this much of the log, but at least one segment."""
    max_duration_ms: int | None
    """Begin nothing new after this long; the next run continues."""
    dry_run: bool
    """Only show what would be done, as `plan` does."""


class VerifyKeywords(
    ScopeKeywords, ClusterKeywords, LogDirKeywords, EngineKeywords, MetricsKeywords, total=False
):
    """The keywords of `verify`."""

    second_opinion: bool
    """Also find the latest records with a Spark window; reads all logs twice."""
    max_duration_ms: int | None
    """As of `compact`."""


class ReadKeywords(TierKeywords, HoleKeywords, total=False):
    """The keywords of `read`."""

    topics: Sequence[str]
    """Shell patterns, or one; a name without wildcards must exist. Default: all topics."""
    partitions: Sequence[str | int] | int
    """Numbers, or shell patterns for the number, or one of them. Default: all."""
    spark: SparkSession | None
    """As of `compact`."""


class VacuumKeywords(
    ScopeKeywords, WritingKeywords, ClusterKeywords, SendKeywords, MetricsKeywords, total=False
):
    """The keywords of `vacuum`."""

    grace_ms: int
    """How long to keep a retired segment. Default: 24 hours."""
    orphan_age_ms: int
    """How long to keep what no run has committed. Default: 24 hours."""
    canary: Literal["off", "borders", "all"]
    """What to read of a partition, as a consumer does, before what was replaced is deleted, where
    brokers' local copies should be gone. `borders`, the default: around the borders of replaced
    segments. `off`: nothing, so a broker that does not follow is not found."""
    diverged: bool
    """Also delete segments that are set apart. Only with `tier.binding=detached`."""
    max_duration_ms: int | None
    """As of `compact`."""
    dry_run: bool
    """Only list what would be deleted."""


class ChangeKeywords(CheckKeywords, WritingKeywords, total=False):
    """Whether anything changes."""

    dry_run: bool
    """Only show what would change."""


class RebuildKeywords(ScopeKeywords, WritingKeywords, ClusterKeywords, SendKeywords, total=False):
    """The keywords of `rebuild`."""

    dry_run: bool
    """Only show what would be sent."""


class UploadKeywords(ScopeKeywords, WritingKeywords, total=False):
    """The keywords of `upload`."""

    dry_run: bool
    """Only show what would be uploaded."""


class ForgetKeywords(ChangeKeywords, HoleKeywords, ClusterKeywords, SendKeywords, total=False):
    """The keywords of `forget`."""

    canary: Literal["off", "borders", "all"]
    """What to read of a partition, as a consumer does, once what comes back is published. As of
    `compact`."""
    leave_alone: Sequence[str] | str
    """Ids of whole segments that brokers never had, or one, or several with commas between: note in
    the catalog that they are no part of the log. They are never read and never deleted. Nothing is
    forgotten then. Default: none."""


class RestoreKeywords(ChangeKeywords, ClusterKeywords, PublishKeywords, total=False):
    """The keywords of `restore`."""

    copy: bool
    """Copy what comes back under new ids, so that no retired segment is live again. What brokers
    serve is always copied."""
    progress: Listener | None
    """As of `compact`."""


def takes(keywords: type) -> Callable[[_Function], _Function]:
    """Return a decorator that refuses other keywords, and shows these in `help()` and editors.

    `keywords` is the TypedDict of the function's `**given`. Raises TypeError at the call.
    """
    names = keywords.__annotations__

    def decorated(function: _Function) -> _Function:
        @wraps(function)
        def checked(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - as the function
            own = inspect.signature(function).parameters
            unknown = sorted(given.keys() - names.keys() - own.keys())
            if unknown:
                raise TypeError(
                    f"{function.__name__}() has no keyword {unknown[0]!r}; it takes"
                    f" {', '.join(sorted(names))}"
                )
            return function(*args, **given)

        checked.__signature__ = _shown(function, names)  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return decorated


def _shown(function: Callable[..., Any], names: Mapping[str, Any]) -> inspect.Signature:
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    shown = (
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=getattr(kind, "__forward_arg__", kind),
        )
        for name, kind in names.items()
    )
    return signature.replace(parameters=[*own, *shown])
