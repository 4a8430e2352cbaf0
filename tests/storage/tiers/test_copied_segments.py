"""A segment that is copied with a fault at every call: whole, or an orphan that is not complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.storage.call_scripts import NO_ANSWER, Killed, Rule, Script, fails, killed
from tests.storage.deleted_segments import delete_segment
from tests.storage.new_ids import own_address, own_id
from tests.storage.scripted_store import ScriptedStore
from tests.storage.tiers.aiven.rsa_keys import key_file
from tests.storage.tiers.remote_tier_contract import KEY, content, described
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segment_ids import is_own_id
from tierfold.compaction.model.segments import Segment
from tierfold.storage.tiers.aiven.aiven_tier import AivenTier
from tierfold.storage.tiers.aiven.object_names import Suffix
from tierfold.storage.tiers.layout_options import Layout, LayoutOptions
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, LocalTieredStorage
from tierfold.storage.tiers.remote_tier import PARTS, RemoteTier, address_of

LAYOUTS: Final = ("local", "plain", "encrypted")
_OF_AIVEN: Final = (("copy", 1), ("copy", 2), ("open_new", 1))
WRITES: Final = {
    "local": tuple(("copy", number) for number in range(1, len(PARTS) + 1)),
    "plain": _OF_AIVEN,
    "encrypted": _OF_AIVEN,
}
"""By layout, each call that makes an object of a copy."""
STEPS: Final = [
    (layout, operation, number)
    for layout in LAYOUTS
    for operation, number in [*WRITES[layout], *([] if layout == "local" else [("read_range", 1)])]
]

OpenTier = Callable[..., RemoteTier]


@pytest.fixture
def opened(tmp_path: Path) -> OpenTier:
    def open_tier(layout: str, *rules: Rule) -> RemoteTier:
        root = tmp_path / "tier"
        (root / TIER_FOLDER).mkdir(parents=True, exist_ok=True)
        store = ScriptedStore(root, Script(*rules))
        if layout == "local":
            return LocalTieredStorage(store)
        is_encrypted = layout == "encrypted"
        keys = (key_file(tmp_path / "keys"),) if is_encrypted else ()
        options = LayoutOptions(
            layout=Layout.AIVEN, key_files=keys, chunk_bytes=5, is_encrypted=is_encrypted
        )
        return AivenTier(store, options)

    return open_tier


def uploaded(tier: RemoteTier) -> Segment:
    staged = tier.new_segment(own_address(KEY, 42))
    for part in PARTS:
        staged.put(part, content(part))
    return staged.finish(described(staged.address))


def copy_of(tier: RemoteTier, segment: Segment) -> Segment:
    (listed,) = [one for one in tier.listing(KEY) if one.segment_id == segment.segment_id]
    return tier.copy_segment(KEY, listed, replace(segment, segment_id=own_id()))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_objects_are_written_in_the_order_of_a_new_segment(
    opened: OpenTier, layout: str
) -> None:
    segment = uploaded(opened(layout))
    tier = opened(layout)
    copy_of(tier, segment)
    assert isinstance(tier.store, ScriptedStore)
    calls = tier.store.script.of("copy", "open_new")
    assert tuple((call.operation, call.number) for call in calls) == WRITES[layout]
    suffixes = [call.arguments[-1].rpartition(".")[2] for call in calls]
    assert suffixes == [*(PARTS if layout == "local" else Suffix)]


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize(("layout", "operation", "number"), STEPS)
@pytest.mark.parametrize("fault", [killed, fails])
def test_a_copy_that_is_interrupted_is_no_complete_segment(
    opened: OpenTier,
    layout: str,
    operation: str,
    number: int,
    fault: Callable[..., Rule],
    is_done: bool,
) -> None:
    segment = uploaded(opened(layout))
    tier = opened(layout, fault(f"{operation} {number}", is_done=is_done))
    with pytest.raises((Killed, UnreadableObject)) as caught:
        copy_of(tier, segment)
    assert caught.type is Killed or caught.value is NO_ANSWER
    sound = opened(layout)
    is_last = (operation, number) == WRITES[layout][-1]
    for one in sound.listing(KEY):
        if one.segment_id == segment.segment_id:
            assert one.is_complete
            continue
        assert is_own_id(one.segment_id)
        # A write may have taken place although its answer was lost.
        assert one.is_complete is (is_last and is_done)
        delete_segment(sound, address_of(KEY, one))
    for part in PARTS:
        found = sound.read_part(address_of(KEY, segment), part)
        assert found.tobytes() == content(part)
    for upload in sound.incomplete_uploads([KEY])[KEY]:
        sound.delete(upload.object_key)
    again = copy_of(sound, segment)
    assert sound.read_part(address_of(KEY, again), PARTS[0]).tobytes() == content(PARTS[0])
