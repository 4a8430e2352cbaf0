"""Whether only this user can change what a folder holds, and folders of which that is true.

A cache of kernels holds pickles, and any program that connects to a socket of Spark runs code.
Another user of the machine who can write there, or could exchange a folder on the way, could run
code as this user. A shared home, a shared TMPDIR, or a umask of 000 make that possible.

The rule: from the first folder on the way that belongs to this user, all belong to it, and so does
the last one, to which no one else may write. Others may write to a folder above the last one only
if it is sticky, and root's or this user's: then they cannot exchange what is in it. A link on the
way is root's or this user's. Anyone who owns a folder further up is trusted, as a cluster's service
is; access lists (setfacl) are not looked at.
"""

from __future__ import annotations

import atexit
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_LINKS_MAX: Final = 40
"""As many links as Linux follows."""


def foreign_hand(folder: Path) -> str:
    """Who else could change what is in `folder`, as a clause; empty: no one but root.

    A folder that is missing counts as one that this user is about to make.
    """
    try:
        return _foreign_hand(Path(os.path.abspath(folder)), _LINKS_MAX)  # noqa: PTH100 - no links
    except OSError as error:
        return f"{error.filename} cannot be looked at: {error.strerror}"


def _foreign_hand(folder: Path, links: int) -> str:
    user, is_below_own = os.geteuid(), False
    for path in (*reversed(folder.parents), folder):
        try:
            found = path.lstat()
        except FileNotFoundError:
            return ""
        if stat.S_ISLNK(found.st_mode):
            if found.st_uid not in {0, user} or not links:
                return f"{path} is a link of {_name_of(found.st_uid)}"
            target = path.parent / path.readlink()
            rest = folder.relative_to(path)
            return _foreign_hand(Path(os.path.normpath(target)) / rest, links - 1)
        is_last, is_own = path == folder, found.st_uid == user
        if not is_own and (is_last or is_below_own):
            return f"{path} belongs to {_name_of(found.st_uid)}"
        is_kept = bool(found.st_mode & stat.S_ISVTX) and (is_own or found.st_uid == 0)
        if found.st_mode & _OTHERS_WRITE and (is_last or not is_kept):
            return f"others may write to {path}"
        is_below_own = is_below_own or (is_own and user != 0)
    return ""


def foreign_file(path: Path) -> str:
    """Who else wrote a file, or could write to it, as a clause; empty: no one, or it is missing."""
    try:
        return _foreign_file(path, path.lstat())
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{error.filename} cannot be looked at: {error.strerror}"


def foreign_content(folder: Path, suffixes: tuple[str, ...] = ()) -> str:
    """Who else wrote, or could write, what is in a private folder, as a clause; empty: no one.

    A folder that was open once may still hold what another user put there. `suffixes`: only files
    named so, in the folder itself; by default everything in it and below.
    """
    try:
        with os.scandir(folder) as children:
            for child in children:
                if suffixes and not child.name.endswith(suffixes):
                    continue
                if child.is_dir(follow_symlinks=False) and not suffixes:
                    reason = foreign_hand(Path(child.path)) or foreign_content(Path(child.path))
                else:
                    reason = _foreign_file(Path(child.path), child.stat(follow_symlinks=False))
                if reason:
                    return reason
    except OSError as error:
        return f"{error.filename} cannot be looked at: {error.strerror}"
    return ""


def _foreign_file(path: Path, found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return f"{path} is no regular file"
    if found.st_uid not in {0, os.geteuid()}:
        return f"{path} belongs to {_name_of(found.st_uid)}"
    return f"others may write to {path}" if found.st_mode & _OTHERS_WRITE else ""


def made_private(folder: Path) -> str:
    """Make a folder with mode 0700, if it is missing, and the missing ones above it.

    Returns why it is not private, as a clause; then nothing was made. Empty: it is.
    """
    try:
        # Within a home that is closed to this user even `exists` raises.
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        reason = foreign_hand(folder)
        if not reason and folder.exists() and not folder.is_dir():
            reason = f"{folder} is no folder"
        for path in () if reason else reversed(missing):
            path.mkdir(exist_ok=True)
            path.chmod(stat.S_IRWXU)  # Whatever the umask.
    except OSError as error:
        return f"{error.filename} cannot be made: {error.strerror}"
    return reason or foreign_hand(folder)


def scratch_parent() -> str:
    """Where temporary folders are made: TMPDIR, but `/tmp` if others could exchange them there."""
    from tempfile import gettempdir  # noqa: PLC0415 - it would slow every start

    usual = gettempdir()
    return "/tmp" if foreign_hand(Path(usual) / "any") else usual


@contextmanager
def private_tempfile() -> Iterator[None]:
    """Have `tempfile` make files in `scratch_parent` meanwhile, where a library names no folder."""
    import tempfile  # noqa: PLC0415 - it would slow every start

    before = tempfile.tempdir
    tempfile.tempdir = scratch_parent()
    try:
        yield
    finally:
        tempfile.tempdir = before


def private_folder(prefix: str, *, parent: str | None = None) -> str:
    """Create a folder that only this user may enter, whatever the umask; it is removed at exit.

    `parent`: by default `scratch_parent`. Raises OSError if it cannot be made, or others could
    exchange it.
    """
    # Rarely needed; importing them at the top would slow every start.
    import shutil  # noqa: PLC0415
    from tempfile import mkdtemp  # noqa: PLC0415

    folder = mkdtemp(prefix=prefix, dir=parent or scratch_parent())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # `mkdtemp` uses 0700, but a umask can remove even the owner's bits.
    Path(folder).chmod(stat.S_IRWXU)
    if reason := foreign_hand(Path(folder)):
        raise PermissionError(f"no folder can be private there: {reason}")
    return folder


def _name_of(uid: int) -> str:
    import pwd  # noqa: PLC0415

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
