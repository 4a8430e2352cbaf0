"""Reads settings of topics from Strimzi's `KafkaTopic` resources, where the topics are declared.

    apiVersion: kafka.strimzi.io/v1
    kind: KafkaTopic
    metadata:
      name: orders
      annotations:
        tierfold.io/cleanup.policy: compact

An annotation is `tierfold.io/` and the name of a setting that can stand under `[topics."NAME"]`.
All other resources are passed over. YAML is only parsed, never made into objects: so no tag is
followed, and no alias is multiplied.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.redaction import printable
from tierfold.jobs.settings.definitions import BY_TOPIC_NAME
from tierfold.jobs.settings.layers import (
    SettingValue,
    TopicTable,
    is_unused,
    not_a_topics,
    parsed,
    without_quotes,
)
from tierfold.storage.kafka.topic_names import is_topic

if TYPE_CHECKING:
    from yaml import Node

OPTION: Final = "--policy-from"
PREFIX: Final = "tierfold.io/"

FILES_MAX_BYTES: Final = 16 * 1024**2
"""How much all files may have together: ten thousand topics, and a minute or two of parsing."""

_API: Final = re.compile(r"kafka\.strimzi\.io/v\w+")
_KIND: Final = "KafkaTopic"
_SUFFIXES: Final = (".yaml", ".yml")
_NULL: Final = "tag:yaml.org,2002:null"
_MERGE: Final = "<<"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resource:
    """One `KafkaTopic`."""

    topic: str
    table: TopicTable
    """What its annotations for tierfold say; empty: it has none."""


def policies_of(place: Path) -> tuple[TopicTable, ...]:
    """Return a table for each topic of a file or a folder whose resource has such annotations.

    In a folder all files named `*.yaml` and `*.yml` count, those of subfolders included, but not
    what begins with a dot. Raises `BadSettings`, which names file, resource and annotation.
    """
    found: dict[str, _Resource] = {}
    # What never says KafkaTopic is not parsed: it takes time, and may be a template.
    texts = ((file, text) for file, text in _texts(place) if _KIND in text)
    for file, text in texts:
        for resource in _resources(file, text):
            other = found.setdefault(resource.topic, resource)
            if other is not resource and (other.table.layer or resource.table.layer):
                raise BadSettings(
                    f"the topic {resource.topic} is declared twice, also by {other.table.where}",
                    where=resource.table.where,
                    remedy=f"Remove one of the resources, or give {OPTION} the folder of one"
                    " cluster only.",
                )
    if not found:
        raise BadSettings(
            "there is no KafkaTopic of kafka.strimzi.io",
            where=f"{OPTION} {place}",
            remedy="Name a YAML file with these resources, or a folder with such files.",
        )
    return tuple(one.table for one in found.values() if _says_something(one.table))


def _texts(place: Path) -> Iterator[tuple[str, str]]:
    """The path and the text of each file, in the order of their paths."""
    left, path = FILES_MAX_BYTES, place
    try:
        for path in _files(place):
            with path.open("rb") as file:
                content = file.read(left + 1)
            left -= len(content)
            if left < 0:
                raise BadSettings(
                    f"the files have more than {FILES_MAX_BYTES // 1024**2} MiB",
                    where=f"{OPTION} {place}",
                    remedy="Name a folder that has little but the topics of one cluster.",
                )
            yield str(path), content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadSettings(
            f"the resources cannot be read: {why}",
            where=f"{OPTION} {path}",
            remedy="Name a YAML file with KafkaTopic resources, or a folder with such files.",
        ) from error


def _files(place: Path) -> Iterator[Path]:
    if not place.is_dir():
        yield place
        return
    for folder, folders, names in os.walk(place):
        # What a ConfigMap mounts has each file twice, the other time below a name with a dot.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(_SUFFIXES) and not name.startswith("."):
                yield Path(folder, name)


def _resources(file: str, text: str) -> Iterator[_Resource]:
    import yaml

    try:
        documents = [*yaml.compose_all(text, Loader=yaml.SafeLoader)]
    except yaml.YAMLError as error:
        raise _not_yaml(error, file) from None  # A log that shows causes would quote the text.
    except RecursionError:
        raise BadSettings(
            "not YAML of a resource: it is nested too deeply",
            where=file,
            remedy=f"Take the file out of what {OPTION} names.",
        ) from None
    for document in documents:
        for node in (document, *_items(document)):
            fields = _fields(node)
            kind, api = (_text(fields.get(name)) for name in ("kind", "apiVersion"))
            if kind == _KIND and _API.fullmatch(api):
                yield _resource(fields, file)


def _not_yaml(error: Exception, file: str) -> BadSettings:
    mark = getattr(error, "problem_mark", None)
    problem = without_quotes(getattr(error, "problem", None) or "a character is not allowed")
    return BadSettings(
        f"not YAML: {problem}",
        where=file if mark is None else f"{file}, line {mark.line + 1}",
        remedy=f"Mend it, or take the file out of what {OPTION} names, as a template of Helm.",
    )


def _items(document: Node) -> list[Node]:
    """The resources of a list, as `kubectl get -o yaml` prints it."""
    fields = _fields(document)
    items = fields.get("items")
    is_list = _text(fields.get("kind")).endswith("List") and items is not None
    return [*items.value] if is_list and items is not None and items.id == "sequence" else []


def _resource(fields: dict[str, Node], file: str) -> _Resource:
    metadata, spec = _fields(fields.get("metadata")), _fields(fields.get("spec"))
    name = _text(metadata.get("name"))
    where = f"{file}, KafkaTopic {printable(name)}" if name else f"{file}, a KafkaTopic"
    topic = _text(spec.get("topicName")) or name
    annotations = metadata.get("annotations")
    pairs = annotations.value if annotations is not None and annotations.id == "mapping" else []
    for of, found in (("metadata", metadata), ("annotations", _fields(annotations))):
        if _MERGE in found:
            raise BadSettings(
                f"{of} has the key {_MERGE}, which is not followed",
                where=where,
                remedy="Write out what it brings.",
            )
    layer: dict[str, SettingValue] = {}
    unused: dict[str, None] = {}
    for key, value in pairs:
        annotation = _text(key)
        if annotation.startswith(PREFIX) and is_unused(annotation.removeprefix(PREFIX), ""):
            unused[annotation.removeprefix(PREFIX)] = None
        elif annotation.startswith(PREFIX):
            field, given = _setting(annotation, value, where)
            if field in layer:
                raise BadSettings(
                    "it is there twice",
                    where=f"{where}, {annotation}",
                    remedy="Remove one of them.",
                )
            layer[field] = given
    table = TopicTable(pattern=topic, layer=layer, where=where, unused=tuple(unused))
    if _says_something(table) and not is_topic(topic):
        raise BadSettings(
            "its spec.topicName, or else metadata.name, is no name of a topic",
            where=where,
            remedy="A topic name has only letters, digits, dots, dashes and underscores.",
        )
    return _Resource(topic=topic, table=table)


def _says_something(table: TopicTable) -> bool:
    return bool(table.layer or table.unused)


def _setting(annotation: str, value: Node, where: str) -> tuple[str, SettingValue]:
    """The field of an annotation's setting, and its value; raises BadSettings."""
    name, place = annotation.removeprefix(PREFIX), f"{where}, {printable(annotation)}"
    spelling = BY_TOPIC_NAME.get(name)
    if spelling is None:
        raise not_a_topics(name, "", place)
    if value.id != "scalar" or value.tag == _NULL:
        raise BadSettings(
            "it has no text as its value", where=place, remedy=f"Give {spelling.allowed}."
        )
    return spelling.setting.field, SettingValue(
        value=parsed(spelling, value.value, place), source=where
    )


def _fields(node: Node | None) -> dict[str, Node]:
    """The fields of an object; of anything else none."""
    if node is None or node.id != "mapping":
        return {}
    return {_text(key): value for key, value in node.value}


def _text(node: Node | None) -> str:
    """The text of a scalar as it is written; of anything else nothing."""
    return str(node.value) if node is not None and node.id == "scalar" else ""
