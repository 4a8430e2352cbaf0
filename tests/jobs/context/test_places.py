"""Every verb refuses a wrong tier or catalog path, and creates nothing there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import ALWAYS, tierfold, told
from tests.jobs.tiers import files_below, key_of, made_tier, updated_tier
from tests.storage.emulators import new_bucket, s3, s3_environment
from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.sources import catalog_tables
from tierfold.jobs.sources.segment_options import schema_of
from tierfold.jobs.sources.segment_source import KafkaSegments
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER
from tierfold.storage.tiers.locations import location_of, open_store
from tierfold.storage.tiers.store_options import StoreOptions

VERBS: Final[dict[str, tuple[str, ...]]] = {
    "plan": (),
    "compact": ALWAYS,
    "status": (),
    "verify": (),
    "vacuum": ("--set", "tier.binding=detached"),
    "history": ("orders-0",),
    "restore": ("orders-0", "--to", "2020-01-01T00:00:00Z"),
}
WRONG: Final[dict[str, str]] = {
    "": "the path is empty",
    " ": "the path is empty",
    "memory:": "memory: is not supported",
    "memory:///x": "memory:// is not supported",
    "http:": "http: is not supported",
    "http://host/x": "http:// is not supported",
    "s3a://bucket/x": "s3a:// is not supported",
    "file://host/x": "absolute path on this machine",
    "file:x": "absolute path on this machine",
}


@pytest.fixture
def tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tier that is also the working directory, which an empty path would mean."""
    tier = updated_tier(tmp_path / "tier", [key_of("orders")], segments=2)
    monkeypatch.chdir(tier)
    return tier


def _tables_below_root() -> list[str]:
    return [path.name for path in Path("/").iterdir() if path.name in {"partitions", "runs"}]


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_a_wrong_path(verb: str, text: str, tier: Path) -> None:
    before, roots = files_below(tier), _tables_below_root()
    for words in ((tier, "--catalog", text), (text,)):
        ran = tierfold(verb, words[0], *VERBS[verb], *words[1:])
        assert (ran.code, ran.stdout) == (2, ""), ran
        assert not told(ran.stderr, WRONG[text])
        assert files_below(tier) == before
        assert [path.name for path in tier.iterdir()] == [TIER_FOLDER]
        assert _tables_below_root() == roots


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize("option", ["path", "catalog"])
def test_the_reader_refuses_a_wrong_path(option: str, text: str, tier: Path) -> None:
    options = {"path": str(tier)} | {option: text}
    message = "no tier is named" if option == "path" and not text.strip() else WRONG[text]
    with pytest.raises(BadSettings, match=message):
        KafkaSegments(options).reader(schema_of(("offset",)))
    assert [path.name for path in tier.iterdir()] == [TIER_FOLDER]


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize("table", ["partitions", "segments", "runs"])
def test_the_catalogs_tables_refuse_a_wrong_path(spark: object, table: str, text: str) -> None:
    with pytest.raises(BadSettings, match=WRONG[text]):
        getattr(catalog_tables, table)(spark, text)


def test_a_tier_in_a_bucket_may_have_its_catalog_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_environment(s3()).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    tier = f"s3://{new_bucket(s3())}/a/tier"
    with pytest.raises(BadSettings, match=f"{tier}: there is no folder {TIER_FOLDER} in it"):
        run_context(tier, "elsewhere")
    open_store(location_of(tier, of="tier"), StoreOptions()).create(f"{TIER_FOLDER}/x", b"x")
    context = run_context(tier, "elsewhere")
    assert context.tier.partitions() == ()
    assert context.catalog_uri == f"{tmp_path}/elsewhere"
    place = f"{tier} orders-0 --catalog {tmp_path}/elsewhere"
    assert context.place(key_of("orders")) == place


def test_printed_commands_quote_the_tier_for_a_shell(tmp_path: Path) -> None:
    tier = str(made_tier(tmp_path / "a tier"))
    assert run_context(tier).place(key_of("orders")) == f"'{tier}' orders-0"
    assert run_context(tier, f"{tier}/_tierfold").place(key_of("orders")) == f"'{tier}' orders-0"
    elsewhere = run_context(tier, f"{tmp_path}/catalog").place(key_of("orders", 7))
    assert elsewhere == f"'{tier}' orders-7 --catalog {tmp_path}/catalog"
