"""The options of `kafka-segments`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import StructField, StructType

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import LONG_MAX, CompactionStrategy
from tierfold.compaction.model.units import OffsetSpan
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.settings.definitions import BY_TOPIC_NAME
from tierfold.jobs.settings.given_layout import OPTIONS as LAYOUT_OPTIONS
from tierfold.jobs.settings.given_layout import GivenLayout
from tierfold.jobs.settings.store_table import OPTIONS as STORE_OPTIONS
from tierfold.jobs.settings.store_table import store_options
from tierfold.jobs.sources.segment_columns import COLUMNS, USUAL_COLUMNS
from tierfold.storage.kafka.record_versions import OFFSETS_DECIDE, VersionSource
from tierfold.storage.tiers.layout_options import AS_FOUND, Layout, LayoutOptions
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

FORMAT: Final = "kafka-segments"
"""The name of the format in Spark."""

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

LIVE: Final = "live"
ORIGINAL: Final = "original"

BATCH_BYTES_MAX: Final = "decompressed.batch.max.bytes"

_EVERY_OFFSET: Final = OffsetSpan(start=0, end=LONG_MAX)
_SPAN: Final = re.compile(r"\s*([0-9]{0,18})\s*:\s*([0-9]{0,18})\s*", re.ASCII)

_STRATEGIES: Final = tuple(strategy.value for strategy in CompactionStrategy)


OPTIONS: Final = {
    "path": (
        "",
        "The tier, a folder or a URI as for [the commands](cli.md); the argument of `load(…)`.",
    ),
    "catalog": ("_tierfold in the tier", "The catalog, which lists the live segments."),
    "layout": (
        "as the tier's folders are named",
        "`aiven` or `local`, as [`--layout`](aiven.md#options) and the next three.",
    ),
    "key.prefix": ("", "The `key.prefix` of Aiven's plugin."),
    "encryption.key": (
        "",
        "`ID=FILE`, separated by commas: the key files of an encrypted tier. The session must have"
        " `spark.io.encryption.enabled`.",
    ),
    "rsm.config": ("", "A file with the broker's properties of Aiven's plugin."),
    "store.NAME": (
        "",
        "An option of the object store, such as `store.endpoint`: those of the table `[store]`"
        " ([object stores](object_stores.md)).",
    ),
    "topics": (
        "*",
        "Shell patterns, separated by commas. A name without wildcards must exist.",
    ),
    "partitions": ("*", "Shell patterns for the number, separated by commas."),
    "holes.are.holes": (
        "",
        "Names or shell patterns of partitions, such as `orders-0`, separated by commas, as"
        " [`--holes-are-holes`](cli.md).",
    ),
    "offsets": (
        "",
        "`FIRST:END`, half-open, of every partition; either may be left out. Only these offsets are"
        " read, by means of the offset index.",
    ),
    "isolation.level": (
        READ_COMMITTED,
        "`read_committed` omits aborted records, and all records from the first open transaction"
        " on; `read_uncommitted` reads them.",
    ),
    "assign": (
        "",
        "Instead of `topics` and `partitions`: the exact partitions, as in Spark's Kafka source,"
        ' `{"orders":[0,1],"payments":[4]}`.',
    ),
    "segments": (
        LIVE,
        "`original` reads the segments that brokers wrote, also the replaced ones, instead of the"
        " live ones. All of them must still exist.",
    ),
    "compaction.strategy": (
        CompactionStrategy.OFFSET.value,
        f"The source of the column `version`: {', '.join(_STRATEGIES)}.",
    ),
    "compaction.strategy.header": ("", "The header's name, for the strategy `header`."),
    BATCH_BYTES_MAX: (
        "128 MiB, or 256 times a batch's size",
        "How many bytes a compressed batch may take in any case, as the"
        " [setting](settings.md) of that name.",
    ),
    "columns": (
        "all but `timestamp_ms`, `value_digest` and `version`",
        "The columns to read, separated by commas; Spark's `.schema(…)` does the same.",
    ),
}
"""The options of the format: default, or empty, and meaning; the case of names does not matter."""


_STORE: Final = {f"store.{name}": (name, kind) for name, (_, kind) in STORE_OPTIONS.items()}
"""By option of the format: the option of the store, and its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The checked options of a read."""

    tier_uri: str
    catalog_uri: str | None
    scope: Scope
    is_committed: bool
    """`read_committed`."""
    columns: tuple[str, ...]
    holes_are_holes: tuple[str, ...] = ()
    """Patterns of the partitions in which no segment is missing."""
    offsets: OffsetSpan = _EVERY_OFFSET
    """The only offsets that are read."""
    assigned: frozenset[tuple[str, int]] | None = None
    """The only topics and partitions that are read; None: all in scope."""
    is_original: bool = False
    """Read the original segments instead of the live ones."""
    versions: VersionSource = OFFSETS_DECIDE
    """The source of the column `version`."""
    batch_bytes_max: int = 0
    """What a batch may expand to in any case; 0: no more than usual."""
    layout: LayoutOptions = AS_FOUND
    """How the tier is laid out."""
    store: StoreOptions = ENVIRONMENT
    """The options of the object store of the tier and the catalog."""


def request_of(options: Mapping[str, str]) -> Request:
    """Check the options of one read; raises BadSettings if one is unknown or malformed."""
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(given.keys() - OPTIONS.keys() - _STORE.keys())
    if unknown:
        raise BadSettings(
            f"there is no option {unknown[0]}",
            where=FORMAT,
            remedy=f"The options are {', '.join(OPTIONS)}.",
        )
    if not given.get("path", "").strip():
        raise BadSettings(
            "no tier is named",
            where=FORMAT,
            remedy="Write .load(path) with the tier's folder or URI.",
        )
    level = _one_of(given, "isolation.level", (READ_COMMITTED, READ_UNCOMMITTED))
    columns = _listed(given, "columns") or USUAL_COLUMNS
    schema_of(columns)
    assigned = _assigned(given)
    return Request(
        tier_uri=given["path"],
        catalog_uri=given.get("catalog"),
        scope=Scope(
            topics=_listed(given, "topics") or ("*",),
            partitions=_listed(given, "partitions") or ("*",),
        )
        if assigned is None
        else Scope(topics=tuple(sorted({topic for topic, _ in assigned}))),
        is_committed=level == READ_COMMITTED,
        columns=columns,
        holes_are_holes=_listed(given, "holes.are.holes"),
        offsets=_offsets(given),
        assigned=assigned,
        is_original=_one_of(given, "segments", (LIVE, ORIGINAL)) == ORIGINAL,
        versions=_versions(given),
        batch_bytes_max=_batch_bytes_max(given),
        layout=_layout(given).options(),
        store=_store(given),
    )


def layout_as_options(layout: LayoutOptions) -> dict[str, str]:
    """Return the options with which the format reads a tier of this layout."""
    if layout.layout is not Layout.AIVEN:
        return {"layout": Layout.LOCAL}
    keys = ",".join(f"{file.key_id}={file.path}" for file in layout.key_files)
    options = {"layout": Layout.AIVEN, "key.prefix": layout.key_prefix, "encryption.key": keys}
    return {name: text for name, text in options.items() if text}


def holes_as_options(patterns: tuple[str, ...]) -> dict[str, str]:
    """Return the option with which the format takes the same gaps for holes."""
    return {"holes.are.holes": ",".join(patterns)} if patterns else {}


def store_as_options(store: StoreOptions) -> dict[str, str]:
    """Return the options with which the format opens a store with these options."""
    return {
        f"store.{name}": str(getattr(store, field))
        for name, (field, _) in STORE_OPTIONS.items()
        if getattr(store, field) != getattr(ENVIRONMENT, field)
    }


def schema_of(columns: tuple[str, ...]) -> StructType:
    """Return the schema of these columns; raises BadSettings for an unknown or repeated one."""
    known = COLUMNS.names
    for i, name in enumerate(columns):
        if name not in known or name in columns[:i]:
            is_twice = name in known
            what = f"column {name} is named twice" if is_twice else f"there is no column {name!r}"
            raise BadSettings(what, where=FORMAT, remedy=f"Name each once, of {', '.join(known)}.")
    # All columns are nullable: Spark does not check what a Python reader returns.
    return StructType([StructField(name, COLUMNS[name].dataType) for name in columns])


def check_schema(schema: StructType) -> None:
    """Raise BadSettings for a column that is unknown or has the wrong type."""
    if not schema.fields:
        raise BadSettings(
            "the schema names no column",
            where=FORMAT,
            remedy="To count records, read a small column, such as partition.",
        )
    schema_of(tuple(schema.names))
    for asked in schema.fields:
        ours = COLUMNS[asked.name]
        if asked.dataType.simpleString() != ours.dataType.simpleString():
            raise BadSettings(
                f"the schema has column {asked.name} as {asked.dataType.simpleString()}",
                where=FORMAT,
                remedy=f"Name it as {ours.dataType.simpleString()}, and cast it afterwards.",
            )
        if not asked.nullable and ours.nullable:
            raise BadSettings(
                f"the schema has column {asked.name} as NOT NULL, but records may lack it",
                where=FORMAT,
                remedy="Omit NOT NULL.",
            )


def _one_of(given: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    """The option's value, by default the first of `values`; raises BadSettings for another."""
    value = given.get(name, values[0])
    if value not in values:
        raise BadSettings(
            f"{name} is {value!r}", where=FORMAT, remedy=f"Write {' or '.join(values)}."
        )
    return value


