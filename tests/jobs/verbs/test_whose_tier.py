"""A copy beside the original, and two catalogs of one tier: what is refused, and what leads on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.compaction.builders import CLUSTER
from tests.jobs.aiven import PLAIN
from tests.jobs.claims import catalog_of, note_served, own_id_of, row_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran, tierfold
from tests.jobs.tiers import files_below, updated_tier
from tests.jobs.vacuum_tiers import HOUR_MS, ORDERS, THEN_MS, compact, ids_in, orphan
from tests.storage.new_ids import foreign_id
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.compaction.model.tier_service import TierService, fingerprint_text
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.tier_identity import notes_of, place_of
from tierfold.storage.tiers.layout_options import LayoutOptions
from tierfold.storage.tiers.service_notes import FOLDER, Noted

LATER: Final = (CLOCK, str(THEN_MS + 90 * HOUR_MS), "--json")
DETACHED: Final = ("--set", "tier.binding=detached")
ABANDONED: Final = ("--set", "tier.binding=abandoned")


def noted(tier: Path, **changes: Any) -> TierService:
    """Let the tier say that the cluster serves it, and that its own catalog publishes."""
    context = run_context(str(tier))
    service = TierService(
        cluster_id=CLUSTER.cluster_id,
        fingerprint=catalog_of(tier).fingerprint(),
        place=place_of(context),
        noted_at_ms=THEN_MS,
    )
    service = replace(service, **changes)
    notes = notes_of(context)
    assert isinstance(notes.write(service, notes.newest()), Noted)
    return service


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """A compacted tier, which a cluster serves and its catalog publishes to."""
    tier = updated_tier(tmp_path / "tier", [ORDERS], 3)
    assert compact(tier).outcomes["orders", 0] == "compacted"
    noted(tier)
    return tier


@pytest.fixture
def copy(tier: Path, tmp_path: Path) -> Path:
    """A copy of the tier, with its catalog and its note, whose row names the cluster."""
    note_served(tier)
    shutil.copytree(tier, tmp_path / "copy")
    return tmp_path / "copy"


def run(verb: str, tier: Path, *options: str) -> Ran:
    """Run a verb on the tier, days later."""
    always = () if verb == "vacuum" else ALWAYS
    return tierfold(verb, tier, *always, *options, *LATER)


def reason(ran: Ran) -> str:
    """Why it was refused."""
    assert (ran.code, ran.entry["outcome"]) == (3, "refused"), ran
    return str(ran.entry["reason"])


# 1. A copy of tier and catalog beside the original.


@pytest.mark.parametrize("verb", ["vacuum", "compact", "plan"])
def test_a_copy_is_refused_with_both_places_until_it_is_declared(
    tier: Path, copy: Path, verb: str
) -> None:
    before = files_below(tier), row_of(tier)
    why = reason(run(verb, copy))
    assert f"cluster {CLUSTER.cluster_id} serves it from {tier}/, and TIER is {copy}/" in why
    assert "If this is a copy that no broker serves, set tier.binding=detached" in why
    then = {"vacuum": "vacuumed", "compact": "nothing_to_do", "plan": "nothing_to_do"}
    assert run(verb, copy, *DETACHED).entry["outcome"] == then[verb]
    assert (files_below(tier), row_of(tier)) == before


def test_what_a_copy_deletes_leaves_a_consent_and_stays_in_the_original(
    tier: Path, copy: Path
) -> None:
    originals = ids_in(tier)
    assert run("vacuum", copy, *DETACHED).entry["outcome"] == "vacuumed"
    assert ids_in(copy) == row_of(copy).live_ids
    assert not row_of(copy).is_served
    assert (ids_in(tier), row_of(tier).is_served) == (originals, True)


def test_a_copy_without_a_row_of_the_cluster_is_refused_by_the_note(
    tier: Path, tmp_path: Path
) -> None:
    shutil.copytree(tier, tmp_path / "copy")
    why = reason(run("vacuum", tmp_path / "copy"))
    assert f"the tier's note says that cluster {CLUSTER.cluster_id} serves it from {tier}/" in why
    assert run("vacuum", tmp_path / "copy", *DETACHED).entry["outcome"] == "vacuumed"


def test_a_link_to_the_tier_is_no_copy(tier: Path, tmp_path: Path) -> None:
    note_served(tier)
    (tmp_path / "link").symlink_to(tier)
    for binding in ((), DETACHED):
        why = reason(run("vacuum", tmp_path / "link", *binding))
        assert f"serves it from {tier}/." in why
        assert "tier.binding=abandoned" in why


# 2. Two catalogs of one tier.


@pytest.mark.parametrize("binding", [(), DETACHED, ABANDONED])
@pytest.mark.parametrize("verb", ["vacuum", "compact", "plan"])
def test_another_catalog_deletes_nothing_and_is_not_detached(
    tier: Path, tmp_path: Path, verb: str, binding: tuple[str, ...]
) -> None:
    other = ("--catalog", str(tmp_path / "other"))
    before = files_below(tier)
    ran = run(verb, tier, *other, *binding)
    if binding or verb == "vacuum":
        ours = fingerprint_text(catalog_of(tier).fingerprint())
        assert f"the catalog {ours} publishes there; this catalog is none yet" in reason(ran)
    assert files_below(tier) == before


def test_with_the_catalog_of_the_note_the_tier_can_be_abandoned(tier: Path) -> None:
    for binding in ((), DETACHED):
        why = reason(run("vacuum", tier, *binding))
        assert "Name its brokers with --bootstrap-server" in why
        assert "If the cluster is no more, set tier.binding=abandoned" in why
    assert run("vacuum", tier, *ABANDONED).entry["outcome"] == "vacuumed"


def test_where_cluster_and_catalog_are_no_more_the_note_can_be_moved_away(
    tier: Path, tmp_path: Path
) -> None:
    shutil.move(tier / "_tierfold", tmp_path / "lost")
    assert f"move the folder of the note, {FOLDER}, out of the tier" in reason(
        run("compact", tier, *DETACHED)
    )
    shutil.move(tier / FOLDER, tmp_path / "kept")
    before = ids_in(tier)
    # It has no row yet, and beside its originals a compacted segment is an upload like them.
    assert "bring `_tierfold` back" in reason(run("compact", tier, *DETACHED))
    shutil.move(tmp_path / "lost", tier / "_tierfold")
    assert run("vacuum", tier, *DETACHED).entry["outcome"] == "vacuumed"
    assert ids_in(tier) < before


# 3. A note that cannot be read.


@pytest.mark.parametrize(
    ("data", "says"),
    [("{", "is damaged"), ('{"version": 7}', "has version 7")],
)
def test_a_note_that_cannot_be_read_stops_what_would_delete(
    tier: Path, data: str, says: str
) -> None:
    (tier / FOLDER / "00000002.json").write_text(data)
    before = files_below(tier)
    for verb, binding in (("vacuum", ()), ("vacuum", DETACHED), ("compact", ABANDONED)):
        ran = run(verb, tier, *binding)
        assert ran.code != 0
        assert says in ran.stderr
        assert "Nothing was deleted" in ran.stderr
    assert files_below(tier) == before
    (tier / FOLDER / "00000002.json").unlink()
    assert run("vacuum", tier, *ABANDONED).entry["outcome"] == "vacuumed"


# 4. Orphans, by the mark in their ids, where brokers may serve the tier.


def test_only_what_this_catalog_wrote_goes_and_never_what_another_one_wrote(tier: Path) -> None:
    shutil.rmtree(tier / FOLDER)
    brokers = orphan(tier, 1).name[21:43]
    ours, theirs = own_id_of(catalog_of(tier)), foreign_id()
    (live,) = row_of(tier).live_ids
    for path in sorted(tier.rglob(f"0*{live}*")):
        for new in (ours, theirs):
            shutil.copy2(path, path.with_name(path.name.replace(live, new)))
    entry = run("vacuum", tier).entry
    assert {one["segment_id"] for one in entry["objects"]} == {ours}
    assert ids_in(tier) >= {theirs, brokers, live}
    assert ours not in ids_in(tier)
    assert run("vacuum", tier, *DETACHED).entry["outcome"] == "vacuumed"
    assert ids_in(tier) == {live, theirs}
    (note,) = [note for note in run("vacuum", tier).entry["notes"] if theirs in note]
    assert "its id says that it is another catalog's" in note


# 5. The note is below the key prefix, beside what brokers write.


@pytest.mark.parametrize("prefix", ["", "a/b-", "a/"])
def test_tiers_of_one_place_have_notes_of_their_own(tmp_path: Path, prefix: str) -> None:
    uploads = updated_tier(tmp_path / "local", [ORDERS], 3)
    tier = tmp_path / "tier"
    for one in (prefix, "z/"):
        aiven_tier(uploads, tier, replace(PLAIN.variant, key_prefix=one))

    def ran(key_prefix: str, *options: str) -> Ran:
        return run("vacuum", tier, "--layout", "aiven", "--key-prefix", key_prefix, *options)

    for one in (prefix, "z/"):
        assert compact(tier, "--layout", "aiven", "--key-prefix", one).code == 0
    context = run_context(str(tier), layout=LayoutOptions(key_prefix=prefix))
    before = context.tier.partitions()
    service = TierService(
        cluster_id=CLUSTER.cluster_id,
        fingerprint=context.catalog.fingerprint(),
        place=place_of(context),
        noted_at_ms=THEN_MS,
    )
    assert isinstance(notes_of(context).write(service, None), Noted)
    assert (tier / f"{prefix}{FOLDER}").is_dir()
    assert context.tier.partitions() == before
    why = reason(ran(prefix))
    assert f"serves it from {tier}/{prefix}." in why
    assert ran("z/").code == 0
    assert ran(prefix, *ABANDONED).entry["outcome"] == "vacuumed"
