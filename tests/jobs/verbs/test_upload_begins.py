"""Where the log begins in a tier: the first upload decides it, and says what follows."""

from __future__ import annotations

from pathlib import Path

import tierfold
from tests.jobs.log_dirs import WrittenLogDir
from tests.jobs.tiers import key_of
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

ORDERS = key_of("orders")


def test_the_first_upload_decides_where_the_log_begins_and_says_so(tmp_path: Path) -> None:
    (tier := tmp_path / "tier").mkdir()
    later = WrittenLogDir(tmp_path / "later").filled(ORDERS, 2, start=500)
    older = WrittenLogDir(tmp_path / "older").filled(ORDERS, 4, start=480)

    def notes_of(logs: WrittenLogDir, outcome: str, *, dry_run: bool = False) -> tuple[str, ...]:
        (found,) = tierfold.upload(logs.path, tier, dry_run=dry_run).partitions
        assert found.outcome == outcome
        return found.report.notes

    (first,) = notes_of(later, "planned", dry_run=True)
    assert first.startswith("the log of this directory begins at offset 500: nothing below")
    assert notes_of(later, "uploaded") == (first,)
    assert notes_of(later, "nothing_to_do") == ()
    (shut_out,) = notes_of(older, "nothing_to_do")
    assert shut_out.startswith("the tier never gets offsets 480 to 499 of this log directory")
    older.roll_ten(ORDERS, 520)
    assert notes_of(older, "uploaded") == (shut_out,)
    row = Catalog(str(tier / CATALOG_FOLDER)).read()[ORDERS]
    assert (row.log_start_offset, row.segments[0].start_offset) == (500, 500)
