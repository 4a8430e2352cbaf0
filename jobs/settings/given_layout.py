"""A tier's layout as the user describes it: options, `[layout]`, the broker's own properties.

    1  --rsm-config, or `rsm.config` of the table      the broker's own properties
    2  the table `[layout]` of the user's file
    3  --layout, --key-prefix, --encryption-key

A later source overrides an earlier one, option by option. Key files are joined: those of a later
source come first, and its first one encrypts what is written. What no source sets is read from the
objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.redaction import setting_name
from tierfold.jobs.context.key_files import distinct, joined, key_file_of
from tierfold.storage.tiers.layout_options import KeyFile, Layout, LayoutOptions

OPTIONS: Final = ("layout", "key.prefix", "encryption.key", "rsm.config")
"""The names in the table, which are also options of the reader."""

_PREFIX: Final = re.compile(r"(?!/)(?!(.*/)?\.{1,2}(/|$))(?!.*//)[A-Za-z0-9._=+@,~/-]*")
"""A path that `storage.tiers.locations` accepts in a URI; it cannot lead out of a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenLayout:
    """The options of one source; None: it does not set this one."""

    layout: Layout | None = None
    key_prefix: str | None = None
    key_files: tuple[KeyFile, ...] = ()
    rsm_config: Path | None = None

    @classmethod
    def of(cls, texts: Mapping[str, str], keys: Sequence[str], where: Mapping[str, str]) -> Self:
        """Parse the values of `OPTIONS`; raises BadSettings.

        `keys`: the values of `encryption.key`; `where`: the place of each option, for messages.
        """
        layout = texts.get("layout")
        if layout is not None and layout not in [*Layout]:
            raise BadSettings(
                f"there is no layout {layout!r}",
                where=where["layout"],
                remedy=f"Known are {' and '.join(Layout)}. Without the option, the tier's objects"
                " decide.",
            )
        prefix = texts.get("key.prefix")
        if prefix is not None:
            check_key_prefix(prefix, where["key.prefix"])
        place = where["encryption.key"]
        return cls(
            layout=None if layout is None else Layout(layout),
            key_prefix=prefix,
            key_files=distinct(tuple(key_file_of(key, place) for key in keys), place),
            rsm_config=Path(texts["rsm.config"]) if "rsm.config" in texts else None,
        )

    def over(self, other: Self) -> Self:
        """Merge both; this one overrides the other."""
        return replace(
            self,
            layout=self.layout or other.layout,
            key_prefix=other.key_prefix if self.key_prefix is None else self.key_prefix,
            key_files=joined(self.key_files, other.key_files),
            rsm_config=self.rsm_config or other.rsm_config,
        )

    def options(self) -> LayoutOptions:
        """The options of the tier.

        Raises BadSettings if a file cannot be read or has a wrong value, or if LocalTieredStorage
        has no such option.
        """
        broker = LayoutOptions()
        if self.rsm_config is not None and self.layout is not Layout.LOCAL:
            # Imported here: Spark's workers import this module but lack the parser.
            from tierfold.jobs.settings.rsm_config import read_rsm_config

            broker = read_rsm_config(self.rsm_config)
            check_key_prefix(broker.key_prefix, f"{self.rsm_config} key.prefix")
        found = replace(
            broker,
            layout=self.layout or broker.layout,
            key_prefix=broker.key_prefix if self.key_prefix is None else self.key_prefix,
            key_files=joined(self.key_files, broker.key_files),
        )
        if found.layout is Layout.LOCAL:
            self._refuse_options_of_aiven()
            return LayoutOptions(layout=Layout.LOCAL)
        return found

    def _refuse_options_of_aiven(self) -> None:
        given = {
            "key prefix": bool(self.key_prefix),
            "encryption key": bool(self.key_files),
            "rsm.config": self.rsm_config is not None,
        }
        named = [name for name, is_given in given.items() if is_given]
        if named:
            raise BadSettings(
                f"the layout local has no {' and no '.join(named)}",
                where="layout",
                remedy="Leave these out, or name the layout aiven.",
            )


UNSPECIFIED: Final = GivenLayout()


def check_key_prefix(prefix: str, where: str) -> None:
    """Raise BadSettings for a key prefix that a URI cannot contain."""
    if not _PREFIX.fullmatch(prefix):
        raise BadSettings(
            f"the key prefix {prefix!r} cannot be used",
            where=where,
            remedy="Use letters, digits and - _ . = + @ , ~ between single slashes, without a"
            " leading slash; end it with a slash only if the plugin's key.prefix does.",
        )


def layout_of_table(table: Mapping[str, object], where: str) -> GivenLayout:
    """Parse the table `[layout]`; raises BadSettings, which repeats no path."""
    texts: dict[str, str] = {}
    keys: list[str] = []
    for name, value in table.items():
        if name not in OPTIONS:
            raise BadSettings(
                f"there is no option {setting_name(name)}",
                where=where,
                remedy=f"Known are {', '.join(OPTIONS)}.",
            )
        if name == "encryption.key":
            keys = _texts(value, where)
        elif isinstance(value, str) and (value or name == "key.prefix"):
            texts[name] = value
        else:
            raise BadSettings(
                f"{name} has a value that is not allowed",
                where=where,
                remedy='Give a string, such as "…".',
            )
    return GivenLayout.of(texts, keys, dict.fromkeys(OPTIONS, where))


def _texts(value: object, where: str) -> list[str]:
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return value
    raise BadSettings(
        "encryption.key has a value that is not allowed",
        where=where,
        remedy='Give a list of strings, such as ["key-1=/etc/keys/key-1.pem"].',
    )
