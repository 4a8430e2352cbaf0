"""The cluster as the user names it: options, the table `[cluster]`, a client's properties file.

The table takes the names of a client's settings (`storage/brokers/client_names.py`), apart from
secrets, and three of its own: `command.config`, the path of a properties file, `kafka.version`, the
version that brokers have, and `publish`, whether runs publish to them. That file is Kafka's own
`--command-config`: Java properties, with a client's secrets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tierfold.compaction.brokers.broker_versions import KafkaVersion, kafka_version
from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.settings.definitions import BY_TOPIC_NAME
from tierfold.jobs.settings.kinds import TRUE_OR_FALSE
from tierfold.storage.brokers.client_names import SECRETS, SERVERS, TAKEN, VARIABLES, client_names
from tierfold.storage.brokers.client_settings import (
    NOTHING,
    ClientSettings,
    Given,
    Source,
    client_settings,
    source_of,
)

COMMAND_CONFIG: Final = "command.config"
KAFKA_VERSION: Final = "kafka.version"
PUBLISH: Final = "publish"
_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCluster:
    """The table `[cluster]`."""

    source: Source = NOTHING
    command_config: Path | None = None
    kafka_version: KafkaVersion | None = None
    """The version that the user says brokers have; None: only their settings say it."""
    publishes: bool = False
    """Whether runs publish to these brokers, unless they are given an option."""

    @property
    def names_brokers(self) -> bool:
        """Whether it says which brokers to ask first."""
        return SERVERS in self.source.found


NO_CLUSTER: Final = GivenCluster()


def cluster_of_table(table: Mapping[str, object], where: str) -> GivenCluster:
    """Parse the table; raises BadSettings, which repeats no value."""
    texts = {name: _text(name, value, where) for name, value in table.items()}
    command_config = texts.pop(COMMAND_CONFIG, None)
    declared = texts.pop(KAFKA_VERSION, None)
    publishes = texts.pop(PUBLISH, "false")
    for name in texts:
        if TAKEN.get(name) in SECRETS:
            raise _secret(name, where)
        if name in BY_TOPIC_NAME and name not in client_names():
            raise BadSettings(
                f"{name} is a topic's setting",
                where=where,
                remedy=f'Put {name} under [topics."NAME"], or under [topics."*"] for all topics.',
            )
    return GivenCluster(
        source=source_of(texts, where, (COMMAND_CONFIG, KAFKA_VERSION, PUBLISH)),
        command_config=None if command_config is None else Path(command_config),
        kafka_version=None if declared is None else _version(declared, where),
        publishes=_publishes(publishes, where),
    )


def read_command_config(path: Path) -> Source:
    """Read a client's properties file; raises BadSettings, which repeats no value."""
    # Imported here: Spark's workers import the settings but lack the parser.
    import javaproperties

    where = str(path)
    try:
        with path.open("rb") as file:
            raw = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise BadSettings(
            f"the client's properties cannot be read: {error.strerror}",
            where=where,
            remedy="Name a properties file, as Kafka's own tools take it with --command-config.",
        ) from error
    if len(raw) > _BYTES_MAX:
        raise BadSettings(
            "the file is larger than 1 MiB", where=where, remedy="Name a client's properties file."
        )
    try:
        values = javaproperties.loads(raw.decode("latin-1"))  # As Java's Properties reads a stream.
    except ValueError:  # From None: the cause would quote the text.
        raise BadSettings(
            "the file has an escape \\u without four hexadecimal digits",
            where=where,
            remedy="Write it as Java's properties do, such as \\u00e9.",
        ) from None
    return source_of(values, where)


def cluster_of(
    given: Mapping[str, Any], table: GivenCluster, environment: Mapping[str, str]
) -> ClientSettings | None:
    """The cluster to ask; None: none is named.

    `given`: the keywords `bootstrap_server` and `command_config`. Raises BadSettings.
    """
    named = given.get("command_config") or table.command_config
    sources = [table.source]
    if named:
        sources.append(read_command_config(Path(named)))
    servers = given.get("bootstrap_server")
    found = client_settings(
        sources,
        environment,
        None if not servers else Given(text=_joined(servers), where="--bootstrap-server"),
    )
    if found is None and (named or table.source.found):
        raise BadSettings(
            "there are settings of a client, but no brokers are named",
            where="--command-config" if given.get("command_config") else "[cluster]",
            remedy="Name them with --bootstrap-server HOST:PORT, or as bootstrap.servers.",
        )
    return found


def _version(text: str, where: str) -> KafkaVersion:
    try:
        return kafka_version(text)
    except ValueError:
        raise BadSettings(
            f"{KAFKA_VERSION} is no version of Kafka",
            where=where,
            remedy='Write it as Kafka does: "4.4.0" or "4.4". Leave it out if brokers differ.',
        ) from None


def _publishes(text: str, where: str) -> bool:
    try:
        return TRUE_OR_FALSE.parse(text)  # type: ignore[no-any-return]
    except ValueError:
        raise BadSettings(
            f"{PUBLISH} is neither true nor false", where=where, remedy="Write publish = true."
        ) from None


def _joined(servers: str | Sequence[str]) -> str:
    return servers if isinstance(servers, str) else ",".join(servers)


def _text(name: str, value: object, where: str) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int():
            return str(value)
        case list() if name in TAKEN and all(isinstance(one, str) for one in value):
            return ",".join(value)
    raise BadSettings(
        f"{name if name in TAKEN else 'a setting'} has a value that is not allowed",
        where=where,
        remedy='Give a string or a number. Quote names with dots: "security.protocol" = "SSL".',
    )


def _secret(name: str, where: str) -> BadSettings:
    variable = next((one for one, its in VARIABLES.items() if its == TAKEN[name]), "")
    instead = f", or supply it in the environment as {variable}" if variable else ""
    return BadSettings(
        f"{name} is a secret, and has no place in a settings file",
        where=where,
        remedy=f"Write it into a properties file that only this user can read, and name that as"
        f" {COMMAND_CONFIG}{instead}.",
    )
