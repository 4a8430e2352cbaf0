"""Whether a run publishes, and how: options over `[cluster]`, and topics that are taken out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.settings.refusals import refused
from tierfold.compaction.deletion.deletion_plan import GRACE_MS
from tierfold.compaction.verification.canary import CanaryMode
from tierfold.jobs.context.publishing_settings import PublishingSettings
from tierfold.jobs.settings.definitions import MESSAGE_TIMEOUT_MAX_MS
from tierfold.jobs.settings.publishing import publishing_of
from tierfold.jobs.settings.resolution import Settings, resolve
from tierfold.storage.brokers.client_settings import ClientSettings

BROKERS: Final = ClientSettings(servers=("b:1",), timeout_ms=1, options={})
SHIPPED: Final = PublishingSettings(
    is_on=False,
    message_timeout_ms=60_000,
    max_events_per_second=None,
    canary=CanaryMode.BORDERS,
    readers_begin_again=False,
)


def settings_of(folder: Path, lines: str) -> Settings:
    file = folder / "tierfold.toml"
    file.write_text(lines)
    return resolve((), file)


def test_without_a_word_nothing_is_published() -> None:
    for cluster in (BROKERS, None):
        assert publishing_of({}, resolve(()), cluster) == SHIPPED


def test_the_table_of_the_cluster_turns_it_on_and_says_how(tmp_path: Path) -> None:
    table = """
    [cluster]
    publish = true
    "message.timeout.ms" = 2000
    "publish.max.events.per.second" = 7
    """
    found = publishing_of({}, settings_of(tmp_path, table), BROKERS)
    assert found == PublishingSettings(
        is_on=True,
        message_timeout_ms=2000,
        max_events_per_second=7,
        canary=CanaryMode.BORDERS,
        readers_begin_again=False,
    )
    by_line = resolve(["message.timeout.ms=3000"], tmp_path / "tierfold.toml")
    assert publishing_of({}, by_line, BROKERS).message_timeout_ms == 3000


@pytest.mark.parametrize(
    ("table", "option", "is_on"),
    [
        ("true", None, True),
        ("true", False, False),
        ("false", None, False),
        ("false", True, True),
        ('"true"', None, True),
    ],
)
def test_the_option_overrides_the_table(
    tmp_path: Path, table: str, option: bool | None, *, is_on: bool
) -> None:
    settings = settings_of(tmp_path, f"[cluster]\npublish = {table}\n")
    assert publishing_of({"publish": option}, settings, BROKERS).is_on is is_on


def test_a_person_answers_for_the_canary_and_for_readers() -> None:
    given: dict[str, Any] = {"publish": True, "canary": "off", "readers_begin_again": True}
    found = publishing_of(given, resolve(()), BROKERS)
    assert (found.canary, found.readers_begin_again) == (CanaryMode.OFF, True)
    with refused("'some' is not one of off, borders, all", where="canary"):
        publishing_of({"canary": "some"}, resolve(()), BROKERS)


def test_publishing_without_brokers_is_refused(tmp_path: Path) -> None:
    with refused("publishing is on, and no brokers are named", where="--publish"):
        publishing_of({"publish": True}, resolve(()), None)
    on = settings_of(tmp_path, "[cluster]\npublish = true\n")
    with refused("no brokers are named", where="publish under [cluster]"):
        publishing_of({}, on, None)
    assert not publishing_of({"publish": False}, on, None).is_on


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ('publish = "yes"', "[cluster]"),
        ("publish = 1", "[cluster]"),
        ('"message.timeout.ms" = 999', "[cluster]"),
        (f'"message.timeout.ms" = {MESSAGE_TIMEOUT_MAX_MS + 1}', "[cluster]"),
        ('"publish.max.events.per.second" = 0', "[cluster]"),
        ('"publish.max.events.per.second" = true', "[cluster]"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused(tmp_path: Path, line: str, where: str) -> None:
    name = line.split(" ", maxsplit=1)[0].strip('"')
    with refused(name, where=f"{tmp_path}/tierfold.toml {where}"):
        settings_of(tmp_path, f"[cluster]\n{line}\n")


def test_sixty_timeouts_fit_into_the_grace_period(tmp_path: Path) -> None:
    line = f'[cluster]\n"message.timeout.ms" = {MESSAGE_TIMEOUT_MAX_MS}\n'
    settings_of(tmp_path, line)
    assert GRACE_MS - 60 < 60 * MESSAGE_TIMEOUT_MAX_MS <= GRACE_MS


def test_single_topics_are_taken_out(tmp_path: Path) -> None:
    tables = """
    [topics."orders.*"]
    publish = false
    [topics."orders.eu"]
    publish = true
    """
    settings = settings_of(tmp_path, tables)
    found = {name: settings.rules_for(name).publish for name in ("orders.us", "orders.eu", "other")}
    assert found == {"orders.us": False, "orders.eu": True, "other": True}
    shown = {one.setting.name: one for one in settings.effective("orders.us")}["publish"]
    assert (shown.text, shown.as_json()["value"]) == ("false", False)
    assert not resolve(["publish=false"]).rules_for("any").publish


@pytest.mark.parametrize("line", ['[topics.t]\npublish = "no"', "[topics.t]\npublish = 0"])
def test_a_topic_is_taken_out_by_true_or_false_alone(tmp_path: Path, line: str) -> None:
    with refused("publish cannot be", where=f"{tmp_path}/tierfold.toml [topics.\"t\"]"):
        settings_of(tmp_path, line)


def test_a_broker_has_no_value_for_all_topics(tmp_path: Path) -> None:
    with refused("publish is a topic's setting", where=f"{tmp_path}/tierfold.toml [broker]") as no:
        settings_of(tmp_path, "[broker]\npublish = false\n")
    assert no.value.remedy == 'Put publish under [topics."*"].'


def test_true_or_false_is_refused_for_other_settings(tmp_path: Path) -> None:
    where = f"{tmp_path}/tierfold.toml [topics.\"t\"]"
    with refused("segment.bytes cannot be true or false", where=where):
        settings_of(tmp_path, '[topics.t]\n"segment.bytes" = true\n')
