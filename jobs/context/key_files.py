"""Where the keys of an encrypted tier are: files, by the id of their key pair.

A key itself never leaves the process that reads its file. A task carries the driver's paths; on an
executor's machine, the environment may name other paths. Spark's workers import this module, so it
imports nothing that only the driver has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.storage.tiers.layout_options import KeyFile, LayoutOptions

KEYS_VARIABLE: Final = "TIERFOLD_ENCRYPTION_KEYS"
"""`ID=FILE,…`: key files of this machine."""


def key_file_of(text: str, where: str) -> KeyFile:
    """The key file in `ID=FILE`; raises BadSettings, which does not repeat the text.

    A user may have written the key instead of its file.
    """
    key_id, _, path = (part.strip() for part in text.partition("="))
    # A manifest separates the id from the wrapped key by a colon.
    if not key_id or not path or ":" in key_id or "PRIVATE KEY" in text:
        raise BadSettings(
            "a key is not written as ID=FILE",
            where=where,
            remedy="Write the id of the key pair, an equals sign, and the path of a file with the"
            " key, PEM or a JSON Web Key. An id has no colon.",
        )
    return KeyFile(key_id=key_id, path=path)


def distinct(files: tuple[KeyFile, ...], where: str) -> tuple[KeyFile, ...]:
    """The files; raises BadSettings if two have the same id."""
    ids = [file.key_id for file in files]
    for key_id in ids:
        if ids.count(key_id) > 1:
            raise BadSettings(
                f"the key {key_id!r} has two files", where=where, remedy="Name each id once."
            )
    return files


def joined(first: tuple[KeyFile, ...], then: tuple[KeyFile, ...]) -> tuple[KeyFile, ...]:
    """Both, without the second file of an id."""
    ids = {file.key_id for file in first}
    return (*first, *(file for file in then if file.key_id not in ids))


def with_own_paths(options: LayoutOptions, environment: Mapping[str, str]) -> LayoutOptions:
    """The options with the paths that this process's environment names for their keys.

    A worker adds no key: the driver decides which ones a run uses. If there are any, it requires
    Spark to encrypt what it writes to disks. Raises BadSettings.
    """
    own = {file.key_id: file for file in _key_files_of(environment)}
    files = tuple(own.get(file.key_id, file) for file in options.key_files)
    return replace(options, key_files=files)


def with_keys_of_environment(
    options: LayoutOptions, environment: Mapping[str, str]
) -> LayoutOptions:
    """As `with_own_paths`, followed by the environment's other keys; for the driver.

    Paths become absolute: a worker has another working directory.
    """
    files = joined(options.key_files, _key_files_of(environment))
    own = with_own_paths(replace(options, key_files=files), environment)
    absolute = (replace(file, path=str(Path(file.path).absolute())) for file in own.key_files)
    return replace(own, key_files=tuple(absolute))


def _key_files_of(environment: Mapping[str, str]) -> tuple[KeyFile, ...]:
    listed = environment.get(KEYS_VARIABLE, "").strip()
    if not listed:
        return ()
    files = tuple(key_file_of(text, KEYS_VARIABLE) for text in listed.split(","))
    return distinct(files, KEYS_VARIABLE)
