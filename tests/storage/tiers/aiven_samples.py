"""The samples of Aiven's layout in `tests/data/aiven`, as a real broker wrote them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.storage.tiers.aiven_keys import KeyPair, key_pair_of_jwk
from tests.storage.tiers.aiven_objects import PlainSegment
from tests.storage.tiers.aiven_tiers import segments_in

_DATA: Final = Path(__file__).resolve().parents[2] / "data" / "aiven"

KEY_FILE: Final = _DATA / "encrypted" / "keys" / "key-1.jwk.json"
"""The key pair of the sample `encrypted`, a JSON Web Key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample."""

    name: str
    key_prefix: str = ""

    @property
    def folder(self) -> Path:
        """What belongs to it."""
        return _DATA / self.name

    @property
    def bucket(self) -> Path:
        """The tier."""
        return self.folder / "bucket"

    @property
    def keys(self) -> tuple[KeyPair, ...]:
        """The key pairs that read it."""
        return (key_pair_of_jwk(KEY_FILE),) if self.name == "encrypted" else ()

    def segments(self) -> list[PlainSegment]:
        """Its segments, read by the second reader."""
        return segments_in(self.bucket, self.key_prefix, self.keys)

    def log_digests(self) -> Mapping[int, str]:
        """SHA-256 of the logs on the broker's disk, by start offset."""
        lines = (self.folder / "original-logs.sha256").read_text().splitlines()
        return {int(line.split()[1].removesuffix(".log")): line.split()[0] for line in lines}


PLAIN: Final = Sample(name="plain")
ZSTD: Final = Sample(name="zstd", key_prefix="cluster-a/tiered/")
ENCRYPTED: Final = Sample(name="encrypted")
SAMPLES: Final = (PLAIN, ZSTD, ENCRYPTED)


def digest(log: bytes) -> str:
    """SHA-256, as in `Sample.log_digests`."""
    return hashlib.sha256(log).hexdigest()
