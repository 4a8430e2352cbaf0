"""Labels by owner: which tables a topic has them from, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.settings.refusals import CANARY, refused
from tierfold.jobs.settings.layers import config_of_toml
from tierfold.jobs.settings.owner_labels import RESERVED
from tierfold.jobs.settings.resolution import resolve

LABELS = """
[topics."orders"]
labels = {team = "own"}
[topics."*"]
"cleanup.policy" = "compact"
labels = {team = "all", _cost2 = "7"}
[topics."orders*"]
labels = {team = "pattern", region = "eu ümläut"}
"""


def test_a_later_table_overrides_label_by_label_and_a_topics_own_comes_last(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tierfold.toml"
    file.write_text(LABELS)
    settings = resolve((), file)
    assert settings.labels.of("bills") == {"team": "all", "_cost2": "7"}
    assert settings.labels.of("orders-2") == {
        "team": "pattern",
        "_cost2": "7",
        "region": "eu ümläut",
    }
    assert settings.labels.of("orders")["team"] == "own"
    assert settings.rules_for("orders").is_compacted
    assert resolve(()).labels.of("orders") == {}


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ('"shop"', "labels is not a table. Write labels = {team"),
        ('{"2team" = "a"}', "Prometheus allows no such name. Begin it with a letter"),
        ('{"cost-center" = "a"}', "no label can have the name 'cost-center': Prometheus allows"),
        ('{__team = "a"}', "Prometheus allows no such name"),
        ('{"" = "a"}', "Prometheus allows no such name"),
        *((f'{{{name} = "a"}}', f"{name}': metrics have it already") for name in sorted(RESERVED)),
        ("{team = 7}", "the label team has a value that is not allowed. Give a text of 1 to 256"),
        ('{team = ""}', "the label team has a value"),
        ('{team = "a\\nb"}', "the label team has a value"),
        (f'{{team = "{CANARY * 30}"}}', "the label team has a value"),
        (f'{{"{CANARY} x" = "a"}}', "no label can have the name [hidden]"),
    ],
)
def test_labels_that_prometheus_would_not_take_are_refused(labels: str, message: str) -> None:
    with refused(message, where='f [topics."orders"]'):
        config_of_toml(f'[topics."orders"]\nlabels = {labels}', where="f")
