"""Every verb works on the layout of Aiven's plugin, and writes what its configuration writes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.aiven import (
    BOTH,
    CASES,
    ENCRYPTED_CASE,
    KEY,
    PLAIN,
    PREFIX,
    SMALL_CHUNK_BYTES,
    ZSTD,
    AivenCase,
    manifests,
)
from tests.jobs.commands import ALWAYS, CLOCK, COMPACT, Ran, tierfold
from tests.jobs.elections import NEW, known, old_history, upload
from tests.jobs.tiers import NOW_MS, files_below, key_of, latest_updates, updated_tier
from tests.storage.tiers.aiven_keys import new_key_pair
from tests.storage.tiers.aiven_samples import KEY_FILE
from tests.storage.tiers.aiven_tiers import aiven_tier, rotated
from tierfold.storage.catalog.runs_table import RunsTable

ORDERS: Final = key_of("orders", 0)
NOW: Final = (CLOCK, str(NOW_MS))
SOON: Final = (CLOCK, str(NOW_MS + 60_000))
DETACHED: Final = ("--set", "tier.binding=detached")
Make = Callable[[AivenCase], Path]


@pytest.fixture(scope="module")
def uploads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tier of LocalTieredStorage: one partition with three segments."""
    return updated_tier(tmp_path_factory.mktemp("local") / "tier", (ORDERS,), segments=3)


@pytest.fixture
def make(uploads: Path, tmp_path: Path) -> Make:
    """Writes the same segments as the plugin would."""
    return lambda case: aiven_tier(uploads, tmp_path / "tier", case.variant)


def ran(*arguments: str | Path) -> Ran:
    found = tierfold(*arguments)
    assert found.code == 0, found
    return found


