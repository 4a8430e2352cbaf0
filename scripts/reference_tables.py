"""Generates the reference of verbs, settings, DataFrame columns and options from their code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

import click

from tierfold.jobs.api.table_functions import PLAN, PLAN_COLUMNS, STATUS, STATUS_COLUMNS
from tierfold.jobs.cli.commands import tierfold
from tierfold.jobs.settings.definitions import BY_BROKER_NAME, SETTINGS, Setting
from tierfold.jobs.sources.segment_columns import COLUMNS
from tierfold.jobs.sources.segment_options import OPTIONS

_Row = tuple[str, str]


def columns() -> str:
    """Return the table of the columns of `kafka-segments`."""
    rows = (
        (f"`{of.name}`", f"`{of.dataType.simpleString()}`", of.metadata["comment"])
        for of in COLUMNS
    )
    return table(("column", "type", "what it is"), rows)


def options() -> str:
    """Return the table of the options of `kafka-segments`."""
    rows = ((f"`{name}`", default or "none", doc) for name, (default, doc) in OPTIONS.items())
    return table(("option", "default", "what it does"), rows)


def sql_functions() -> str:
    """Return the table of the functions of SQL and their columns."""
    found = ((STATUS, STATUS_COLUMNS), (PLAN, PLAN_COLUMNS))
    rows = (
        (f"`{name}`", ", ".join(f"`{of.name}` {of.dataType.simpleString()}" for of in columns))
        for name, columns in found
    )
    return table(("function", "columns"), rows)


def settings() -> str:
    """Return the table of all settings."""
    head = ("setting", "default", "unit", "allowed", "broker's name", "source", "what it does")
    return table(head, map(_setting, SETTINGS))


def _setting(setting: Setting) -> tuple[str, ...]:
    units = ((name, BY_BROKER_NAME[name].kind.unit) for name in setting.broker_names)
    return (
        f"`{setting.name}`",
        setting.default or "none",
        setting.unit,
        setting.kind.allowed,
        ", ".join(f"`{name}`{f' ({unit})' * (unit != setting.unit)}" for name, unit in units),
        setting.source,
        setting.doc,
    )


def verbs() -> str:
    """Return the options of several verbs, then a section for each verb."""
    rows = {name: _rows(command) for name, command in sorted(tierfold.commands.items())}
    verbs_of: dict[_Row, list[str]] = {}
    for name, found in rows.items():
        for row in found:
            verbs_of.setdefault(row, []).append(name)
    shared = {row: names for row, names in verbs_of.items() if len(names) > 1}
    shared_table = table(
        ("option", "verbs", "what it does"),
        ((option, ", ".join(names), said) for (option, said), names in shared.items()),
    )
    sections = (_section(name, [row for row in rows[name] if row not in shared]) for name in rows)
    return "\n## Options that several verbs have\n\n" + shared_table + "".join(sections)


def _rows(command: click.Command) -> list[_Row]:
    """The options and their help, as cells of a table."""
    context = click.Context(command)
    of_verb = [param for param in command.params if isinstance(param, click.Option)]
    records = filter(None, (option.get_help_record(context) for option in of_verb))
    return [(f"`{_cell(names)}`", _cell(said)) for names, said in records]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("  [", " [")


def _section(name: str, own: list[_Row]) -> str:
    command = tierfold.commands[name]
    prose, _, examples = inspect.cleandoc(command.help or "").partition("\n\n\b\n")
    title, _, commands = examples.partition("\n")
    usage = " ".join(command.collect_usage_pieces(click.Context(command)))
    own_table = [table(("option", "what it does"), own)] if own else []
    console = "```console\n" + re.sub(r"^ *", "$ ", commands, flags=re.MULTILINE) + "\n```\n"
    parts = [f"## {name}\n", f"{prose}\n", f"    tierfold {name} {usage}\n", *own_table]
    return "\n" + "\n".join([*parts, f"{title}\n", console])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of a page."""
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("| --- ", "|---")
