"""`tierfold init`: a first settings file, in which no policy is active before a person says so."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Final

import pytest

import tierfold as api
from tests.jobs.commands import tierfold
from tests.jobs.tiers import copied, files_below, key_of, updated_tier
from tierfold.compaction.estimation.estimate import NotEstimated
from tierfold.jobs.reports.first_settings import first_settings
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.init import FoundTopic

TOPICS: Final = ("orders", "orders.changelog")

tier = copied(lambda folder: updated_tier(folder, [key_of(topic) for topic in TOPICS], 3))


def variants(text: str) -> list[str]:
    """The text with each single line uncommented, and with all of them."""
    lines = text.splitlines()
    own = [number for number, line in enumerate(lines) if line.startswith("#") and line[1] != " "]
    assert own
    return ["\n".join(_uncommented(lines, which)) for which in (*([one] for one in own), own)]


def _uncommented(lines: list[str], numbers: list[int]) -> list[str]:
    return [line[1:] if number in numbers else line for number, line in enumerate(lines)]


def test_every_line_of_the_file_can_be_uncommented(tier: Path, tmp_path: Path) -> None:
    file, before = tmp_path / "new.toml", files_below(tier)
    assert tierfold("init", tier, "-o", file).stdout.startswith(f"{file} is written.")
    assert files_below(tier) == before
    text = file.read_text(encoding="utf-8")
    settings = resolve([], file)
    assert not any(settings.rules_for(topic).cleanup_policy for topic in TOPICS)
    assert tomllib.loads(text)["tier"] == str(tier)
    assert tierfold("config", "orders", "--config", file).code == 0
    *_, every = variants(text)
    for variant in variants(text):
        file.write_text(variant, encoding="utf-8")
        resolve([], file)
    assert tierfold("config", "orders", "--config", file).code == 0
    assert tierfold("plan", "--config", file, "--json").outcomes == {
        (topic, 0): "planned" for topic in TOPICS
    }
    assert every.count('"cleanup.policy" = "compact"') == len(TOPICS)


def test_the_file_says_what_a_sample_shows(tier: Path) -> None:
    printed = tierfold("init", tier, "-o", "-").stdout
    assert printed == api.init(tier)
    assert "# 1 partition, 3 segments," in printed
    assert "# Compaction would remove about " in printed
    assert " of orders-0 (" in printed


def test_an_existing_file_is_refused_before_the_tier_is_read(tier: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("# mine", encoding="utf-8")
    shutil.rmtree(tier)
    tierfold("init", tier, "-o", file).refuses(f"--out {file}: there is such a file")
    assert file.read_text(encoding="utf-8") == "# mine"
    gone = tmp_path / "no" / "such.toml"
    tier.mkdir()
    (tier / "kafka-tiered-storage").mkdir()
    tierfold("init", tier, "-o", gone).refuses(f"--out {gone}: the settings cannot be written")


def test_the_variable_may_name_the_file_that_is_to_be_written(
    tier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "new.toml"
    monkeypatch.setenv("TIERFOLD_CONFIG", str(file))
    assert tierfold("init", tier, "-o", file).code == 0
    assert tierfold("status", "--json").code == 0


def test_neither_a_tier_nor_brokers() -> None:
    tierfold("init", "-o", "-").refuses("neither a tier nor brokers are named")


def test_brokers_are_named_and_nothing_is_published(tmp_path: Path) -> None:
    topics = [
        FoundTopic(name="a", partitions=2, segments=1, size_bytes=9),
        FoundTopic(
            name="b.c",
            partitions=1,
            segments=0,
            size_bytes=0,
            sampled=key_of("b.c"),
            estimate=NotEstimated(reason="one\n[line]"),
        ),
    ]
    text = first_settings(topics, "", "broker-1:9092,broker-2:9092", 'C:\\"client"')
    assert "# b.c-0 was not sampled: one [line]." in text
    for variant in (text, *variants(text)):
        file = tmp_path / "new.toml"
        file.write_text(variant, encoding="utf-8")
        settings = resolve([], file)
        assert settings.cluster.names_brokers
        assert settings.cluster.command_config == Path('C:\\"client"')
        assert settings.cluster.publishes == ("\npublish = true" in variant)
    assert "tier.binding" not in text  # It would contradict the brokers.
