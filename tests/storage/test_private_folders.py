"""A folder counts as private only if no other user can change, or exchange, what is in it."""

from __future__ import annotations

import errno
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfold.storage import private_folders
from tierfold.storage.private_folders import (
    foreign_hand,
    made_private,
    private_folder,
    scratch_parent,
)

ANOTHER = 65534
ANOTHERS = f"user {pwd.getpwuid(ANOTHER).pw_name}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of this user in one that belongs to no one else."""
    home = tmp_path / "home"
    (home / "cache").mkdir(parents=True, mode=0o755)
    return home


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def given_to_another(path: Path) -> bool:
    """Whether another user owns the path now; only root can give it away."""
    if os.geteuid() == 0:
        os.chown(path, ANOTHER, ANOTHER, follow_symlinks=False)
    return os.geteuid() == 0


def test_an_own_folder_is_private_and_so_is_one_that_is_still_missing(home: Path) -> None:
    for folder in (home, home / "cache", home / "cache" / "a" / "b"):
        assert foreign_hand(folder) == ""


@pytest.mark.parametrize("bit", [stat.S_IWGRP, stat.S_IWOTH])
def test_no_one_else_may_write_to_the_folder_sticky_or_not(home: Path, bit: int) -> None:
    cache = home / "cache"
    for mode in (0o700 | bit, 0o1700 | bit):
        cache.chmod(mode)
        assert foreign_hand(cache) == f"others may write to {cache}"


@pytest.mark.parametrize("bit", [stat.S_IWGRP, stat.S_IWOTH])
def test_others_may_write_above_it_only_where_they_cannot_exchange_it(
    home: Path, bit: int
) -> None:
    home.chmod(0o700 | bit)
    for folder in (home / "cache", home / "missing"):
        assert foreign_hand(folder) == f"others may write to {home}"
    home.chmod(0o1700 | bit)
    for folder in (home / "cache", home / "missing"):
        assert foreign_hand(folder) == ""


def test_another_users_folder_is_not_private(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1 + os.getuid())
    assert foreign_hand(home / "cache").startswith(f"{home / 'cache'} belongs to ")
    # A folder further up may be another's, as a cluster's service owns those of its containers.
    assert foreign_hand(home / "missing") == ""


def test_what_another_user_owns_on_the_way_is_noticed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = home / "cache"
    (cache / "numba").mkdir()
    if not given_to_another(cache / "numba"):
        return
    assert foreign_hand(cache / "numba") == f"{cache / 'numba'} belongs to {ANOTHERS}"
    # Below a folder of this user's even root's counts: `sudo -E` leaves such.
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    os.chown(home, 1234, -1)
    os.chown(cache / "numba", 1234, -1)
    assert foreign_hand(cache / "numba") == f"{cache} belongs to user root"


def test_a_sticky_folder_of_another_user_keeps_nothing(home: Path) -> None:
    home.chmod(0o1777)
    if given_to_another(home):
        assert foreign_hand(home / "missing") == f"others may write to {home}"


def test_a_link_leads_to_where_the_rule_is_applied(home: Path, tmp_path: Path) -> None:
    far = tmp_path / "far"
    (far / "numba").mkdir(parents=True)
    (home / "link").symlink_to(far)
    (home / "relative").symlink_to("../far")
    for link in (home / "link", home / "relative"):
        assert foreign_hand(link / "numba") == ""
    far.chmod(0o777)
    for link in (home / "link", home / "relative"):
        assert foreign_hand(link / "numba") == f"others may write to {far}"


def test_a_link_of_another_user_is_not_followed(home: Path, tmp_path: Path) -> None:
    (home / "link").symlink_to(tmp_path)
    if given_to_another(home / "link"):
        assert foreign_hand(home / "link" / "a") == f"{home / 'link'} is a link of {ANOTHERS}"


def test_a_loop_of_links_ends(home: Path) -> None:
    (home / "link").symlink_to(home / "link")
    assert foreign_hand(home / "link" / "a").startswith(f"{home / 'link'} is a link of")


def test_folders_are_made_private_whatever_the_umask(home: Path, open_umask: None) -> None:
    folder = home / "a" / "b"
    assert made_private(folder) == ""
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home / "a", folder)] == [0o700] * 2
    assert made_private(folder) == ""


def test_nothing_is_made_where_others_could_exchange_it(home: Path) -> None:
    home.chmod(0o777)
    assert made_private(home / "a" / "b") == f"others may write to {home}"
    assert not (home / "a").exists()


def test_a_folder_that_cannot_be_made_has_a_reason(home: Path) -> None:
    (home / "file").write_bytes(b"")
    assert "file" in made_private(home / "file" / "a")


def test_a_temporary_folder_is_private_whatever_the_umask(
    home: Path, open_umask: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    folder = Path(private_folder("tierfold-test-"))
    assert folder.parent == home
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_shared_tmpdir_is_not_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    assert scratch_parent() == "/tmp"
    assert Path(private_folder("tierfold-test-")).parent == Path("/tmp")
    assert list(home.iterdir()) == [home / "cache"]


def test_without_a_private_place_there_is_no_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.chmod(0o777)
    monkeypatch.setattr(private_folders, "scratch_parent", lambda: str(home))
    with pytest.raises(PermissionError, match="others may write"):
        private_folder("tierfold-test-")


def test_a_home_that_is_closed_to_this_user_is_a_reason(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `sudo` without `-H`, for example: root is stopped by no mode, so `exists` raises here."""

    def closed(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", closed)
    cache = home / "cache"
    assert made_private(cache) == f"{cache} cannot be made: Permission denied"
