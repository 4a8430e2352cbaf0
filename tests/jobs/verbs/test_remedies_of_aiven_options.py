"""Remedies of keys, prefixes and manifests in Aiven's layout, carried out as the message says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.aiven import ENCRYPTED_CASE, PLAIN, PREFIX, ZSTD, AivenCase
from tests.jobs.commands import ALWAYS, Ran, tierfold, told
from tests.jobs.tiers import files_below, key_of, latest_updates, updated_tier
from tests.storage.tiers.aiven_keys import new_key_pair
from tests.storage.tiers.aiven_samples import KEY_FILE
from tests.storage.tiers.aiven_tiers import aiven_tier

SEGMENTS: Final = 2
Make = Callable[[AivenCase], Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes two segments of orders-0 as the plugin would."""
    local = updated_tier(tmp_path / "local", [key_of("orders")], SEGMENTS)
    return lambda case: aiven_tier(local, tmp_path / "tier", case.variant)


def compacted(tier: Path, *options: str | Path) -> Ran:
    return tierfold("compact", tier, *ALWAYS, "--json", *options)


def is_compacted(tier: Path, case: AivenCase, folder: Path) -> None:
    """Assert that the command succeeds with the brokers' options, and `verify` after it."""
    compacted(tier, *case.arguments).ends(0, "compacted")
    assert tierfold("verify", tier, *case.arguments, "--json").code == 0
    (out := folder / "out").mkdir()
    status = tierfold("status", tier, *case.arguments, "--json", "--segments").entry
    assert case.live_values(tier, status, out) == latest_updates(SEGMENTS)


def refused(tier: Path, options: tuple[str | Path, ...], *words: str) -> None:
    """Assert that the run says these words, and changes no object."""
    before = files_below(tier)
    ran = compacted(tier, *options)
    assert ran.code in {2, 3}, ran
    assert not told(ran.stdout.replace("\\", "") + ran.stderr, *words), ran
    after = files_below(tier)
    assert {name: after.get(name) for name in before} == before
    shutil.rmtree(tier / "_tierfold", ignore_errors=True)


# 1. Keys.


def no_key(_folder: Path) -> tuple[tuple[str, ...], str]:
    return (), "Name the file of its private key: --encryption-key key-1=FILE."


def another_id(_folder: Path) -> tuple[tuple[str, ...], str]:
    named = ("--encryption-key", f"key-2={KEY_FILE}")
    return named, "Name the file of its private key: --encryption-key key-1=FILE."


def another_key(folder: Path) -> tuple[tuple[str, ...], str]:
    new = new_key_pair("key-2").write_files(folder)[0]
    named = ("--encryption-key", f"key-1={new}")
    return named, "Check that the file is the private key which the brokers have under this id."


def public_half(folder: Path) -> tuple[tuple[str, ...], str]:
    public = new_key_pair("key-2").write_files(folder)[1]
    named = ("--encryption-key", f"key-1={public}")
    return named, "Name a file with the private key, which reading needs."


def no_file(folder: Path) -> tuple[tuple[str, ...], str]:
    named = ("--encryption-key", f"key-1={folder / 'none'}")
    return named, "Name a file with an RSA key, PEM or a JSON Web Key"


@pytest.mark.parametrize("key", [no_key, another_id, another_key, public_half, no_file])
def test_the_brokers_key_is_named(
    make: Make, tmp_path: Path, key: Callable[[Path], tuple[tuple[str, ...], str]]
) -> None:
    tier = make(ENCRYPTED_CASE)
    options, said = key(tmp_path)
    refused(tier, options, said)
    is_compacted(tier, ENCRYPTED_CASE, tmp_path)


def test_a_manifest_whose_key_cannot_be_unwrapped_is_restored(make: Make, tmp_path: Path) -> None:
    tier = make(ENCRYPTED_CASE)
    manifest = max(tier.rglob("*.rsm-manifest"))
    backup = manifest.read_bytes()
    fields = json.loads(backup)
    name, _, wrapped = fields["encryption"]["dataKey"].partition(":")
    fields["encryption"]["dataKey"] = f"{name}:{wrapped[4:8]}{wrapped[:4]}{wrapped[8:]}"
    manifest.write_text(json.dumps(fields))
    said = "If it is, the manifest is corrupt: restore it from a copy."
    refused(tier, ENCRYPTED_CASE.arguments, said)
    manifest.write_bytes(backup)
    is_compacted(tier, ENCRYPTED_CASE, tmp_path)


