"""The settings file that `tierfold init` writes: comments, and lines to uncomment.

Prose is behind `# `, a line to uncomment behind a bare `#`. Each table is complete by itself, so
any one line may be uncommented. No policy is active before a person says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich.filesize import decimal

from tierfold.compaction.estimation.estimate import Estimate, NotEstimated
from tierfold.compaction.model.wording import counted
from tierfold.jobs.verbs.init import FoundTopic

_HEAD = """\
# Settings for tierfold, written by `tierfold init`. Nothing is compacted yet: uncomment the policy
# of each topic that is to be compacted, by removing the # before the name.
# `tierfold config TOPIC --config FILE` shows a topic's settings; docs/settings.md lists all.
"""

_BROKER = """
# For all topics, by the names of a broker's server.properties.
[broker]
# Only if no broker serves this tier (a copy or an archive): `vacuum` may then delete uploads.
#"tier.binding" = "detached"
# How long a tombstone stays after the first pass that reads it: a day.
#"log.cleaner.delete.retention.ms" = 86400000
"""

_CLUSTER = """
# The brokers that serve the tier (docs/kafka.md). No secrets: they are in the file that
# command.config names, or in the environment.
[cluster]
"""

_PUBLISH = """\
# Without this, `compact` changes nothing beside these brokers.
#publish = true
"""


def first_settings(
    topics: Sequence[FoundTopic], tier: str, servers: str, command_config: str
) -> str:
    """Return the file's text; `tier`, `servers` and `command_config` are empty if not given."""
    return "".join(_parts(topics, tier, servers, command_config))


def _parts(
    topics: Sequence[FoundTopic], tier: str, servers: str, command_config: str
) -> Iterator[str]:
    yield _HEAD
    if tier:
        yield "\n# The tier of verbs that are given none.\n"
        yield f"tier = {_quoted(tier)}\n"
    # A run beside brokers must not say that none serves the tier.
    yield _BROKER if not servers else "\n# For all topics.\n[broker]\n" + _retention()
    if servers:
        yield _CLUSTER
        yield f'"bootstrap.servers" = {_quoted(servers)}\n'
        if command_config:
            yield f'"command.config" = {_quoted(command_config)}\n'
        yield _PUBLISH
    yield from map(_topic, topics)


def _retention() -> str:
    return "".join(_BROKER.splitlines(keepends=True)[-2:])


def _topic(topic: FoundTopic) -> str:
    size = f"{counted(topic.partitions, 'partition')}, {counted(topic.segments, 'segment')}"
    lines = [
        "",
        f"# {size}, {decimal(topic.size_bytes)}.",
        *(f"# {sentence}" for sentence in _sampled(topic)),
        f"[topics.{_quoted(topic.name)}]",
        '#"cleanup.policy" = "compact"',
        "# Refuses a partition with more records without a key than this: compaction drops them.",
        '#"compact.keyless.max" = 0',
    ]
    return "\n".join(lines) + "\n"


def _sampled(topic: FoundTopic) -> Iterator[str]:
    """What a sample shows, a sentence each."""
    match topic.estimate:
        case Estimate() as found if found.bytes_in:
            low, likely, high = (
                f"{share / found.bytes_in:.0%}"
                for share in (found.low_bytes, found.likely_bytes, found.high_bytes)
            )
            yield f"Compaction would remove about {likely} of {topic.sampled} ({low} to {high}),"
            yield f"by a sample of {decimal(found.read_bytes)}. That is superseded records, aborted"
            yield "ones, and those without a key."
            if found.high_bytes * 50 < found.bytes_in:
                yield "Keys hardly repeat: compaction saves nothing."
        case NotEstimated(reason=reason):
            yield f"{topic.sampled} was not sampled: {_line(reason)}."
        case _ if topic.sampled is not None:
            yield f"{topic.sampled} was not sampled: {_line(topic.reason or 'nothing could go')}."


def _line(text: str) -> str:
    """The text on one line, without the full stop at its end."""
    return " ".join(text.split()).rstrip(".")


def _quoted(text: str) -> str:
    """A basic string of TOML: JSON's escapes are among those of TOML, apart from DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
