"""Settings from annotations of Strimzi's KafkaTopic resources, and their place among the others."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Final

import pytest

import tierfold
from tests.jobs.commands import tierfold as command
from tests.jobs.settings.refusals import CANARY, refused
from tests.jobs.tiers import key_of, updated_tier
from tierfold.jobs.cli.commands import tierfold as group
from tierfold.jobs.settings import kafka_topics
from tierfold.jobs.settings.definitions import BY_TOPIC_NAME, SETTINGS
from tierfold.jobs.settings.kafka_topics import policies_of
from tierfold.jobs.settings.resolution import Settings, resolve

ORDERS: Final = """
# As Strimzi's documentation has it.
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata:
  name: orders
  namespace: shop
  labels:
    strimzi.io/cluster: my-cluster
  annotations:
    strimzi.io/managed: "true"
    tierfold.io/cleanup.policy: compact
    tierfold.io/min.cleanable.dirty.ratio: 0.1
spec:
  partitions: 3
  replicas: 3
  config:
    cleanup.policy: delete
    remote.storage.enable: true
"""
OTHERS: Final = f"""
apiVersion: v1
kind: Secret
metadata: {{name: orders}}
data: {{password: {CANARY}, value: !vault x}}
---
---
- a list
---
apiVersion: kafka.other.io/v1
kind: KafkaTopic
metadata: {{name: orders, annotations: {{tierfold.io/odd: x}}}}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaTopic
metadata:
  name: long-name-1a2b3c
  annotations:
    tierfold.io/cleanup.policy: compact,delete
    tierfold.io/compaction.strategy: ""
