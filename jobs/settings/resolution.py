"""Resolves settings as Kafka does: a topic's value overrides a broker's.

    1  conf/defaults.toml                   Kafka's own defaults
    2  the cluster: what brokers have for topics without their own value, if they are asked
    3  [broker] of the user's file          names as in a broker's server.properties
    4  --set of a broker's name
    5  the cluster: the topic's own values
    6  [topics."PATTERN"] of the user's file, in the file's order
    7  [topics."NAME"] of the user's file, a topic's own table, and the annotations of the topic's
       KafkaTopic resource (`kafka_topics`); where both have a setting, they must agree
    8  --set of a topic's name

A later source overrides an earlier one, setting by setting. If `--set` is given twice for a name,
the last one takes effect. `cleanup.policy` has no default: a topic without it is left unchanged.
The cluster decides neither policy nor strategy nor retention (`cluster_layer`).
All settings are parsed and checked for conflicts before anything else is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tierfold.compaction.brokers.cluster_configs import Configs
from tierfold.compaction.model.bindings import Detached, TierBinding, Undeclared, binding_of
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import (
    LONG_MAX,
    Rules,
    SettingViolation,
    setting_violations,
)
from tierfold.compaction.uploading.copy_lag import lag_violations
from tierfold.jobs.settings.cluster_layer import (
    NO_CLUSTER_SAYS,
    ClusterLayers,
    cluster_layers,
)
from tierfold.jobs.settings.cluster_table import NO_CLUSTER, GivenCluster
from tierfold.jobs.settings.definitions import SETTINGS, Setting
from tierfold.jobs.settings.given_layout import UNSPECIFIED, GivenLayout
from tierfold.jobs.settings.kafka_topics import policies_of
from tierfold.jobs.settings.layers import (
    COMMAND_LINE,
    NOT_SET,
    NOTHING_GIVEN,
    Layer,
    SettingValue,
    TopicTable,
    command_line,
    read_config,
    shipped_defaults,
)
from tierfold.jobs.settings.owner_labels import OwnerLabels
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

JSON_INTEGER_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps (RFC 8259, section 6)."""

