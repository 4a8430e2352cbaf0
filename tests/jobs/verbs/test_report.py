"""`report` writes one page and its pictures, and changes nothing."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import pytest

import tierfold as api
from tests.jobs.commands import ALWAYS, tierfold, told
from tests.jobs.tiers import flip_last_byte, folder_of, key_of, updated_tier
from tierfold.jobs.api.reporting import Report, written
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

ORDERS: Final = key_of("orders")
BILLS: Final = key_of("bills")


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compacted; of orders-0 a segment is corrupt, and bills has an owner."""
    folder = updated_tier(tmp_path_factory.mktemp("tier"), [ORDERS, BILLS], 2)
    first = sorted(folder_of(folder, ORDERS).glob("*.log"))[0]
    flip_last_byte(first)
    document = folder / "compact.json"
    ran = tierfold("compact", folder, *ALWAYS, "--document", document, "--config", _owners(folder))
    assert ran.code == 3, ran
    return folder


def _owners(folder: Path) -> Path:
    path = folder / "tierfold.toml"
    path.write_text('[topics."bills"]\nlabels = {team = "a <b> & c"}\n', encoding="utf-8")
    return path


def test_the_page_has_what_happened_what_waits_and_who_owns_it(tier: Path, tmp_path: Path) -> None:
    before = sorted(tier.rglob("*"))
    ran = tierfold(
        *("report", tier, *ALWAYS, "-o", tmp_path / "new" / "report.html"),
        *("--config", tier / "tierfold.toml", "--run-document", tier / "compact.json"),
        *("--svg", tmp_path / "pictures"),
    )
    assert ran.code == 0, ran
    assert re.search(r"report\.html: [0-9.]+ kB, 2 things need a person\.\n", ran.stdout), ran
    assert "pictures: " in ran.stdout
    html = (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    shown = ("orders-0", "compact failed: ", "bills-0", "team=a &lt;b&gt; &amp; c", "1 failed")
    assert not told(html, *shown)
    assert sorted(tier.rglob("*")) == before
    assert {"bytes.svg", "owners.svg"} <= {path.name for path in (tmp_path / "pictures").iterdir()}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.html"]


def test_without_a_run_it_shows_what_a_run_would_do(tmp_path: Path) -> None:
    folder = updated_tier(tmp_path / "tier", [ORDERS], 2)
    page = api.report(folder, settings={"cleanup.policy": "compact"}).page
    assert (page.days, page.last_runs, page.partitions) == ((), (), 1)
    (drawn,) = page.maps
    assert [block.action for block in drawn.blocks] == ["rewritten", "rewritten"]
    assert not (folder / CATALOG_FOLDER).exists()


def test_it_wants_to_know_what_to_write(tier: Path) -> None:
    tierfold("report", tier).refuses("-o FILE", "--svg FOLDER")


def test_a_missing_package_is_named_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(api.BadSettings, match="altair") as error:
        api.report("/nowhere")
    assert "pip install 'tierfold[report]'" in error.value.remedy


def test_a_document_that_is_none_is_named(tier: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[", encoding="utf-8")
    given = ("report", tier, *ALWAYS, "-o", tmp_path / "page.html", "--run-document", wrong)
    tierfold(*given).refuses("wrong.json", "Name what `tierfold compact --document`")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    folder = updated_tier(tmp_path / "tier", [ORDERS], 1)
    found = api.report(folder, settings={"cleanup.policy": "compact"})
    with pytest.raises(api.UnreadableObject, match="file") as error:
        [*written(Report(found.page), tmp_path / "file" / "page.html", None)]
    assert error.value.remedy == "Name another place for the report."
