"""Generates the reference page of all settings; a test compares it with docs/settings.md.

    python -m tierfold.jobs.settings.reference_page > docs/settings.md
"""

from __future__ import annotations

from typing import Final

import click

from tierfold.jobs.settings.definitions import SETTINGS, Setting

_HEAD: Final = """\
# Settings

<!-- Made by `python -m tierfold.jobs.settings.reference_page > docs/settings.md`; do not edit. -->

tierfold uses Kafka's settings with Kafka's names and defaults. The table below says where it
differs. `tierfold config TOPIC` shows a topic's settings and where each value comes from.

## Precedence

As in Kafka, a topic's setting overrides a broker's. In this list a later source overrides an
earlier one, setting by setting:

1. the shipped [conf/defaults.toml](../conf/defaults.toml), which gives a reason for each value
2. `[broker]` in the file that `--config FILE` or `TIERFOLD_CONFIG` names, with a broker's names
3. `--set NAME=VALUE` with a broker's name
4. `[topics."PATTERN"]` in the file; if several shell patterns match a topic, the last one in the
   file
5. `[topics."NAME"]` in the file, a topic's own table, wherever it is in the file
6. `--set NAME=VALUE` with a topic's name, for every topic

If `--set` is given twice for a name, the last one takes effect. If one source gives several broker
names of one setting, the first name in the setting's row below takes effect, as in Kafka.
`cleanup.policy` has no default: a topic is compacted only if one of 2 to 6 says so. Start your own
file from [conf/example.toml](../conf/example.toml).

An unknown name, a value that is not allowed, or two settings that conflict are an error with exit
code 2, before anything in the tier is read. Some conflicts depend on the names of the topics: then
tierfold lists the topics first, but opens nothing.

Lines of a server.properties can stay under `[broker]`, written as TOML (`"NAME" = "VALUE"`). A name
that Kafka 3.9 or 4.3 knows but that has no effect here, such as `log.cleaner.dedupe.buffer.size`,
gets a note, not an error. So do the names of listeners and plugins (`listener.name.…`,
`rsm.config.…`, `rlmm.config.…`).

| conflict | source |
|---|---|
| max.compaction.lag.ms below min.compaction.lag.ms | Kafka, KIP-354 |
| compaction.strategy=header without compaction.strategy.header | tierfold |

KIP-280 silently uses the strategy offset if the strategy is header and no header is named; tierfold
refuses that. As in KIP-280, an empty `compaction.strategy` is offset. Topics that are not compacted
are exempt from these checks. If no topic has a policy, all topics are checked.

## Warnings and notes

They change neither the work nor the exit code. tierfold prints them on stderr; a `--json` document
has them in the lists `warnings` and `notes`.

- Warning: the tier has no topic with the name in `[topics."NAME"]`. The name is mistyped, or the
  topic has no segments yet. (plan, compact, status, verify, vacuum)
- Warning: under the strategy timestamp or header, `segment.ms` or `max.compaction.lag.ms` is not
  below `delete.retention.ms`. A late record may be compacted only after the tombstone of its key is
  gone, and [the key is back](strategies.md#deleteretentionms-must-exceed-the-lateness) (KIP-280).
  (plan, compact --dry-run, config)
- Note: a broker's setting has no effect here. (all of these)

## All settings

| setting | default | unit | allowed | broker's name | source | what it does |
|---|---|---|---|---|---|---|
"""

_TAIL: Final = """\

`producer.id.expiration.ms` and `tier.binding` are settings of the broker only: they are not allowed
under `[topics]`. `cleanup.policy` deliberately has no default: compaction drops records without a
key, and an event log may have no others. `tier.binding` has no default because only you know
whether a broker serves the tier. As in Kafka, a negative `log.retention.…` means no limit, in any
unit. Kafka's minimum for `segment.bytes` is 1 MiB; tierfold allows less.

Without `compact.keyless.max` there is no limit: as in Kafka, a compacted topic loses every record
without a key. The limit applies to each commit, and so to each chunk. Records of aborted
transactions do not count, because they are dropped anyway. A partition that exceeds the limit fails
with exit code 3 before anything of it is written; the other partitions go on.
"""


def page() -> str:
    """Return the page in Markdown."""
    return _HEAD + "".join(map(_row, SETTINGS)) + _TAIL


def _row(setting: Setting) -> str:
    units = ((known.name, (known.kind or setting.kind).unit) for known in setting.broker_names)
    cells = (
        f"`{setting.name}`",
        setting.default or "none",
        setting.unit,
        setting.kind.allowed,
        ", ".join(f"`{name}`{f' ({unit})' * (unit != setting.unit)}" for name, unit in units),
        setting.source,
        setting.doc,
    )
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    click.echo(page(), nl=False)
