"""The result of `config`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tierfold.compaction.model.redaction import printable
from tierfold.jobs.pipeline.partition_report import OK
from tierfold.jobs.reports.result import document_head
from tierfold.jobs.reports.views import View
from tierfold.jobs.settings.beside_cluster import ClusterSetting
from tierfold.jobs.settings.remarks import Remarks
from tierfold.jobs.settings.resolution import EffectiveSetting


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
        _print_settings(console, self.topic, self.settings, self.brokers)


def _print_settings(
    console: Console,
    topic: str,
    settings: Sequence[EffectiveSetting],
    brokers: Sequence[ClusterSetting],
) -> None:
    table = Table(title=f"settings of {topic}", title_justify="left")
    table.add_column("setting", no_wrap=True)
    table.add_column("value", justify="right", overflow="fold")
    table.add_column("unit", no_wrap=True)
    table.add_column("from", overflow="fold")
    for entry in settings:
        value, source = Text(printable(entry.text)), Text(printable(entry.source))
        table.add_row(entry.setting.name, value, entry.setting.unit, source)
    console.print(table)
    if not brokers:
        return
    table = Table(title=f"{topic} on its brokers", title_justify="left")
    table.add_column("setting", no_wrap=True)
    table.add_column("value", justify="right", overflow="fold")
    table.add_column("from", overflow="fold")
    table.add_column("use", overflow="fold")
    for one in brokers:
        table.add_row(one.name, Text(printable(one.text)), one.source, Text(one.use))
    console.print(table)
