"""Tiers in Aiven's layout for tests of jobs: variants, their arguments, their live logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.jobs.tiers import records_in
from tests.storage.tiers.aiven_keys import KeyPair
from tests.storage.tiers.aiven_objects import PlainSegment, Variant
from tests.storage.tiers.aiven_samples import ENCRYPTED, KEY_FILE
from tests.storage.tiers.aiven_tiers import segments_in

KEY: Final[KeyPair] = ENCRYPTED.keys[0]
PREFIX: Final = "cluster-a/of-"
"""A prefix that ends within a name."""

SMALL_CHUNK_BYTES: Final = 97
"""So small that a batch has several chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AivenCase:
    """A variant of the layout, and the arguments that describe it to tierfold."""

    name: str
    variant: Variant

    @property
    def arguments(self) -> tuple[str, ...]:
        """What must be said; the rest is found."""
        prefix = ("--key-prefix", PREFIX) if self.variant.key_prefix else ()
        key = ("--encryption-key", f"key-1={KEY_FILE}") if self.variant.key else ()
        return (*prefix, *key)

    @property
    def keys(self) -> tuple[KeyPair, ...]:
        """The key pairs of the second reader."""
        return (self.variant.key,) if self.variant.key else ()

    def segments(self, tier: Path) -> Mapping[str, PlainSegment]:
        """All segments of a tier by id, read by the second reader."""
        found = segments_in(tier, self.variant.key_prefix, self.keys)
        return {segment.segment_id: segment for segment in found}

    def live_logs(self, tier: Path, status: Mapping[str, Any], folder: Path) -> list[Path]:
        """The decoded live logs that an entry of `status --json` names, written to `folder`."""
        segments = self.segments(tier)
        logs = []
        for entry in status["segments"]:
            found = segments[Path(entry["log"]).stem[21:]]
            logs.append(folder / f"{found.start_offset:020d}-{found.segment_id}.log")
            logs[-1].write_bytes(found.parts["log"])
        return logs

    def live_values(
        self, tier: Path, status: Mapping[str, Any], folder: Path
    ) -> dict[bytes | None, bytes | None]:
        """Key → value of the live segments; a key lives once."""
        found = records_in(self.live_logs(tier, status, folder))
        values = {key: value for _, key, value in found}
        assert len(values) == len(found), "a key lives twice"
        return values


def _case(name: str, **options: Any) -> AivenCase:
    return AivenCase(name=name, variant=Variant(chunk_bytes=SMALL_CHUNK_BYTES, **options))


PLAIN: Final = _case("plain")
ZSTD: Final = _case("zstd", is_compressed=True, key_prefix=PREFIX)
ENCRYPTED_CASE: Final = _case("encrypted", key=KEY)
BOTH: Final = _case("both", is_compressed=True, key=KEY, key_prefix=PREFIX)
CASES: Final = (PLAIN, ZSTD, ENCRYPTED_CASE, BOTH)


def manifests(tier: Path) -> dict[str, Mapping[str, Any]]:
    """The manifests of a tier by segment id."""
    paths = tier.rglob("*.rsm-manifest")
    return {path.stem[21:]: json.loads(path.read_text()) for path in paths}


