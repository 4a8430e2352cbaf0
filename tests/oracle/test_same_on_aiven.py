"""tierfold writes the same segment parts in Aiven's layout as in that of LocalTieredStorage.

The second reader of the layout decodes them. The variants take turns: plain, zstd, encrypted, both.
`TIERFOLD_AIVEN_SEEDS=0:40` runs these seeds instead of ten, as `make soak` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.aiven import CASES, AivenCase
from tests.oracle.fuzz_run import (
    PASSES_MS,
    Entries,
    FuzzedTopic,
    aiven_seeds,
    checkpoint,
    compacted,
    result_of,
)
from tests.storage.tiers.aiven_samples import KEY_FILE
from tests.storage.tiers.aiven_tiers import local_segments_in, write_aiven
from tierfold.storage.tiers.layout_options import KeyFile, Layout, LayoutOptions

CHUNK_BYTES: Final = 4099
LARGE: Final = {
    case.name: replace(case, variant=replace(case.variant, chunk_bytes=CHUNK_BYTES))
    for case in CASES
}


def case_of(seed: int) -> AivenCase:
    return list(LARGE.values())[seed % len(LARGE)]


def options_of(case: AivenCase) -> LayoutOptions:
    """The case's `arguments` as options."""
    keys = tuple(KeyFile(key_id=key.key_id, path=str(KEY_FILE)) for key in case.keys)
    prefix = case.variant.key_prefix
    return LayoutOptions(layout=Layout.AIVEN, key_prefix=prefix, key_files=keys)


@pytest.fixture(scope="module")
def tiers(
    fuzzed: dict[int, FuzzedTopic], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """One tier per variant, with the uploads of its seeds."""
    found: dict[str, Path] = {}
    local = local_segments_in(next(iter(fuzzed.values())).tier)
    for seed in aiven_seeds():
        case = case_of(seed)
        ids = {path.name[21:43] for path in fuzzed[seed].uploaded}
        tier = found.setdefault(case.name, tmp_path_factory.mktemp(case.name))
        uploaded = [segment for segment in local if segment.segment_id in ids]
        assert len(uploaded) == len(ids)
        write_aiven(tier, uploaded, case.variant)
    return found


@pytest.fixture(scope="module")
def passes(tiers: dict[str, Path]) -> list[dict[str, Entries]]:
    """Each pass's entries, by topic."""
    for name, tier in tiers.items():
        checkpoint(tier, options_of(LARGE[name]))
    return [
        {
            topic: entries
            for name, tier in tiers.items()
            for topic, entries in compacted(
                tier, number, is_from_start=number > 0, layout=LARGE[name].arguments
            ).items()
        }
        for number in range(len(PASSES_MS))
    ]


@pytest.fixture(scope="module")
def decoded(
    tiers: dict[str, Path], passes: list[dict[str, Entries]]
) -> dict[str, Mapping[str, bytes]]:
    """The parts of every segment after all passes, by id; no pass deletes any."""
    assert passes
    return {
        segment_id: segment.parts
        for name, tier in tiers.items()
        for segment_id, segment in LARGE[name].segments(tier).items()
    }


@pytest.mark.parametrize("seed", aiven_seeds())
def test_the_parts_are_those_of_local_tiered_storage(
    fuzzed: dict[int, FuzzedTopic],
    passes: list[dict[str, Entries]],
    decoded: dict[str, Mapping[str, bytes]],
    seed: int,
) -> None:
    assert len(fuzzed[seed].passes) == len(passes) > 1
    for here, there in zip(fuzzed[seed].passes, passes, strict=True):
        report, status = there[f"t{seed}"]
        assert result_of(here.report) == result_of(report)
        assert len(here.segments) == len(status["segments"])
        for segment, stored in zip(here.segments, status["segments"], strict=True):
            assert decoded[Path(stored["log"]).stem[21:]] == segment.content()
