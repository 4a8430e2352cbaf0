"""`forget` leads out where an unclean election cut off what was compacted and published."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.cut_logs import CUT_AT, NEW_END, TAIL_END, CutLog, cut_log
from tests.brokers.test_small_batches import BATCH_BYTES
from tests.brokers.test_status_of_brokers import tierfold
from tests.brokers.test_third_send import PUBLISH, Published, scripted_sends
from tests.brokers.topics import METADATA_TOPIC
from tests.storage.call_scripts import Killed, killed
from tierfold.storage.tiers.local_store import LocalStore

pytestmark = pytest.mark.usefixtures("own_note")

BY_TWOS: Final = ("--set", "segment.bytes=700")
"""A replacement takes the place of two uploads."""


class Cut(Published):
    """A published topic, of which the log was cut off afterwards."""

    def forget(self, *more: str) -> dict[str, Any]:
        words = (f"{self.topic.name}-0", *self._scope[:2], *self.clock, *more, "--json")
        ran = tierfold(self.kafka, "forget", self.kafka.tier, *words)
        assert len(ran.entries) == 1, ran
        return ran.entries[0]

    def cut(self, log: CutLog) -> None:
        log.depose()
        log.elect()
        log.write_on()
        log.upload()
        self.topic = log.topic

    def is_refused_unless_copies_can_be_made(self) -> None:
        """For lack of space, if one batch cannot hold the events, and if an object is corrupt."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LocalStore, "free_bytes", lambda _: 1)
            assert "Free space" in self.forget("--dry-run", *PUBLISH)["reason"]
        alter(self.kafka, METADATA_TOPIC, {"max.message.bytes": str(BATCH_BYTES)})
        try:
            reason = self.forget("--dry-run", *PUBLISH)["reason"]
        finally:
            alter(self.kafka, METADATA_TOPIC, {"max.message.bytes": None})
        assert "one batch holds" in reason
        assert f"Give up all records up to offset {CUT_AT - 1}" in reason
        first_id = self.row.retired[0].segment.segment_id
        (log,) = self.topic.folder().glob(f"*{first_id}.log")
        content = log.read_bytes()
        log.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert "Copy its objects back" in self.forget(*PUBLISH)["reason"]
        log.write_bytes(content)

    def before_the_cut(self) -> dict[int, bytes | None]:
        return {one.offset: one.value for one in self.topic.read() if one.offset < CUT_AT}


@pytest.mark.soak
def test_what_passes_dropped_for_records_that_were_cut_off_comes_back(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    with cut_log(kafka, "cut-served") as log:
        served = Cut(kafka, tmp_path, log.topic)
        original = served.before_the_cut()
        served.publish(*BY_TWOS)
        # The first one is of both logs: behind it brokers keep what they list for deletion.
        ends = [segment.end_offset for segment in served.row.segments]
        assert ends == [19, 39, TAIL_END]
        served.cut(log)
        for entry in (served.forget("--dry-run"), served.forget()):
            assert "publishing to them is not on" in entry["reason"], entry
        dry = served.forget("--dry-run", *PUBLISH)
        assert dry["outcome"] == "planned", dry
        assert [one["start_offset"] for one in dry["adopted"]["back"]] == [0, 10, 20]
        row = served.row
        served.is_refused_unless_copies_can_be_made()
        with pytest.raises(Killed), scripted_sends(killed("copy 2")):
            served.forget(*PUBLISH)
        assert served.row.named_ids == row.named_ids
        done = served.forget(*PUBLISH, "--if-held", "take-over")
        assert (done["outcome"], done["publishing"]) == ("forgotten", "published"), done
        kafka.wait(lambda: served.before_the_cut() == original, "the log before the cut")
        assert [one.offset for one in served.topic.read()] == [*range(NEW_END + 1)]
        values = served.values()
        served.publish()
        assert served.values() == values
        assert served.clean("--publish", hours=30).code == 0  # With what was killed.
        assert served.is_clean()
        assert served.values() == values


@pytest.mark.soak
def test_where_what_a_pass_replaced_is_gone_its_segment_stays_up_to_the_cut(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    with cut_log(kafka, "cut-vacuumed") as log:
        served = Cut(kafka, tmp_path, log.topic)
        served.publish(*BY_TWOS)
        assert served.clean("--publish", hours=30).code == 0
        compacted = served.before_the_cut()
        served.cut(log)
        row = served.row
        dry = served.forget("--dry-run", *PUBLISH)
        assert dry["outcome"] == "planned", dry
        (back,) = dry["adopted"]["back"]
        assert (back["start_offset"], back["end_offset"]) == (20, CUT_AT - 1)
        assert "may be lost" in dry["notes"][0]
        with pytest.raises(Killed), scripted_sends(killed("commit 1")):
            served.forget(*PUBLISH)
        assert served.row.live_ids == row.live_ids
        done = served.forget(*PUBLISH, "--if-held", "take-over")
        assert (done["outcome"], done["publishing"]) == ("forgotten", "published"), done
        kafka.wait(lambda: served.before_the_cut() == compacted, "the log before the cut")
        assert [*served.topic.read()][-1].offset == NEW_END
        assert served.verify(kafka.tier)["outcome"] == "sound"
        values = served.values()
        served.publish()
        assert served.values() == values
        assert served.clean("--publish", hours=30).code == 0  # With what was killed.
        assert served.is_clean()
        assert served.values() == values
