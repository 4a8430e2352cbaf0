"""`forget` leads out where an unclean election cut off what was compacted and published."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.cut_logs import CUT_AT, NEW_END, TAIL_END, CutLog, cut_log
from tests.brokers.test_status_of_brokers import tierfold
from tests.brokers.test_third_send import PUBLISH, Published

pytestmark = pytest.mark.usefixtures("own_note")

BY_TWOS: Final = ("--set", "segment.bytes=700")
"""A replacement takes the place of two uploads."""


class Cut(Published):
    """A published topic, of which the log was cut off afterwards."""

    def forget(self, *more: str) -> dict[str, Any]:
        words = (f"{self.topic.name}-0", *self._scope[:2], *more, "--json")
        (entry,) = tierfold(self.kafka, "forget", self.kafka.tier, *words).entries
        return entry

    def cut(self, log: CutLog) -> None:
        log.depose()
        log.elect()
        log.write_on()
        log.upload()
        self.topic = log.topic

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
        done = served.forget(*PUBLISH)
        assert (done["outcome"], done["publishing"]) == ("forgotten", "published"), done
        kafka.wait(lambda: served.before_the_cut() == original, "the log before the cut")
        assert [one.offset for one in served.topic.read()] == [*range(NEW_END + 1)]
        values = served.values()
        served.publish()
        assert served.values() == values
        assert served.clean("--publish", hours=3).code == 0
        assert served.is_clean()
        assert served.values() == values