_POLICY: Final = "cleanup_policy"
_BINDING: Final = "tier_binding"
_OF_RUN: Final = frozenset({_BINDING, "message_timeout_ms", "publish_max_events_per_second"})
"""Facts of the run, and no rules of a topic."""
_RETENTION: Final = frozenset({"retention_ms", "retention_bytes"})
_EXACT: Final = Context(prec=250)
"""More digits than a ratio's text can have, including its exponent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """A setting's value for one topic."""

    setting: Setting
    value: Any
    """None: not set, and there is no default."""
    source: str
    """Where it comes from: a file and its table, the command line, or `NOT_SET`."""

    @property
    def text(self) -> str:
        """The value as a file or `--set` would write it; "none" for None."""
        return _text(self.value)

    @property
    def clause(self) -> str:
        """The setting as part of a sentence: its name, its value and its source."""
        if self.value is None:
            return f"{self.setting.name}, which is not set"
        return f"{self.setting.name} = {self.text} ({self.source})"

    def as_json(self) -> dict[str, Any]:
        """The entry of `--json`: a ratio is text, which is exact; "never" is null.

        Integers beyond 2^53 are text, because most JSON readers, such as jq, round them.
        """
        return {
            "name": self.setting.name,
            "value": _json_value(self.value),
            "unit": self.setting.unit,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a run, parsed."""

    defaults: Layer
    """The shipped ones."""
    broker: Layer
    """The values of a topic without more specific ones, as the user writes them."""
    tables: tuple[TopicTable, ...]
    """In the order in which they override each other, the last one strongest."""
    command_line: Layer
    """Applies to every topic."""
    notes: tuple[str, ...] = ()
    """Settings without effect here, one sentence per place."""
    store: StoreOptions = ENVIRONMENT
    """The options of the object store, from `[store]` of the user's file."""
    layout: GivenLayout = UNSPECIFIED
    """The tier's layout, from `[layout]` of the user's file."""
    cluster: GivenCluster = NO_CLUSTER
    """The cluster, from `[cluster]` of the user's file."""
    of_topics: Mapping[str, ClusterLayers] = field(default_factory=dict)
    """By topic, what the cluster says of it; empty: it was not asked."""

    @property
    def labels(self) -> OwnerLabels:
        """The labels of topics by owner."""
        return OwnerLabels(tuple((one.pattern, one.labels) for one in self.tables if one.labels))

    @property
    def binding(self) -> Detached | Undeclared:
        """Who serves the tier, as the user says."""
        return binding_of(self.declared)

    @property
    def declared(self) -> TierBinding | None:
        """The value of `tier.binding`; None: not set."""
        value = self.of_run(_BINDING)
        return None if value is None else TierBinding(value)

    def of_run(self, field: str) -> Any:  # noqa: ANN401 - each setting has its own type
        """Return the value of a setting that is the same for all topics, by its field.

        None: not set, and there is no default.
        """
        given = self.broker.get(field, self.defaults.get(field))
        return None if given is None else given.value

    def of_cluster(
        self, topics: Mapping[str, Configs], brokers: Mapping[int, Configs]
    ) -> Settings:
        """Return these settings with what the cluster says of topics.

        `topics`: by name, all settings of a topic; `brokers`: by broker, its own. Raises
        `BadSettings` for a value that tierfold cannot follow.
        """
        found = {name: cluster_layers(name, configs, brokers) for name, configs in topics.items()}
        return replace(self, of_topics=found)

    def if_compacted(self) -> Settings:
        """Return these settings as if topics without a `cleanup.policy` were to be compacted."""
        compact = SettingValue(value=frozenset({"compact"}), source="supposed")
        return replace(self, defaults={**self.defaults, "cleanup_policy": compact})

    def rules_for(self, topic: str) -> Rules:
        """Return the effective settings of one topic.

        Raises `BadSettings` if the topic is to be compacted and two settings conflict.
        """
        layer = self._layer_of(topic)
        rules = replace(_rules(layer), retention_written=self._retention_written(topic))
        if rules.is_compacted:
            _refuse(setting_violations(rules), layer, f"topic {topic}")
        return rules

    def check_local(self, topic: str) -> None:
        """Refuse conflicts of settings that only verbs on a log directory follow.

        Raises `BadSettings`.
        """
        layer = self._layer_of(topic)
        _refuse(lag_violations(_rules(layer)), layer, f"topic {topic}")

    def rules_by_topic(self, topics: Iterable[str]) -> dict[str, Rules]:
        """Return the checked effective settings of many topics; raises as `rules_for`."""
        return {topic: self.rules_for(topic) for topic in dict.fromkeys(topics)}

    def effective(self, topic: str) -> list[EffectiveSetting]:
        """Return each setting of the topic with its source; raises as `rules_for`."""
        self.rules_for(topic)
        return _effective(self._layer_of(topic))

    def check(self) -> None:
        """Refuse conflicting settings, for each table's topics and for topics without a table.

        A topic that is not compacted is exempt, unless no policy is set anywhere. Raises
        `BadSettings`.
        """
        everyone = "topics without a table" if self.tables else "every topic"
        layers = [(everyone, self._layer_of(None))]
        for table in self.tables:
            topics = f"topic {table.pattern}" if table.is_exact else f"topics like {table.pattern}"
            layers.append((topics, self._layer_of(table.pattern)))
        has_policy = any(_POLICY in layer for _, layer in layers)
        for topics, layer in layers:
            rules = _rules(layer)
            if rules.is_compacted or not has_policy:
                _refuse(setting_violations(rules), layer, topics)

    def _retention_written(self, topic: str) -> frozenset[str]:
        """Which fields of its retention the user writes for the topic, or for topics like it."""
        tables = [table.layer for table in self.tables if table.holds(topic)]
        return _RETENTION & frozenset().union(self.command_line, *tables)

    def _layer_of(self, topic: str | None) -> Layer:
        """The values by field; None: a topic without a table."""
        said = NO_CLUSTER_SAYS if topic is None else self.of_topics.get(topic, NO_CLUSTER_SAYS)
        layer = {**self.defaults, **said.of_brokers, **self.broker, **said.of_topic}
        for table in self.tables:
            if topic is not None and table.holds(topic):
                layer.update(table.layer)
        return layer | dict(self.command_line)


def rule_texts(rules: Rules) -> dict[str, str]:
    """Return a topic's settings by name, each as a file or `--set` would write it."""
    of_topics = (setting for setting in SETTINGS if setting.field not in _OF_RUN)
    return {setting.name: _text(getattr(rules, setting.field)) for setting in of_topics}


def resolve(
    overrides: Sequence[str], config: Path | None = None, policy_from: Path | None = None
) -> Settings:
    """Resolve a run's settings: the shipped defaults, the user's file, `overrides` `NAME=VALUE`.

    `policy_from`: a file or a folder with KafkaTopic resources. Raises `BadSettings` for an
    unreadable file, an unknown name, a value that is not allowed, and two values that conflict.
    """
    file = NOTHING_GIVEN if config is None else read_config(config)
    line = command_line(overrides)
    declared = () if policy_from is None else policies_of(policy_from)
    _refuse_disagreement(file.tables, declared)
    settings = Settings(
        defaults=shipped_defaults(),
        broker={**file.broker, **line.broker},
        # The sort is stable: exact names come after patterns, and so override them.
        tables=tuple(sorted((*file.tables, *declared), key=lambda table: table.is_exact)),
        command_line=line.topics,
        notes=tuple(
            _no_effect(where, unused)
            for where, unused in (
                (f"{config} [broker]", file.unused),
                *((table.where, table.unused) for table in (*file.tables, *declared)),
                (COMMAND_LINE, line.unused),
            )
            if unused
        ),
        store=file.store,
        layout=file.layout,
        cluster=file.cluster,
    )
    settings.check()
    return settings


def _refuse_disagreement(
    tables: Sequence[TopicTable], declared: Sequence[TopicTable]
) -> None:
    """Refuse a topic's setting that its own table and its resource give differently."""
    own = {table.pattern: table for table in tables if table.is_exact}
    both = ((own[one.pattern], one) for one in declared if one.pattern in own)
    for table, resource in both:
        for ours, theirs in zip(_effective(table.layer), _effective(resource.layer), strict=True):
            if NOT_SET not in {ours.source, theirs.source} and ours.value != theirs.value:
                raise BadSettings(
                    f"{theirs.clause} contradicts {ours.clause}",
                    where=resource.where,
                    remedy="Leave one of them out, or let them agree.",
                )


def _no_effect(where: str, names: Sequence[str]) -> str:
    has, them = ("has", "it") if len(names) == 1 else ("have", "them")
    return f"{where}: {', '.join(names)} {has} no effect here: only brokers use {them}"


def _rules(layer: Layer) -> Rules:
    values = {field: setting.value for field, setting in layer.items() if field not in _OF_RUN}
    return Rules(**values)


def _effective(layer: Layer) -> list[EffectiveSetting]:
    not_set = SettingValue(value=None, source=NOT_SET)
    found = [(setting, layer.get(setting.field, not_set)) for setting in SETTINGS]
    return [
        EffectiveSetting(setting=setting, value=given.value, source=given.source)
        for setting, given in found
    ]


def _refuse(violations: Iterable[SettingViolation], layer: Layer, topics: str) -> None:
    """Raise BadSettings for the first violation, with the source of both values."""
    for violation in violations:
        clauses = {one.setting.field: one.clause for one in _effective(layer)}
        raise BadSettings(
            f"{clauses[violation.first]} {violation.says} {clauses[violation.second]}",
            where=topics,
            remedy=violation.remedy,
        )


def _json_value(value: object) -> int | str | None:
    if value is None or value == LONG_MAX:
        return None
    if isinstance(value, int) and abs(value) <= JSON_INTEGER_MAX:
        return value
    return _text(value)


def _text(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case frozenset():
            return ",".join(sorted(value))
        case Fraction():
            return format(_EXACT.divide(value.numerator, value.denominator), "f")
        case _:
            return str(value)
