"""A topic whose manifests tierfold does not know is left alone, and can be left out."""

from __future__ import annotations

from pathlib import Path

from tests.jobs.aiven import PLAIN
from tests.jobs.commands import ALWAYS, tierfold, told
from tests.jobs.tiers import files_below, key_of, updated_tier
from tests.storage.tiers.aiven_tiers import aiven_tier

PUFFIN = b"PFA1" + bytes(12) + b"PFA1"
"""How a manifest begins and ends where `segment.format=iceberg`."""


def test_the_topic_is_refused_and_the_remedy_leaves_it_out(tmp_path: Path) -> None:
    keys = (key_of("orders"), key_of("payments"))
    local = updated_tier(tmp_path / "local", keys, segments=3)
    tier = aiven_tier(local, tmp_path / "tier", PLAIN.variant)
    of_orders = tier / f"orders-{key_of('orders').topic_id}"
    for manifest in of_orders.rglob("*.rsm-manifest"):
        manifest.write_bytes(PUFFIN)
    before = files_below(of_orders)
    arguments = ("compact", tier, *ALWAYS, "--set", "tier.binding=detached", "--json")
    reason = tierfold(*arguments, "--topic", "orders").ends_alone(
        3, "refused", "Iceberg table", "no Iceberg tables", "--topic"
    )["reason"]
    assert told(reason, "Restore") == ["Restore"], "a copy has the same bytes"
    left_out = tierfold(*arguments, "--topic", "payments")
    assert (left_out.code, left_out.outcomes) == (0, {("payments", 0): "compacted"})
    assert files_below(of_orders) == before


def test_a_manifest_of_a_newer_plugin_is_left_out_or_restored(tmp_path: Path) -> None:
    keys = (key_of("orders"), key_of("payments"))
    local = updated_tier(tmp_path / "local", keys, segments=3)
    tier = aiven_tier(local, tmp_path / "tier", PLAIN.variant)
    of_orders = tier / f"orders-{key_of('orders').topic_id}"
    known = {manifest: manifest.read_bytes() for manifest in of_orders.rglob("*.rsm-manifest")}
    for manifest, content in known.items():
        newer = content.replace(b'"version":"1"', b'"version":"2"')
        assert newer != content
        manifest.write_bytes(newer)
    before = files_below(of_orders)
    arguments = ("compact", tier, *ALWAYS, "--set", "tier.binding=detached", "--json")
    reason = tierfold(*arguments, "--topic", "orders").ends_alone(3, "refused", "update tierfold")
    assert not told(reason["reason"], "Until then, leave the topic out", "Restore it from a copy")
    left_out = tierfold(*arguments, "--topic", "payments")
    assert (left_out.code, left_out.outcomes) == (0, {("payments", 0): "compacted"})
    assert files_below(of_orders) == before
    for manifest, content in known.items():
        manifest.write_bytes(content)
    tierfold(*arguments, "--topic", "orders").ends_alone(0, "compacted")
