"""Generates the reference page of all settings.

    python -m tierfold.jobs.settings.reference_page > docs/settings.md

A test fails if the page in the repository differs from this.
"""

from __future__ import annotations

from typing import Final

import click

from tierfold.jobs.settings.definitions import SETTINGS, BrokerName, Setting

_HEAD: Final = """\
# Settings

<!-- Made by `python -m tierfold.jobs.settings.reference_page > docs/settings.md`; do not edit. -->

Kafka's settings under Kafka's names, with Kafka's defaults; where it has none, on purpose, it says
so. `tierfold config TOPIC` shows what a topic gets, and who said so.

## Who wins

A topic's setting goes before a broker's, as in Kafka. Later in this list wins, setting by setting:

1. the shipped [conf/defaults.toml](../conf/defaults.toml), with its reasons
2. `[broker]` of the file that `--config FILE` or `TIERFOLD_CONFIG` names; names are a broker's
3. `--set NAME=VALUE` with a broker's name
4. `[topics."PATTERN"]` of the file, where the shell pattern matches; the last in the file counts
5. `[topics."NAME"]` of the file, the topic's own table, wherever it stands
6. `--set NAME=VALUE` with a topic's name: it holds for every topic

Of two `--set` of one name the last counts. Of a broker's several names for one thing, given in the
same place, the first in its row below counts, as in Kafka. `cleanup.policy` has no default: a topic
is compacted because one of 2 to 6 says so. [conf/example.toml](../conf/example.toml) is a file to
start from.

An unknown name, a value that is not allowed, or two that cannot both hold, are one error and exit
code 2, before anything of the tier is read. Where it takes the topics' names to see that two cannot
both hold, these are listed first, and nothing is opened.

A name that Kafka 3.9 or 4.3 knows under `[broker]` and that has no effect here, such as
`log.cleaner.dedupe.buffer.size`, is no error but a note: the lines of a server.properties can stay,
written as TOML (`"NAME" = "VALUE"`). So can those of listeners and plugins (`listener.name.…`,
`rsm.config.…`, `rlmm.config.…`).

| cannot both hold | source |
|---|---|
| max.compaction.lag.ms below min.compaction.lag.ms | Kafka, KIP-354 |
| compaction.strategy=header without compaction.strategy.header | tierfold |

Under KIP-280 the strategy header without a header's name is offset, without a word. A topic that is
left alone is exempt, but where no topic has a policy all is checked. As in KIP-280, an empty
`compaction.strategy` is offset.

## Warnings and notes

They change neither what is done nor the exit code. People see them on stderr; a `--json` document
has the lists `warnings` and `notes`.

- Warning: the tier has no topic of the name in `[topics."NAME"]`. It is mistyped, or nothing of it
  is there yet. (plan, compact, status, verify, vacuum)
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

`producer.id.expiration.ms` and `tier.binding` are the broker's alone: they have no place under
`[topics]`. There is no default for `cleanup.policy`, on purpose: compaction drops records without a
key, which on an event log is all of them. There is none for `tier.binding` either: only you know
whether a broker serves the tier. A broker's retention that is negative is none, in whatever unit,
as in Kafka. Kafka's floor for `segment.bytes` is 1 MiB; tierfold takes less.

Without `compact.keyless.max` there is no limit: as in Kafka, a compacted topic loses every record
without a key. The limit counts for each commit, and a chunk is one. Records of aborted transactions
do not count, they go anyway. Beyond the limit the partition fails before anything of it is written,
with exit code 3; the others go on.
"""


def page() -> str:
    """Return the page in Markdown."""
    return _HEAD + "".join(map(_row, SETTINGS)) + _TAIL


def _row(setting: Setting) -> str:
    cells = (
        f"`{setting.name}`",
        setting.default or "none",
        setting.unit,
        setting.kind.allowed,
        ", ".join(map(_broker_name, setting.broker_names)),
        setting.source,
        setting.doc,
    )
    return f"| {' | '.join(cells)} |\n"


def _broker_name(name: BrokerName) -> str:
    return f"`{name.name}`{f' ({name.unit})' if name.unit else ''}"


if __name__ == "__main__":
    click.echo(page(), nl=False)
