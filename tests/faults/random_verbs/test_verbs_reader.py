"""The checks' own reader of batches, against what a broker writes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.random_verbs import verbs_broker as broker
from tests.faults.random_verbs.verbs_model import Upload
from tests.faults.random_verbs.verbs_reader import whole_batches


@pytest.fixture
def upload(tmp_path: Path) -> Upload:
    """Twenty batches of up to three records, tombstones among them."""
    (tmp_path / broker.TIER_FOLDER).mkdir()
    rng = random.Random(3)
    partition = broker.new_partition(rng, tmp_path, "orders", 0)
    broker.append(rng, partition, 20, 1_800_000_000_000)
    return broker.segment(rng, partition, partition.log, partition.log.batches)


def test_it_reads_every_record(upload: Upload) -> None:
    batches, is_torn = whole_batches(upload.parts["log"])
    assert not is_torn
    found = [record for batch in batches for record in batch.records]
    assert found == list(upload.log.records(0, upload.end_offset))
    ends = [(batch.base_offset, batch.last_offset) for batch in upload.batches]
    assert [(batch.base_offset, batch.last_offset) for batch in batches] == ends


@pytest.mark.parametrize("cut", [1, 40, 75])
def test_it_says_where_a_log_is_torn(upload: Upload, cut: int) -> None:
    batches, is_torn = whole_batches(upload.parts["log"][:-cut])
    assert is_torn
    assert len(batches) < len(upload.batches)


@pytest.mark.parametrize(("at", "byte"), [(16, 1), (22, 1), (22, 0x20)])
def test_it_refuses_what_it_does_not_know(upload: Upload, at: int, byte: int) -> None:
    log = bytearray(upload.parts["log"])
    log[at] = byte
    with pytest.raises(ValueError, match="at offset 0 is none that this reader knows"):
        whole_batches(bytes(log))


def test_it_finds_a_batch_longer_than_its_records(upload: Upload) -> None:
    log = bytearray(upload.parts["log"])
    log[60] -= 1
    with pytest.raises(ValueError, match="ends in the middle of a record"):
        whole_batches(bytes(log[: 12 + int.from_bytes(log[8:12])]))