def _layout(given: Mapping[str, str]) -> GivenLayout:
    """What the options say of the layout; raises BadSettings."""
    texts = {name: given[name] for name in LAYOUT_OPTIONS if name in given}
    where = {name: f"{FORMAT} {name}" for name in LAYOUT_OPTIONS}
    return GivenLayout.of(texts, _listed(given, "encryption.key"), where)


def _store(given: Mapping[str, str]) -> StoreOptions:
    """The options of the store; raises BadSettings for a value that is not allowed."""
    return store_options(
        {
            name: _typed(given[option], kind)
            for option, (name, kind) in _STORE.items()
            if option in given
        },
        FORMAT,
    )


def _typed(text: str, kind: type) -> object:
    """The text as a value of this type; unchanged if it is not one."""
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    return int(text) if kind is int and text.isdecimal() else text


def _batch_bytes_max(given: Mapping[str, str]) -> int:
    """What a batch may expand to; raises BadSettings if that is no number of bytes."""
    if BATCH_BYTES_MAX not in given:
        return 0
    kind = BY_TOPIC_NAME[BATCH_BYTES_MAX].kind
    text = given[BATCH_BYTES_MAX]
    try:
        most: int = kind.parse(text)
    except ValueError as error:
        raise BadSettings(
            f"{BATCH_BYTES_MAX} is {text!r}", where=FORMAT, remedy=f"Give {kind.allowed}."
        ) from error
    return most


