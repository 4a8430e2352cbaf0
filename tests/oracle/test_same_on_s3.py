"""tierfold writes the same objects to a bucket as to a folder.

`TIERFOLD_S3_SEEDS=0:40` runs these seeds instead of ten, as `make soak` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.oracle.fuzz_run import (
    PASSES_MS,
    Entries,
    FuzzedTopic,
    checkpoint,
    compacted,
    result_of,
    s3_seeds,
)
from tests.storage.emulators import new_bucket, s3, s3_client, s3_environment

PREFIX: Final = "a/tier"


@pytest.fixture(scope="module")
def bucket(fuzzed: dict[int, FuzzedTopic]) -> str:
    """A bucket with the uploads of the seeds."""
    name = new_bucket(s3())
    for seed in s3_seeds():
        topic = fuzzed[seed]
        for path in topic.uploaded:
            key = f"{PREFIX}/{path.relative_to(topic.tier)}"
            s3_client(s3()).put_object(Bucket=name, Key=key, Body=path.read_bytes())
    return name


@pytest.fixture(scope="module")
def passes(bucket: str) -> Iterator[list[dict[str, Entries]]]:
    """Each pass's entries, by topic."""
    uri = f"s3://{bucket}/{PREFIX}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3_environment(s3()).items():
            patch.setenv(name, value)
        checkpoint(uri)
        yield [
            compacted(uri, number, is_from_start=number > 0) for number in range(len(PASSES_MS))
        ]


@pytest.mark.parametrize("seed", s3_seeds())
def test_a_bucket_gets_the_objects_that_a_folder_gets(
    fuzzed: dict[int, FuzzedTopic], passes: list[dict[str, Entries]], bucket: str, seed: int
) -> None:
    assert len(fuzzed[seed].passes) == len(passes) > 1
    for here, there in zip(fuzzed[seed].passes, passes, strict=True):
        report, status = there[f"t{seed}"]
        assert result_of(here.report) == result_of(report)
        assert len(here.segments) == len(status["segments"])
        for segment, stored in zip(here.segments, status["segments"], strict=True):
            assert segment.content() == _stored(bucket, stored["log"])


def _stored(bucket: str, log: str) -> dict[str, bytes]:
    stem = Path(log.removeprefix(f"s3://{bucket}/")).with_suffix("")
    client = s3_client(s3())
    found = client.list_objects_v2(Bucket=bucket, Prefix=f"{stem}.")["Contents"]
    return {
        entry["Key"].removeprefix(f"{stem}."): client.get_object(Bucket=bucket, Key=entry["Key"])[
            "Body"
        ].read()
        for entry in found
    }
