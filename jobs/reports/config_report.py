"""The result of `config`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from rich.console import Console
from rich.text import Text

from tierfold.compaction.model.redaction import printable
from tierfold.jobs.pipeline.partition_report import OK
from tierfold.jobs.reports.result import document_head
from tierfold.jobs.reports.tables import Column, print_rows
from tierfold.jobs.reports.views import View
from tierfold.jobs.settings.beside_cluster import ClusterSetting
from tierfold.jobs.settings.remarks import Remarks
from tierfold.jobs.settings.resolution import EffectiveSetting

SOURCE_COLUMNS: Final = 18
"""Minimum width of the column of sources: a terminal of 80 columns has room for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigResult:
    """Every setting of a topic, and where its value comes from."""

    topic: str
    settings: Sequence[EffectiveSetting]
    brokers: Sequence[ClusterSetting]
    """What the cluster has; empty: it was not asked."""
    remarks: Remarks

    outcome: ClassVar[str] = OK

    def document(self, _view: View) -> dict[str, Any]:
        """Return the document."""
        brokers = [each.as_json() for each in self.brokers]
        return {
            **document_head("config"),
            "outcome": OK,
            "reason": "",
            "warnings": [*self.remarks.warnings],
            "notes": [*self.remarks.notes],
            "topic": self.topic,
            "settings": [each.as_json() for each in self.settings],
            **({"brokers": brokers} if brokers else {}),
        }

    def csv(self, _view: View) -> str:
        """Return nothing: there is no table of partitions."""
        return ""

    def show(self, console: Console, _view: View) -> None:
        """Print the settings, and below them what brokers have, if they were asked."""
        settings, brokers = self.settings, self.brokers
        title = f"settings of {self.topic}"
        print_rows(
            console,
            title,
            _SETTINGS,
            settings,
            rows_max=len(settings),
            last_columns=SOURCE_COLUMNS,
        )
        title = f"{self.topic} on its brokers"
        print_rows(console, title, _ON_BROKERS, brokers, rows_max=len(brokers))


_SETTINGS: Final[Sequence[Column[EffectiveSetting]]] = (
    ("setting", "left", lambda one: one.setting.name),
    ("value", "right", lambda one: Text(printable(one.text))),
    ("from", "left", lambda one: Text(printable(one.source))),
)
_ON_BROKERS: Final[Sequence[Column[ClusterSetting]]] = (
    ("setting", "left", lambda one: one.name),
    ("value", "right", lambda one: Text(printable(one.text))),
    ("from", "left", lambda one: one.source),
    ("use", "left", lambda one: Text(one.use)),
)
