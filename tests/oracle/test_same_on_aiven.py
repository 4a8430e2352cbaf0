"""A tier in Aiven's layout becomes what the same tier of LocalTieredStorage becomes, part by part.

The second reader of the layout decodes it. Seeds take turns with the variants: plain, zstd,
encrypted, both. `TIERFOLD_AIVEN_SEEDS=0:40` runs these seeds instead of ten; so does `make soak`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.aiven import CASES, AivenCase
from tests.oracle.fuzz_run import PASSES_MS, FuzzedTopic, aiven_seeds, checkpoint, compacted
from tests.oracle.test_same_on_spark import FIELDS
from tests.storage.tiers.aiven_samples import KEY_FILE
from tests.storage.tiers.aiven_tiers import local_segments_in, write_aiven
from tierfold.storage.tiers.layout_options import KeyFile, Layout, LayoutOptions

Done = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A topic's entries of `compact` and `status`."""

CHUNK_BYTES: Final = 4099
LARGE: Final = {
    case.name: replace(case, variant=replace(case.variant, chunk_bytes=CHUNK_BYTES))
    for case in CASES
}


def case_of(seed: int) -> AivenCase:
    return list(LARGE.values())[seed % len(LARGE)]


def options_of(case: AivenCase) -> LayoutOptions:
    """What `AivenCase.arguments` say."""
    keys = tuple(KeyFile(key_id=key.key_id, path=str(KEY_FILE)) for key in case.keys)
    prefix = case.variant.key_prefix
    return LayoutOptions(layout=Layout.AIVEN, key_prefix=prefix, key_files=keys)


@pytest.fixture(scope="module")
def tiers(
    fuzzed: dict[int, FuzzedTopic], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A tier for each variant, with the uploads of its seeds."""
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
def passes(tiers: dict[str, Path]) -> list[dict[str, Done]]:
    """The entries of all topics, by pass."""
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
    tiers: dict[str, Path], passes: list[dict[str, Done]]
) -> dict[str, Mapping[str, bytes]]:
    """The parts of every segment after all passes, by id: nothing was deleted."""
    assert passes
    return {
        segment_id: segment.parts
        for name, tier in tiers.items()
        for segment_id, segment in LARGE[name].segments(tier).items()
    }


@pytest.mark.parametrize("seed", aiven_seeds())
def test_the_parts_are_those_of_local_tiered_storage(
    fuzzed: dict[int, FuzzedTopic],
    passes: list[dict[str, Done]],
    decoded: dict[str, Mapping[str, bytes]],
    seed: int,
) -> None:
    assert len(fuzzed[seed].passes) == len(passes) > 1
    for here, there in zip(fuzzed[seed].passes, passes, strict=True):
        report, status = there[f"t{seed}"]
        assert {name: here.report[name] for name in FIELDS} == {
            name: report[name] for name in FIELDS
        }
        assert len(here.segments) == len(status["segments"])
        for segment, stored in zip(here.segments, status["segments"], strict=True):
            assert decoded[Path(stored["log"]).stem[21:]] == segment.content()