@pytest.mark.parametrize("is_left_out", [False, True])
def test_the_properties_of_brokers_that_encrypt_are_named(
    make: Make, tmp_path: Path, is_left_out: bool
) -> None:
    tier = make(ENCRYPTED_CASE)
    given = tmp_path / "server.properties"
    given.write_text("rsm.config.chunk.size=97\n")
    options = (*ENCRYPTED_CASE.arguments, "--rsm-config", given)
    said = "Name the properties of the brokers that wrote it, in which it is true, or leave"
    refused(tier, options, "encryption.enabled is false", f"{said} --rsm-config out.")
    pair = "rsm.config.encryption.key.pair"
    lines = ["rsm.config.encryption.enabled=true", f"{pair}.id=key-1", f"{pair}s=key-1"]
    lines += [f"{pair}s.key-1.private.key.file={KEY_FILE}", "rsm.config.chunk.size=97"]
    given.write_text("\n".join(lines))
    right = ENCRYPTED_CASE.arguments if is_left_out else ("--rsm-config", given)
    compacted(tier, *right).ends(0, "compacted")
    assert tierfold("verify", tier, *ENCRYPTED_CASE.arguments, "--json").code == 0
    for path in tier.rglob("*.rsm-manifest"):
        assert "encryption" in json.loads(path.read_text())


# 2. Prefixes.


def test_the_brokers_prefix_is_given(make: Make, tmp_path: Path) -> None:
    tier = make(ZSTD)
    shorter = ("--key-prefix", PREFIX.removesuffix("-"))
    said = "If the brokers of this topic have another key.prefix, give theirs: --key-prefix PREFIX."
    refused(tier, shorter, "its manifest names topic 'orders'", said)
    is_compacted(tier, ZSTD, tmp_path)


def test_the_folder_of_the_plugin_is_named_without_its_prefix(make: Make, tmp_path: Path) -> None:
    tier = make(ZSTD)
    below = tier / PREFIX.partition("/")[0]
    named = ("--layout", "aiven", "--key-prefix", PREFIX)
    refused(below, named, "as TIER, and their key.prefix only with --key-prefix or --rsm-config.")
    is_compacted(tier, ZSTD, tmp_path)


# 3. Whose a segment is.


def of_another_segment(fields: dict[str, Any]) -> str:
    fields["remoteLogSegmentMetadata"]["remoteLogSegmentId"]["id"] = "zzzzzzzzzzzzzzzzzzzzzw"
    return "Otherwise restore the segment's objects from a copy."


def anonymous(fields: dict[str, Any]) -> str:
    del fields["remoteLogSegmentMetadata"]
    return "if it is yours, let its broker upload it again"


@pytest.mark.parametrize("change", [of_another_segment, anonymous])
def test_a_segment_of_doubtful_owner_is_restored_or_uploaded_again(
    make: Make, tmp_path: Path, change: Callable[[dict[str, Any]], str]
) -> None:
    tier = make(PLAIN)
    manifest = max(tier.rglob("*.rsm-manifest"))
    whole = manifest.read_bytes()
    fields = json.loads(whole)
    said = change(fields)
    manifest.write_text(json.dumps(fields))
    refused(tier, (), said)
    manifest.write_bytes(whole)  # As from a copy, and as the plugin writes it.
    is_compacted(tier, PLAIN, tmp_path)


def test_a_topic_of_another_cluster_is_left_out_or_named_by_its_prefix(
    make: Make, tmp_path: Path
) -> None:
    tier = make(ZSTD)
    for path in tier.rglob("*.rsm-manifest"):
        fields = json.loads(path.read_text())
        anonymous(fields)
        path.write_text(json.dumps(fields))
    shorter = ("--key-prefix", PREFIX.removesuffix("-"))
    said = "If its topic is that cluster's, leave it out or give that cluster's --key-prefix"
    refused(tier, shorter, said)
    ours = updated_tier(tmp_path / "ours", [key_of("payments")], SEGMENTS)
    aiven_tier(ours, tier, replace(ZSTD.variant, key_prefix=shorter[1]))
    ran = compacted(tier, *shorter, "--topic", "payments")
    assert (ran.code, ran.outcomes) == (0, {("payments", 0): "compacted"})
