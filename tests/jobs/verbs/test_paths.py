"""Names of folders that a URI, a glob or a shell would read as something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.commands import Ran, tierfold
from tests.jobs.tiers import files_below, key_of, updated_tier
from tests.spread import most_in_soak

AS_WRITTEN = (
    "-~#?*a{}<>;$,+:%z\"'`\u00fce\u0301\u0085 ",
    *("a b", " a", "a ", "-a", "~a", "#a", "?a", "*a", "a{b}", "<a>", "a;b", "$a", "a,b", "a+b"),
    *("a:b", "s3:b", "%", "%zz", "a%2", '"a"', "a'b", "`a`", "\u00fc", "e\u0301", "\u0085"),
)
"""They work everywhere; the first name has all such characters."""

MISREAD = ("a%20b", "50%25", "[a]", "a|b", "a^b", "a\\b", "a\tb", "a\nb", "\x01", "\x7f")
"""Only a catalog cannot be there."""


def compact(tier: Path, *arguments: str | Path) -> Ran:
    chosen = ("--set", "cleanup.policy=compact", "--set", "tier.binding=detached")
    return tierfold("compact", tier, "--json", *chosen, *arguments)


def works(tier: Path, *arguments: str | Path) -> None:
    """Every verb finds what `compact` committed there."""
    assert compact(tier, *arguments).outcomes == {("orders", 0): "compacted"}
    for verb in ("status", "plan", "verify", "vacuum"):
        ran = tierfold(verb, tier, "--json", *arguments)
        assert (ran.code, ran.partitions.keys()) == (0, {("orders", 0)}), ran
    history = tierfold("history", tier, "orders-0", "--json", *arguments).document
    found = history["partitions"][0]["history"][-1]["committed_at"]
    restored = tierfold("restore", tier, "orders-0", "--to", found, "--json", *arguments)
    assert restored.outcomes == {("orders", 0): "restored"}, restored


@pytest.mark.parametrize("name", most_in_soak(AS_WRITTEN, 2))
def test_a_tier_with_its_catalog_may_have_any_such_name(tmp_path: Path, name: str) -> None:
    works(updated_tier(tmp_path / name, [key_of("orders")], 3))


@pytest.mark.parametrize("name", most_in_soak(MISREAD, 3))
def test_a_tier_may_have_a_name_that_a_catalog_cannot_have(tmp_path: Path, name: str) -> None:
    works(
        updated_tier(tmp_path / name, [key_of("orders")], 3), "--catalog", tmp_path / "catalog"
    )


@pytest.mark.parametrize("name", MISREAD)
@pytest.mark.parametrize("verb", ["compact", "status", "plan", "vacuum", "verify"])
def test_a_catalog_that_would_be_misread_is_refused_before_anything_is_made(
    tmp_path: Path, name: str, verb: str
) -> None:
    tier = updated_tier(tmp_path / name, [key_of("orders")], 3)
    before = files_below(tmp_path)
    tierfold(verb, tier).refuses("the path of a catalog cannot hold", "--catalog")
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("name", most_in_soak(MISREAD, 2))
def test_once_its_folder_is_renamed_the_tier_is_compacted(tmp_path: Path, name: str) -> None:
    tier = updated_tier(tmp_path / name, [key_of("orders")], 3)
    compact(tier).refuses("Rename the folder")
    works(tier.rename(tmp_path / "renamed"))


def test_a_neighbours_catalog_is_not_opened(tmp_path: Path) -> None:
    neighbour = updated_tier(tmp_path / "a b", [key_of("orders")], 3)
    assert compact(neighbour).code == 0
    tier = updated_tier(tmp_path / "a%20b", [key_of("payments")], 3)
    before = files_below(tmp_path)
    compact(tier).refuses("cannot hold '%20'")
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("verb", ["compact", "status"])
def test_a_path_that_is_not_utf_8_is_refused(tmp_path: Path, verb: str) -> None:
    (folder := tmp_path / "\udcff").mkdir()
    tierfold(verb, folder).refuses("the path is not UTF-8", "Rename the folder")
    tier = updated_tier(tmp_path / "tier", [key_of("orders")], 3)
    tierfold(verb, tier, "--catalog", folder).refuses("the path is not UTF-8")
    assert not any(folder.iterdir())
    works(tier, "--catalog", folder.rename(tmp_path / "renamed"))
