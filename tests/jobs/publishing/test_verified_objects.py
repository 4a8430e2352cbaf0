"""Brokers are sent nothing of a segment whose objects are lost or damaged, in Aiven's layout."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.aiven import CASES, PLAIN, PREFIX, AivenCase
from tests.jobs.claims import ORDERS
from tests.jobs.commands import ALWAYS, CLOCK, tierfold
from tests.jobs.tiers import NOW_MS, updated_tier
from tests.storage.tiers.aiven_samples import KEY_FILE
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.brokers.events import SegmentState, SegmentUpdated
from tierfold.compaction.brokers.metadata_fold import MetadataFold
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.publishing.look import Look, PublishingLimits
from tierfold.compaction.publishing.replacements import NO_BROKER, started_event
from tierfold.compaction.publishing.steps import Purpose, Send
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.pipeline.known_partition import KnownPartition
from tierfold.jobs.publishing.served_partition import ServedPartition
from tierfold.jobs.publishing.verified_objects import VerifiedObjects
from tierfold.storage.tiers.layout_options import KeyFile, Layout, LayoutOptions

LOST: Final = "is not in the tier with all its objects"
SUFFIXES: Final = ("log", "indexes", "rsm-manifest")


class Replaced:
    """orders-0 of three uploads, compacted to one segment by a run that has ended."""

    def __init__(self, compacted: Path, folder: Path, case: AivenCase) -> None:
        self.folder = Path(shutil.copytree(compacted, folder))
        keys = (KeyFile(key_id="key-1", path=str(KEY_FILE)),) if case.variant.key else ()
        prefix = PREFIX if case.variant.key_prefix else ""
        self.layout = LayoutOptions(layout=Layout.AIVEN, key_prefix=prefix, key_files=keys)
        self.run = self.context().catalog.read([ORDERS])[ORDERS].segments[0].written_by_run

    def context(self) -> RunContext:
        """Another run's."""
        return run_context(str(self.folder), None, NOW_MS, layout=self.layout)

    @property
    def segment(self) -> Segment:
        """The replacement."""
        (segment,) = self.context().catalog.read([ORDERS])[ORDERS].segments
        return segment

    def path_of(self, suffix: str) -> Path:
        """The path of one of its objects."""
        (path,) = self.folder.rglob(f"*-{self.segment.segment_id}.{suffix}")
        return path

    def change(self, suffix: str, place: int) -> None:
        """Change a byte of an object."""
        data = bytearray(self.path_of(suffix).read_bytes())
        data[place] ^= 1
        self.path_of(suffix).write_bytes(data)

    def look(self, context: RunContext) -> ServedPartition:
        """What a run finds, beside brokers that know nothing of the replacement."""
        row, listed = context.catalog.read([ORDERS])[ORDERS], context.tier.listing(ORDERS)
        fold = MetadataFold(1)
        fold.ask(ORDERS, row.named_ids)
        look = Look(
            row=row,
            view=fold.view(ORDERS),
            naming=fold.naming(ORDERS),
            offsets=PartitionOffsets(log_start=0, high_watermark=1000, last_stable=1000),
            lineage=row.segments[0].leader_epochs,
            limits=PublishingLimits(grace_ms=1, upload_wait_ms=1),
            fingerprint=context.catalog.fingerprint(),
            now_ms=NOW_MS,
            whole=frozenset(one.segment_id for one in listed if one.is_complete),
        )
        known = KnownPartition(key=ORDERS, state=row, refusal=None, listed=listed)
        return ServedPartition(known=known, look=look, rules=Rules())

    def first_send(self) -> Send:
        """It would let brokers know of the replacement."""
        event = started_event(ORDERS, self.segment, NOW_MS)
        return Send(purpose=Purpose.START, events=(event,), why="")

    def update(self, state: SegmentState) -> Send:
        """It would give the replacement this state."""
        event = SegmentUpdated(ORDERS, self.segment.segment_id, NO_BROKER, NOW_MS, None, state)
        return Send(purpose=Purpose.SWAP, events=(event,), why="")

    def why_not(self, send: Send) -> str:
        """Why a run must not send it that has not written the replacement."""
        context = self.context()
        return VerifiedObjects(context=context).why_not(self.look(context), send)


@pytest.fixture(scope="module")
def uploads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return updated_tier(tmp_path_factory.mktemp("local") / "tier", (ORDERS,), segments=3)


