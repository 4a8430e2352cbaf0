"""A worker opens an encrypted tier with the key files of its own machine."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from tests.jobs.aiven import ENCRYPTED_CASE
from tests.jobs.tiers import key_of, updated_tier
from tests.storage.tiers.aiven_samples import KEY_FILE
from tests.storage.tiers.aiven_tiers import aiven_tier, local_segments_in
from tierfold.compaction.model.errors import BadSettings, TierfoldError
from tierfold.jobs.context.key_files import KEYS_VARIABLE
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.storage.tiers.layout_options import KeyFile, LayoutOptions
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, address_of

ORDERS = key_of("orders")


@pytest.fixture
def uploads(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "local", (ORDERS,), segments=1)


@pytest.fixture
def context(uploads: Path, tmp_path: Path) -> RunContext:
    """The driver's context, with a key file that workers lack."""
    tier = aiven_tier(uploads, tmp_path / "tier", ENCRYPTED_CASE.variant)
    own = Path(shutil.copy(KEY_FILE, tmp_path / "driver.jwk"))
    key = KeyFile(key_id="key-1", path=str(own))
    found = run_context(str(tier), layout=LayoutOptions(key_files=(key,)))
    own.unlink()
    return found


def log_of(tier: RemoteTier) -> bytes:
    (segment,) = tier.listing(ORDERS)
    return tier.read_part(address_of(ORDERS, segment), Part.LOG).tobytes()


def test_a_worker_needs_a_key_file_of_its_own(
    context: RunContext, uploads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opener = pickle.loads(pickle.dumps(context.tier_opener()))  # noqa: S301 - our own
    with pytest.raises(TierfoldError, match="the file is not there"):
        log_of(opener())
    monkeypatch.setenv(KEYS_VARIABLE, f"key-1={KEY_FILE}")
    assert log_of(opener()) == local_segments_in(uploads)[0].parts["log"]


def test_a_task_carries_no_key(context: RunContext) -> None:
    sent = pickle.dumps((context.tier_opener(), context.tier, context.layout_options))
    assert b"driver.jwk" in sent
    private = ENCRYPTED_CASE.keys[0].private_exponent
    for order in ("big", "little"):
        assert private.to_bytes(256, order)[8:40] not in sent  # type: ignore[arg-type]
    assert str(private)[:40].encode() not in sent


def test_a_relative_key_file_is_that_of_the_driver(
    uploads: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aiven_tier(uploads, tmp_path / "tier", ENCRYPTED_CASE.variant)
    shutil.copy(KEY_FILE, tmp_path / "own.jwk")
    monkeypatch.chdir(tmp_path)
    key = KeyFile(key_id="key-1", path="own.jwk")
    opener = run_context("tier", layout=LayoutOptions(key_files=(key,))).tier_opener()
    monkeypatch.chdir("/")
    assert log_of(opener()) == local_segments_in(uploads)[0].parts["log"]


def test_a_worker_names_a_folder_that_only_the_driver_has(
    context: RunContext, uploads: Path
) -> None:
    for one in (context, run_context(str(uploads))):
        tier = one.location.folder
        tier.rename(tier.with_name(f"{tier.name} elsewhere"))
        for is_there in (False, True):  # A mount point, if nothing is mounted on it.
            if is_there:
                tier.mkdir()
            with pytest.raises(BadSettings) as refused:
                one.tier_opener()()
            assert "on this worker (" in refused.value.what
            assert "every machine of the cluster" in refused.value.remedy