def compacted(tier: Path, case: AivenCase, *arguments: str | Path) -> dict[str, Any]:
    """Compact; return the status, in which one new segment is live."""
    done = ran("compact", tier, *ALWAYS, *NOW, *DETACHED, *arguments, "--json")
    assert done.entry["outcome"] == "compacted"
    return ran("status", tier, *case.arguments, "--json", "--segments").entry


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_tour_of_every_verb(make: Make, case: AivenCase, tmp_path: Path) -> None:
    tier, say = make(case), case.arguments
    uploaded = set(case.segments(tier))
    assert ran("plan", tier, *ALWAYS, *NOW, *say, "--json").entry["outcome"] == "planned"
    assert "orders-0" in ran("plan", tier, *ALWAYS, *say, "--explain", "orders-0").stdout
    status = compacted(tier, case, *say)
    assert case.live_values(tier, status, tmp_path) == latest_updates(3)
    assert uploaded < set(case.segments(tier))
    assert "agree with the originals" in ran("verify", tier, *say).stdout
    assert not (tier / "_tierfold").exists() or not case.variant.key_prefix
    assert (tier / f"{case.variant.key_prefix}_tierfold" / "partitions").is_dir()
    states = ran("history", tier, "orders-0", *say, "--json").entry["history"]
    back = str(states[-1]["committed_at_ms"])
    assert ran("restore", tier, "orders-0", "--to", back, *SOON, *say, "--json").entry["outcome"]
    assert len(ran("status", tier, *say, "--json", "--segments").entry["segments"]) == 3
    later = (CLOCK, str(NOW_MS + 2 * 86_400_000))
    vacuumed = ran("vacuum", tier, *DETACHED, *later, *say, "--json").entry
    assert vacuumed["outcome"] == "vacuumed"
    assert set(case.segments(tier)) == uploaded
    rows = RunsTable(str(tier / f"{case.variant.key_prefix}_tierfold")).read()
    assert [row.command for row in rows] == ["compact", "restore", "vacuum"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_written_is_stored_as_its_sources_are(make: Make, case: AivenCase) -> None:
    tier = make(case)
    before = manifests(tier)
    compacted(tier, case, *case.arguments)
    (new,) = manifests(tier).keys() - before.keys()
    written, others = manifests(tier)[new], list(before.values())
    assert list(written) == list(others[0])
    assert written["compression"] is case.variant.is_compressed
    assert written["chunkIndex"]["originalChunkSize"] == SMALL_CHUNK_BYTES
    if case.variant.key is None:
        assert "encryption" not in written
    else:
        named = [manifest["encryption"] for manifest in (written, *others)]
        assert {one["dataKey"].partition(":")[0] for one in named} == {"key-1"}
        assert len({one["dataKey"] for one in named}) == len({one["aad"] for one in named}) == 4
    names = written["remoteLogSegmentMetadata"]["remoteLogSegmentId"]
    assert names["topicIdPartition"]["topicId"] == ORDERS.topic_id
    assert names["id"] == new


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_encrypted_tier_has_no_key_indexes(make: Make, case: AivenCase) -> None:
    tier = make(case)
    compacted(tier, case, *case.arguments)
    assert bool(list(tier.rglob("*.bloom"))) is (case.variant.key is None)


def test_all_variants_get_the_same_log(uploads: Path, tmp_path: Path) -> None:
    logs = set()
    for case in CASES:
        tier = aiven_tier(uploads, tmp_path / case.name, case.variant)
        status = compacted(tier, case, *case.arguments)
        (log,) = case.live_logs(tier, status, tmp_path)
        logs.add(log.read_bytes())
    local = Path(shutil.copytree(uploads, tmp_path / "local"))
    status = compacted(local, PLAIN)
    logs.add(Path(status["segments"][0]["log"]).read_bytes())
    assert len(logs) == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_plan_of_an_unchanged_tier_opens_no_object(make: Make, case: AivenCase) -> None:
    tier = make(case)
    compacted(tier, case, *case.arguments)
    for path in tier.rglob("*"):
        if path.suffix in {".log", ".indexes", ".rsm-manifest"}:
            path.write_bytes(bytes(path.stat().st_size))
    document = ran("plan", tier, *COMPACT, *NOW, *case.arguments, "--json").document
    assert {entry["outcome"] for entry in document["partitions"]} == {"nothing_to_do"}


def broker(folder: Path, **values: str) -> Path:
    """A broker's properties of the plugin."""
    path = folder / "server.properties"
    names = {name.replace("_", "."): value for name, value in values.items()}
    path.write_text("".join(f"rsm.config.{name}={value}\n" for name, value in names.items()))
    return path


def test_the_brokers_properties_say_how_to_write(make: Make, tmp_path: Path) -> None:
    tier = make(PLAIN)
    before = manifests(tier)
    file = broker(tmp_path, chunk_size="211", compression_enabled="true")
    compacted(tier, PLAIN, "--rsm-config", file)
    (new,) = manifests(tier).keys() - before.keys()
    written = manifests(tier)[new]
    assert written["compression"] is True
    assert written["chunkIndex"]["originalChunkSize"] == 211


def test_the_brokers_properties_have_prefix_and_keys(make: Make, tmp_path: Path) -> None:
    tier = make(BOTH)
    private, _ = KEY.write_files(tmp_path)
    file = broker(
        tmp_path,
        key_prefix=PREFIX,
        chunk_size="97",
        compression_enabled="true",
        encryption_enabled="true",
        encryption_key_pair_id="key-1",
        encryption_key_pairs="key-1",
    )
    with file.open("a") as properties:
        properties.write(f"rsm.config.encryption.key.pairs.key-1.private.key.file={private}\n")
    assert compacted(tier, BOTH, "--rsm-config", file)["segments"]


def test_an_encrypted_tier_is_not_written_in_plain_text(make: Make, tmp_path: Path) -> None:
    tier = make(ENCRYPTED_CASE)
    before = files_below(tier)
    file = broker(tmp_path, chunk_size="97")
    found = tierfold(
        *("compact", tier, *ALWAYS, *NOW, *ENCRYPTED_CASE.arguments, "--rsm-config", file)
    )
    assert found.code in {2, 3}, found
    assert "encryption.enabled" in found.stdout + found.stderr
    assert {name: text for name, text in files_below(tier).items() if name in before} == before
    assert manifests(tier).keys() == {Path(name).stem[21:] for name in before if "rsm" in name}


def test_a_tier_is_found_without_options(make: Make) -> None:
    tier = make(PLAIN)
    assert ran("status", tier, "--json").entry["topic_id"] == ORDERS.topic_id
    wrong = tierfold("status", tier, "--layout", "local")
    wrong.refuses("kafka-tiered-storage")


def test_a_prefix_that_nothing_has_is_no_tier(make: Make) -> None:
    tier = make(ZSTD)
    tierfold("status", tier).refuses("kafka-tiered-storage")
    tierfold("status", tier, "--layout", "aiven").refuses("prefix")
    tierfold("status", tier, "--key-prefix", "cluster-b/").refuses("cluster-b")


def test_a_shorter_prefix_does_not_compact_the_topics_of_a_longer_one(make: Make) -> None:
    tier = make(ZSTD)
    before = files_below(tier)
    shorter = ("--key-prefix", PREFIX.removesuffix("-"))
    found = tierfold("compact", tier, *ALWAYS, *NOW, *DETACHED, *shorter, "--json")
    (entry,) = found.entries
    assert (found.code, entry["topic"], entry["outcome"]) == (3, "-orders", "refused")
    assert "its manifest names topic 'orders', and its key topic '-orders'" in entry["reason"]
    assert "--key-prefix" in entry["reason"]
    objects = files_below(tier)
    assert {name: objects[name] for name in objects if "_tierfold" not in name} == before


def rewritten(tier: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the fields of all manifests."""
    for path in tier.rglob("*.rsm-manifest"):
        fields = json.loads(path.read_text())
        change(fields)
        path.write_text(json.dumps(fields))


def anonymous(fields: dict[str, Any]) -> None:
    del fields["remoteLogSegmentMetadata"]


def test_another_clusters_objects_are_neither_read_nor_deleted(make: Make) -> None:
    # With the prefix "cluster-a/of" its topics seem to be "-orders" and so on, and their manifests
    # do not say that they are not.
    tier = make(ZSTD)
    rewritten(tier, anonymous)
    before = files_below(tier)
    shorter = (*DETACHED, "--key-prefix", PREFIX.removesuffix("-"), "--json")
    for days, verb in enumerate((("compact", tier, *ALWAYS), ("vacuum", tier))):
        now = (CLOCK, str(NOW_MS + days * 90 * 86_400_000))
        found = tierfold(*verb, *shorter, *now)
        (entry,) = found.entries
        assert (found.code, entry["topic"], entry["outcome"]) == (3, "-orders", "refused")
        assert "does not say whose it is" in entry["reason"]
        assert "neither read nor deleted" in entry["reason"]
    objects = files_below(tier)
    assert {name: objects[name] for name in objects if "_tierfold" not in name} == before


def test_what_a_row_names_needs_no_metadata(make: Make) -> None:
    tier = make(PLAIN)
    compacted(tier, PLAIN)
    rewritten(tier, anonymous)
    assert "agree with the originals" in ran("verify", tier).stdout
    later = (CLOCK, str(NOW_MS + 2 * 86_400_000), "--json")
    assert ran("vacuum", tier, *DETACHED, *later).entry["outcome"] == "vacuumed"
    assert len(manifests(tier)) == 1


ANOTHER_ID: Final = "zzzzzzzzzzzzzzzzzzzzzw"


def partition_7(fields: dict[str, Any]) -> None:
    of_segment = fields["remoteLogSegmentMetadata"]["remoteLogSegmentId"]
    of_segment["topicIdPartition"]["topicPartition"]["partition"] = 7


def other_topic_id(fields: dict[str, Any]) -> None:
    of_segment = fields["remoteLogSegmentMetadata"]["remoteLogSegmentId"]
    of_segment["topicIdPartition"]["topicId"] = ANOTHER_ID


def other_segment(fields: dict[str, Any]) -> None:
    fields["remoteLogSegmentMetadata"]["remoteLogSegmentId"]["id"] = ANOTHER_ID


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (partition_7, "its manifest names partition 7, and its key partition 0"),
        (other_topic_id, "its manifest names topic id"),
        (other_segment, "its manifest names segment"),
    ],
)
def test_a_segment_of_another_partition_is_not_compacted(
    make: Make, change: Callable[[dict[str, Any]], None], what: str
) -> None:
    tier = make(PLAIN)
    rewritten(tier, change)
    found = tierfold("compact", tier, *ALWAYS, *NOW, *DETACHED, "--json")
    assert (found.code, found.entry["outcome"]) == (3, "refused")
    assert what in found.entry["reason"]


def test_the_settings_file_describes_the_layout(make: Make, tmp_path: Path) -> None:
    tier = make(BOTH)
    file = tmp_path / "tierfold.toml"
    file.write_text(
        f'[layout]\nlayout = "aiven"\n"key.prefix" = "{PREFIX}"\n'
        f'"encryption.key" = ["key-1={KEY_FILE}"]\n'
    )
    status = compacted(tier, BOTH, "--config", file)
    assert ran("verify", tier, "--config", file).code == 0
    assert len(status["segments"]) == 1


def test_a_message_repeats_the_options_that_name_the_partition(make: Make) -> None:
    tier, say = make(ZSTD), ZSTD.arguments
    (live,) = compacted(tier, ZSTD, *say)["segments"]
    for path in tier.rglob(f"{Path(live['log']).stem}.*"):
        path.unlink()
    found = tierfold("plan", tier, *COMPACT, *say, "--json")
    assert f"--key-prefix {PREFIX}" in json.dumps(found.document), found


@pytest.mark.parametrize("where", ["driver", "file"])
def test_keys_of_the_environment_are_read(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    tier = make(ENCRYPTED_CASE)
    monkeypatch.setenv("TIERFOLD_ENCRYPTION_KEYS", f"key-1={KEY_FILE}")
    elsewhere = () if where == "driver" else ("--encryption-key", f"key-1={tmp_path}/none")
    assert ran("plan", tier, *ALWAYS, *elsewhere, "--json").entry["outcome"] == "planned"
    local = updated_tier(tmp_path / "local", (ORDERS,), segments=1)
    assert ran("plan", local, *ALWAYS, "--json").entry["outcome"] == "planned"


def rotate(tier: Path, folder: Path) -> str:
    """Wrap all data keys by a new key; return the argument that names it."""
    new = new_key_pair("key-2")
    for path in tier.rglob("*.rsm-manifest"):
        path.write_bytes(rotated(path.read_bytes(), KEY, new))
    return f"key-2={new.write_files(folder)[0]}"


def test_wrapping_data_keys_again_changes_nothing_in_the_plan(make: Make, tmp_path: Path) -> None:
    tier, say = make(ENCRYPTED_CASE), ENCRYPTED_CASE.arguments
    compacted(tier, ENCRYPTED_CASE, *say)
    new = ("--encryption-key", rotate(tier, tmp_path))
    assert ran("plan", tier, *COMPACT, *NOW, *new, "--json").entry["outcome"] == "nothing_to_do"
    assert "agree with the originals" in ran("verify", tier, *new).stdout
    lost = tierfold("verify", tier, *say, "--json")
    assert lost.code == 3
    assert "key-2" in json.dumps(lost.document)


def test_both_keys_read_and_the_first_writes(make: Make, tmp_path: Path) -> None:
    tier = make(ENCRYPTED_CASE)
    before = manifests(tier)
    (private, _), new = new_key_pair("key-2").write_files(tmp_path), "key-2="
    keys = ("--encryption-key", f"{new}{private}", *ENCRYPTED_CASE.arguments)
    done = ran("compact", tier, *ALWAYS, *NOW, *DETACHED, *keys, "--json")
    assert done.entry["outcome"] == "compacted"
    (written,) = manifests(tier).keys() - before.keys()
    assert manifests(tier)[written]["encryption"]["dataKey"].startswith("key-2:")
    assert ran("verify", tier, *keys).code == 0


@pytest.mark.parametrize(
    ("key", "code", "words"),
    [
        ((), 3, ("key-1", "--encryption-key")),
        (("--encryption-key", "key-2={new}"), 3, ("key-1",)),
        (("--encryption-key", "key-1={new}"), 3, ("key-1",)),
        (("--encryption-key", "key-1={none}"), 2, ("none", "the file is not there")),
    ],
    ids=["no key", "another id", "a wrong key", "no file"],
)
def test_without_its_key_a_partition_is_left_alone(
    make: Make, tmp_path: Path, key: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    tier = make(ENCRYPTED_CASE)
    new = new_key_pair("key-2").write_files(tmp_path)[0]
    say = [word.format(new=new, none=tmp_path / "none") for word in key]
    found = tierfold("compact", tier, *ALWAYS, *NOW, *say, "--json")
    assert found.code == code, found
    said = found.stdout + found.stderr
    assert all(word in said for word in words), said
    for stream in (found.stdout, found.stderr):
        # One sentence for all segments; a document has it as text and beside its code.
        assert stream.count("the file is not there") <= 2
    assert "Traceback" not in said
    codes = {part["code"] for entry in found.entries for part in entry["refusals"]}
    assert codes == ({"unreadable"} if code == 3 else set())
    assert len(manifests(tier)) == 3


def test_forget_accepts_an_election_that_cut_a_log_off(tmp_path: Path) -> None:
    local, tier = tmp_path / "local", tmp_path / "tier"
    old_history(local)
    known(aiven_tier(local, tier, PLAIN.variant))
    upload(local, 6, 9, NEW)
    aiven_tier(local, tier, PLAIN.variant)
    refused = tierfold("compact", tier, *ALWAYS, "--json")
    assert (refused.code, refused.entry["outcome"]) == (3, "refused")
    assert "vanish: 10–10" in ran("forget", tier, "orders-0", "--dry-run").stdout
    assert ran("forget", tier, "orders-0", "--json").entry["outcome"] == "forgotten"
    done = ran("compact", tier, *ALWAYS, *DETACHED, "--json").entry
    assert (done["outcome"], done["next_offset"]) == ("compacted", 10)