spec: {{topicName: Long_Name, partitions: 1}}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaTopic
metadata: {{name: silent}}
"""


def a_file(folder: Path, text: str, name: str = "topics.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def of_topic(name: str, *annotations: str) -> str:
    """A resource with these annotations, each as YAML has it."""
    lines = "".join(f"\n    {annotation}" for annotation in annotations)
    return (
        "---\napiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata:\n"
        f"  name: {name}\n  annotations: {'{}' if not annotations else lines}\n"
    )


def value_of(settings: Settings, topic: str, name: str) -> tuple[object, str]:
    (found,) = [one for one in settings.effective(topic) if one.setting.name == name]
    return found.value, found.source


def test_annotations_of_a_topic_are_its_settings_with_file_and_resource_as_source(
    tmp_path: Path,
) -> None:
    a_file(tmp_path, ORDERS)
    other = a_file(tmp_path, OTHERS, "team/others.yml")
    a_file(tmp_path, "{{ a template", "team/NOTES.txt")
    a_file(tmp_path, "{{ a template", "team/another.yaml")
    a_file(tmp_path, "{{ a KafkaTopic", ".git/config.yaml")
    settings = resolve([], policy_from=tmp_path)
    where = f"{tmp_path}/topics.yaml, KafkaTopic orders"
    assert value_of(settings, "orders", "cleanup.policy") == (frozenset({"compact"}), where)
    ratio = value_of(settings, "orders", "min.cleanable.dirty.ratio")
    assert ratio == (Fraction(1, 10), where)  # As it is written, and no float.
    resource = f"{other}, KafkaTopic long-name-1a2b3c"
    policy = frozenset({"compact", "delete"})
    assert value_of(settings, "Long_Name", "cleanup.policy") == (policy, resource)
    assert value_of(settings, "silent", "cleanup.policy")[0] is None
    assert [table.pattern for table in settings.tables] == ["orders", "Long_Name"]


def test_every_setting_of_a_topic_can_be_an_annotation(tmp_path: Path) -> None:
    examples = {"cleanup.policy": "compact", "compaction.strategy.header": "v", "publish": "false"}
    given = {
        name: examples.get(name) or BY_TOPIC_NAME[name].setting.default or "1"
        for name in BY_TOPIC_NAME
    }
    text = of_topic("orders", *(f'tierfold.io/{name}: "{value}"' for name, value in given.items()))
    settings = resolve([], policy_from=a_file(tmp_path, text))
    names = {one.setting.name for one in settings.effective("orders") if "yaml" in one.source}
    assert names == {*BY_TOPIC_NAME} == {one.name for one in SETTINGS if one.is_for_topics}


def test_kafkas_own_names_without_effect_become_a_note(tmp_path: Path) -> None:
    names = ("file.delete.delay.ms", "log.preallocate", "segment.bytes")
    text = of_topic("orders", *(f'tierfold.io/{name}: "7"' for name in names))
    text += of_topic("users", 'tierfold.io/remote.storage.enable: "true"') + of_topic("silent")
    path = a_file(tmp_path, text)
    settings = resolve([], policy_from=path)
    assert settings.notes == (
        f"{path}, KafkaTopic orders: file.delete.delay.ms, log.preallocate have no effect"
        " here: only brokers use them",
        f"{path}, KafkaTopic users: remote.storage.enable has no effect here: only brokers use it",
    )
    assert value_of(settings, "orders", "segment.bytes")[0] == 7
    assert value_of(settings, "users", "segment.bytes")[1] == "default"


def test_what_kubectl_prints_is_a_list(tmp_path: Path) -> None:
    items = "".join(f"\n- {line}" if i == 0 else f"\n  {line}" for i, line in enumerate(
        of_topic("orders", "tierfold.io/segment.bytes: 7").splitlines()[1:]
    ))
    path = a_file(tmp_path, f"apiVersion: v1\nkind: List\nitems:{items}\n")
    (table,) = policies_of(path)
    assert (table.pattern, table.layer["segment_bytes"].value) == ("orders", 7)


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        (
            of_topic("orders", "tierfold.io/cleanup.polcy: compact"),
            "there is no setting 'cleanup.polcy'. Did you mean cleanup.policy?",
            ", KafkaTopic orders, tierfold.io/cleanup.polcy",
        ),
        (
            of_topic("orders", "tierfold.io/cleanup.policy: shrink"),
            "cleanup.policy cannot be 'shrink'. Give compact, delete or compact,delete (list).",
            ", KafkaTopic orders, tierfold.io/cleanup.policy",
        ),
        (
            of_topic("orders", "tierfold.io/log.segment.bytes: 7"),
            "log.segment.bytes is a broker's setting. Write segment.bytes here",
            ", KafkaTopic orders, tierfold.io/log.segment.bytes",
        ),
        (
            of_topic("orders", "tierfold.io/segment.bytes: [7]"),
            "it has no text as its value. Give a whole number",
            ", KafkaTopic orders, tierfold.io/segment.bytes",
        ),
        (
            of_topic("orders", "tierfold.io/segment.bytes:"),
            "it has no text as its value. Give a whole number",
            ", KafkaTopic orders, tierfold.io/segment.bytes",
        ),
        (
            of_topic("orders", "tierfold.io/segment.bytes: 7", "tierfold.io/segment.bytes: 8"),
            "it is there twice. Remove one of them.",
            ", KafkaTopic orders, tierfold.io/segment.bytes",
        ),
        (
            of_topic("not/a/topic", "tierfold.io/segment.bytes: 7"),
            "is no name of a topic",
            ", KafkaTopic not/a/topic",
        ),
        (
            of_topic("orders", "<<: {tierfold.io/segment.bytes: 7}"),
            "annotations has the key <<, which is not followed. Write out what it brings.",
            ", KafkaTopic orders",
        ),
        (
            f"# KafkaTopic\na: b: {CANARY}",
            "not YAML: mapping values are not allowed here. Mend it",
            ", line 2",
        ),
        (
            f'# KafkaTopic\na: "{CANARY}',
            "not YAML: found unexpected end of stream. Mend it",
            ", line 2",
        ),
        ("# KafkaTopic\na: \x00", "not YAML: a character is not allowed", ""),
        ("# KafkaTopic\n" + "[" * 5000, "nested too deeply. Take the file out", ""),
        ("kind: Pod", "there is no KafkaTopic of kafka.strimzi.io. Name a YAML file", None),
    ],
)
def test_a_mistake_is_one_error_that_names_file_resource_and_annotation(
    text: str, message: str, where: str | None, tmp_path: Path
) -> None:
    path = a_file(tmp_path, text)
    with refused(message, where=f"--policy-from {path}" if where is None else f"{path}{where}"):
        policies_of(path)


def test_a_topic_is_declared_once(tmp_path: Path) -> None:
    first = a_file(tmp_path, of_topic("orders", "tierfold.io/segment.bytes: 7"), "a/1.yaml")
    second = a_file(tmp_path, of_topic("orders"), "b/2.yaml")
    message = f"declared twice, also by {first}, KafkaTopic orders. Remove one of the resources"
    with refused(message, where=f"{second}, KafkaTopic orders"):
        policies_of(tmp_path)
    # Where neither says anything, it is no matter of ours.
    a_file(tmp_path, of_topic("orders"), "a/1.yaml")
    assert policies_of(tmp_path) == ()


def test_hostile_yaml_is_neither_multiplied_nor_read_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = "a: &a {k: v}\n" + "".join(
        f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 10)}]}}\n"
        for before, name in zip("abcdefghij", "bcdefghijk", strict=True)
    )
    path = a_file(tmp_path, bomb + of_topic("orders", "tierfold.io/segment.bytes: 7"))
    assert [table.pattern for table in policies_of(path)] == ["orders"]
    a_file(tmp_path, "x" * 1000, "large.yaml")
    monkeypatch.setattr(kafka_topics, "FILES_MAX_BYTES", 1024)
    with refused("the files have more than 0 MiB", where=f"--policy-from {tmp_path}"):
        policies_of(tmp_path)


def test_a_place_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with refused("cannot be read: No such file", where=f"--policy-from {tmp_path / 'none'}"):
        policies_of(tmp_path / "none")
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"a: \xe9")
    with refused("cannot be read: it is not UTF-8", where=f"--policy-from {path}"):
        policies_of(tmp_path)


def test_an_annotation_lies_between_patterns_and_the_command_line(tmp_path: Path) -> None:
    topics = a_file(tmp_path, of_topic("orders", "tierfold.io/segment.bytes: 7"))
    config = a_file(
        tmp_path,
        '[broker]\n"log.segment.bytes" = 1\n[topics."ord*"]\n"segment.bytes" = 2\n'
        '[topics."orders"]\n"segment.ms" = 3\n',
        "tierfold.toml",
    )
    settings = resolve([], config, topics)
    assert value_of(settings, "orders", "segment.bytes") == (7, f"{topics}, KafkaTopic orders")
    assert value_of(settings, "orders", "segment.ms")[0] == 3
    assert value_of(settings, "ordinary", "segment.bytes")[0] == 2
    line = resolve(["segment.bytes=9"], config, topics)
    assert value_of(line, "orders", "segment.bytes") == (9, "--set segment.bytes")


def test_a_topics_own_table_must_agree_with_its_resource(tmp_path: Path) -> None:
    topics = a_file(tmp_path, of_topic("orders", "tierfold.io/segment.bytes: 7"))
    config = a_file(tmp_path, '[topics."orders"]\n"segment.bytes" = 8\n', "tierfold.toml")
    source = f"{topics}, KafkaTopic orders"
    message = (
        f"segment.bytes = 7 ({source}) contradicts segment.bytes = 8"
        f' ({config} [topics."orders"]). Leave one of them out, or let them agree.'
    )
    for line in ([], ["segment.bytes=9"]):  # Even if --set hides it.
        with refused(message, where=source):
            resolve(line, config, topics)
    a_file(tmp_path, '[topics."orders"]\n"segment.bytes" = 7\n', "tierfold.toml")
    assert value_of(resolve([], config, topics), "orders", "segment.bytes") == (7, source)


def test_every_verb_that_takes_settings_takes_the_option() -> None:
    taking = {
        option: {
            name
            for name, verb in group.commands.items()
            if option in {parameter.name for parameter in verb.params}
        }
        for option in ("config", "policy_from")
    }
    assert taking["policy_from"] == taking["config"] == group.commands.keys() - {"dump", "init"}


def test_the_command_follows_it_and_names_what_is_wrong(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [key_of("orders"), key_of("silent")], 2)
    a_file(tmp_path, ORDERS, "topics/orders.yaml")
    words = ("--policy-from", tmp_path / "topics")
    planned = command("plan", tier, *words, "--json")
    assert planned.outcomes == {("orders", 0): "planned", ("silent", 0): "nothing_to_do"}
    shown = command("config", "orders", *words, "--json").document["settings"]
    sources = {one["name"]: one["source"] for one in shown}
    assert sources["cleanup.policy"] == f"{tmp_path}/topics/orders.yaml, KafkaTopic orders"
    by_function = tierfold.plan(tier, policy_from=tmp_path / "topics", topics=["orders"])
    assert by_function.outcome == "planned"
    a_file(tmp_path, of_topic("absent", "tierfold.io/cleanup.policy: compact"), "topics/b.yml")
    warned = command("plan", tier, *words, "--json").document["warnings"]
    assert any("KafkaTopic absent: the tier has no topic of that name" in one for one in warned)
    a_file(tmp_path, of_topic("odd", "tierfold.io/cleanup.policy: x"), "topics/b.yml")
    where = f"{tmp_path}/topics/b.yml, KafkaTopic odd, tierfold.io/cleanup.policy"
    command("compact", tier, *words).refuses(where, "cleanup.policy cannot be 'x'")
