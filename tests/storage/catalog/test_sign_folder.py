"""The signs of life in a folder; nothing that somebody may put there stops a run or leads it away.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storage.catalog.sign_contract import FAR_FUTURE_MS, RUN, SAID, SignContract
from tests.storage.special_files import SPECIAL_FILES
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.catalog.sign_folder import SignFolder, sign_folder
from tierfold.storage.tiers.locations import location_of
from tierfold.storage.tiers.store_options import ENVIRONMENT


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    return tmp_path / "tier" / "_tierfold"


def signs_at(catalog: Path) -> SignFolder:
    return sign_folder(location_of(str(catalog), of="catalog"), ENVIRONMENT)


def names_in(catalog: Path) -> list[str]:
    return [path.name for path in (catalog / "signs").iterdir()]


class TestSignsInAFolder(SignContract):
    @pytest.fixture
    def signs(self, catalog: Path) -> SignFolder:
        catalog.mkdir(parents=True)
        return signs_at(catalog)


def test_the_first_sign_makes_the_catalogs_folder(catalog: Path) -> None:
    signs_at(catalog).write(RUN, 1, SAID)
    assert names_in(catalog) == [f"{RUN}.1"]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "tier").write_bytes(b"")
    with pytest.raises(UnreadableObject, match="cannot make this folder"):
        signs_at(tmp_path / "tier" / "_tierfold").write(RUN, 1, SAID)


@pytest.mark.parametrize("special", SPECIAL_FILES.values(), ids=SPECIAL_FILES)
def test_a_special_file_is_no_sign(catalog: Path, special: Callable[[Path], None]) -> None:
    signs = signs_at(catalog)
    signs.write("alive", 1, SAID)
    special(catalog / "signs" / f"{RUN}.1")
    assert [one.run for one in signs.listed()] == ["alive"]


def test_a_linked_sign_is_not_read(catalog: Path, tmp_path: Path) -> None:
    signs = signs_at(catalog)
    signs.write("alive", 1, SAID)
    (tmp_path / "secret").write_bytes(b'{"host": "secret"}')
    (catalog / "signs" / f"{RUN}.1").symlink_to(tmp_path / "secret")
    assert {signs.read(one).host for one in signs.listed()} == {"", "node-7"}
    signs.clean_up(FAR_FUTURE_MS)
    assert (tmp_path / "secret").exists()


@pytest.mark.parametrize("linked", ["signs", "_tierfold"])
def test_no_link_leads_to_another_folder(catalog: Path, tmp_path: Path, linked: str) -> None:
    """Neither is a sign written through it, nor does a deletion go there."""
    there = tmp_path / "there"
    (there / "signs").mkdir(parents=True)
    (there / "signs" / "old.1").write_bytes(b"{}")
    if linked == "signs":
        catalog.mkdir(parents=True)
        (catalog / "signs").symlink_to(there / "signs")
    else:
        catalog.parent.mkdir(parents=True)
        catalog.symlink_to(there)
    signs = signs_at(catalog)
    for act in (
        lambda: signs.write(RUN, 1, SAID),
        signs.listed,
        lambda: signs.clean_up(FAR_FUTURE_MS),
    ):
        with pytest.raises(UnreadableObject, match="symbolic link"):
            act()
    assert names_in(there) == ["old.1"]


def test_unfinished_signs_of_dead_runs_are_deleted(catalog: Path) -> None:
    signs = signs_at(catalog)
    signs.write(RUN, 1, SAID)
    (catalog / "signs" / f".{RUN}.2.f00.staged").write_bytes(b"{")
    assert len(signs.listed()) == 1
    signs.clean_up(FAR_FUTURE_MS)
    assert names_in(catalog) == []