def _versions(given: Mapping[str, str]) -> VersionSource:
    """What the strategy compares; raises BadSettings for an invalid strategy or header."""
    strategy = CompactionStrategy(_one_of(given, "compaction.strategy", _STRATEGIES))
    header = given.get("compaction.strategy.header", "")
    if (strategy is CompactionStrategy.HEADER) != bool(header):
        raise BadSettings(
            f"compaction.strategy is {strategy.value}, compaction.strategy.header is {header!r}",
            where=FORMAT,
            remedy="Name a header for the strategy header only.",
        )
    return VersionSource(strategy=strategy, header=header)


def _offsets(given: Mapping[str, str]) -> OffsetSpan:
    """The span in the option `offsets`; raises BadSettings if it is malformed."""
    found = _SPAN.fullmatch(given.get("offsets", ":"))
    if found is None:
        raise BadSettings(
            f"offsets is {given['offsets']!r}",
            where=FORMAT,
            remedy="Write FIRST:END, such as 12000:13000, 12000: or :13000.",
        )
    first, end = found.groups()
    return OffsetSpan(start=int(first or _EVERY_OFFSET.start), end=int(end or _EVERY_OFFSET.end))


def _assigned(given: Mapping[str, str]) -> frozenset[tuple[str, int]] | None:
    """The partitions in the option `assign`; raises BadSettings if it is malformed."""
    if "assign" not in given:
        return None
    wrong = BadSettings(
        f"assign is {given['assign']!r}",
        where=FORMAT,
        remedy='Write JSON such as {"orders":[0,1]}, and omit the options topics and partitions.',
    )
    if given.keys() & {"topics", "partitions"}:
        raise wrong
    try:
        named = json.loads(given["assign"])
    except ValueError as error:
        raise wrong from error
    is_valid = isinstance(named, dict) and all(
        isinstance(numbers, list) and all(type(number) is int for number in numbers)
        for numbers in named.values()
    )
    if not is_valid or not named:
        raise wrong
    return frozenset((topic, number) for topic, numbers in named.items() for number in numbers)


def _listed(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The parts of a value that are separated by commas; raises BadSettings if one is empty."""
    if name not in given:
        return ()
    parts = tuple(part.strip() for part in given[name].split(","))
    if not all(parts):
        raise BadSettings(
            f"{name} is {given[name]!r}",
            where=FORMAT,
            remedy="Write names separated by commas, or omit the option.",
        )
    return parts
