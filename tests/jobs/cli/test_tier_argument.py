"""TIER: the command line's, else the environment's, else the settings file's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.commands import tierfold
from tests.jobs.tiers import copied, key_of, updated_tier
from tierfold.jobs.settings.layers import config_of_toml

tier = copied(lambda folder: updated_tier(folder, [key_of("orders")], 2))


def settings_file(folder: Path, tier: object) -> Path:
    file = folder / "tierfold.toml"
    file.write_text(f"tier = '{tier}'\n", encoding="utf-8")
    return file


def test_the_nearest_one_counts(
    tier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = settings_file(tmp_path, tier)
    assert tierfold("status", "--config", file, "--json").document["tier"] == str(tier)
    monkeypatch.setenv("TIERFOLD_CONFIG", str(file))
    assert tierfold("status", "--json").document["tier"] == str(tier)
    monkeypatch.setenv("TIERFOLD_TIER", "/no/tier")
    tierfold("status").refuses("/no/tier (from TIERFOLD_TIER): there is no such folder")
    assert tierfold("status", tier, "--json").document["tier"] == str(tier)
    tierfold("status", "/not/there").refuses("tierfold: /not/there: there is no such folder")


def test_the_file_is_parsed_once(tier: Path, tmp_path: Path) -> None:
    config_of_toml.cache_clear()
    assert tierfold("status", "--config", settings_file(tmp_path, tier)).code == 0
    assert config_of_toml.cache_info().misses == 1


def test_one_argument_is_the_partition(tier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERFOLD_TIER", str(tier))
    assert tierfold("history", "orders-0", "--json").document["tier"] == str(tier)
    assert tierfold("history", tier, "orders-0").code == 0
    tierfold("history").refuses("Missing argument 'PARTITION'")
    monkeypatch.delenv("TIERFOLD_TIER")
    tierfold("history", "orders-0").refuses("Missing argument 'TIER'", "TIERFOLD_TIER")


def test_a_wrong_tier_of_the_file_names_the_file(tmp_path: Path) -> None:
    file = settings_file(tmp_path, "/no/tier")
    tierfold("plan", "--config", file).refuses(f"/no/tier (from tier in {file}): there is no")
    file.write_text("tier = 7\n", encoding="utf-8")
    tierfold("plan", "--config", file).refuses(f"{file}: tier is a number")
    tierfold("plan", "--config", tmp_path / "none.toml").refuses("the settings cannot be read")
    ran = tierfold("plan", "--json")
    ran.refuses("Missing argument 'TIER'")
    assert "Missing argument 'TIER'" in ran.document["reason"]