@pytest.fixture(scope="module")
def compacted(uploads: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A compacted tier of each variant of the layout, by the variant's name."""
    found: dict[str, Path] = {}
    for case in CASES:
        folder = aiven_tier(uploads, tmp_path_factory.mktemp("compacted") / "tier", case.variant)
        done = tierfold("compact", folder, *ALWAYS, CLOCK, str(NOW_MS), *case.arguments)
        assert done.code == 0, done
        found[case.name] = folder
    return found


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def replaced(
    request: pytest.FixtureRequest, compacted: dict[str, Path], tmp_path: Path
) -> Replaced:
    """Each variant of the layout."""
    return Replaced(compacted[request.param.name], tmp_path / "tier", request.param)


@pytest.fixture
def plain(compacted: dict[str, Path], tmp_path: Path) -> Replaced:
    """The variant of which tierfold reads a log as it is stored."""
    return Replaced(compacted[PLAIN.name], tmp_path / "tier", PLAIN)


def test_whole_objects_may_be_read(replaced: Replaced) -> None:
    assert replaced.why_not(replaced.first_send()) == ""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_lost_object_is_noticed(replaced: Replaced, suffix: str) -> None:
    replaced.path_of(suffix).unlink()
    assert LOST in replaced.why_not(replaced.first_send())
    assert LOST in replaced.why_not(replaced.update(SegmentState.COPY_FINISHED))
    # What goes needs no objects.
    assert replaced.why_not(replaced.update(SegmentState.DELETE_STARTED)) == ""


DAMAGE: Final[dict[str, tuple[str, Callable[[bytes], bytes]]]] = {
    "a byte of the log": ("log", lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "a shorter log": ("log", lambda data: data[:-1]),
    "a log without bytes": ("log", lambda _: b""),
    "shorter indexes": ("indexes", lambda data: data[:-1]),
    "indexes without bytes": ("indexes", lambda _: b""),
    "a shorter manifest": ("rsm-manifest", lambda data: data[:-1]),
    "a manifest of another version": (
        "rsm-manifest",
        lambda data: data.replace(b'"version":"1"', b'"version":"2"'),
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_object_is_noticed(replaced: Replaced, what: str) -> None:
    suffix, damaged = DAMAGE[what]
    path = replaced.path_of(suffix)
    path.write_bytes(damaged(path.read_bytes()))
    for send in (replaced.first_send(), replaced.update(SegmentState.COPY_FINISHED)):
        assert replaced.segment.segment_id in replaced.why_not(send)


def test_a_manifest_by_which_the_plugin_would_read_other_bytes(plain: Replaced) -> None:
    path = plain.path_of("rsm-manifest")
    written = path.read_bytes()
    path.write_bytes(written.replace(b'"originalChunkSize":97', b'"originalChunkSize":98'))
    assert "the chunk index has chunks of 98 bytes in 97 each" in plain.why_not(plain.first_send())


def test_what_this_run_has_written_is_not_read_again(plain: Replaced) -> None:
    context = replace(plain.context(), run=plain.run)
    verified, partition = VerifiedObjects(context=context), plain.look(context)
    plain.change("log", -1)
    assert verified.why_not(partition, plain.first_send()) == ""
    assert verified.why_not(partition, plain.update(SegmentState.COPY_FINISHED)) == ""


@pytest.mark.parametrize("purpose", [Purpose.NAME_AGAIN, Purpose.SERVE_AGAIN])
def test_what_brokers_served_before_is_not_read_to_name_it_again(
    plain: Replaced, purpose: Purpose
) -> None:
    plain.change("log", -1)
    assert plain.why_not(replace(plain.first_send(), purpose=purpose)) == ""
    assert plain.why_not(plain.first_send())


def test_a_segment_is_read_once_a_run(plain: Replaced) -> None:
    context = plain.context()
    verified, partition = VerifiedObjects(context=context), plain.look(context)
    assert verified.why_not(partition, plain.first_send()) == ""
    plain.change("log", -1)
    assert verified.why_not(partition, plain.update(SegmentState.COPY_FINISHED)) == ""


def test_an_object_that_was_lost_since_it_was_verified_is_noticed(plain: Replaced) -> None:
    context = plain.context()
    verified = VerifiedObjects(context=context)
    assert verified.why_not(plain.look(context), plain.first_send()) == ""
    plain.path_of("indexes").unlink()
    assert LOST in verified.why_not(plain.look(context), plain.update(SegmentState.COPY_FINISHED))
