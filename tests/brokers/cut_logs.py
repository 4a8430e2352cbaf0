"""A log that an unclean leader election cuts off, after the deposed leader has uploaded its tail.

    with cut_log(kafka, "orders") as log:   # 2 leads, 3 is stopped and lacks 30-59, all is uploaded
        log.depose()                        # no leader
        log.elect()                         # 3 leads; its log ends at 30
        log.write_on()                      # its log ends at 70, nothing of that is uploaded
        log.upload()                        # it has uploaded 30-69

              0         30                  60        70
    deposed   |--epoch 0---------------------|
    elected   |--epoch 0-|--epoch 2--------------------|

Broker 1 is the controller, which cannot be stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import CALL_S, KeyValue, Topic

CUT_AT: Final = 30
"""The first offset that the elected leader lacks."""
TAIL_END: Final = 59
"""The last offset that the deposed leader has uploaded."""
NEW_END: Final = 69
"""The last offset of the elected leader's log."""

_SEGMENT: Final = 10
_ONCE: Final = {*range(5), *range(20, 25)}
_NEVER_MS: Final = 10**13
"""Three hundred years, as records of tests are old."""
_DEPOSED, _ELECTED = 2, 3


class CutLog:
    """A topic of one partition on brokers 2 and 3; each method leads to the next state."""

    def __init__(self, kafka: KafkaCluster, name: str) -> None:
        """Broker 2 leads and has uploaded all of it, of which broker 3 has the first half."""
        self._kafka = kafka
        kafka.broker(_DEPOSED)
        kafka.broker(_ELECTED)
        self.topic = kafka.create(
            name, replicas=[_DEPOSED, _ELECTED], unclean_leader_election_enable="true"
        )
        self._write(0, CUT_AT)
        self.topic.wait_until_tiered()
        kafka.brokers[_ELECTED - 1].stop()
        kafka.wait(lambda: self.topic.in_sync() == {_DEPOSED}, "broker 3 to be out of sync")
        self._write(CUT_AT, TAIL_END + 1)
        self.topic.wait_until_tiered()

    def depose(self) -> None:
        """Stop the leader: the only replica in sync is gone, and the partition has no leader."""
        self._kafka.brokers[_DEPOSED - 1].stop()
        self._kafka.wait(lambda: self.topic.leader() == -1, "no leader")

    def elect(self) -> None:
        """Start the other replica, which is elected although it lacks records."""
        self._keep_local(_NEVER_MS)
        self._kafka.broker(_ELECTED)
        self._kafka.wait(lambda: self.topic.leader() == _ELECTED, "the election")
        # The new leader refuses the sequence numbers of a producer that wrote the tail.
        self.topic = Topic(self._kafka, self.topic.name)

    def write_on(self) -> None:
        """Write beyond the end of the tail that was cut off, in a segment that is not rolled."""
        self._write(CUT_AT, NEW_END + 1, NEW_END + 1 - CUT_AT)

    def upload(self) -> None:
        """Let the new leader roll and upload everything."""
        self._keep_local(1)
        self.topic.wait_until_tiered()

    def restore(self) -> None:
        """Start the deposed leader, delete the topic, and stop broker 3: other tests go on."""
        self._kafka.broker(_DEPOSED)
        self._kafka.broker(_ELECTED)
        self._kafka.wait(lambda: len(self.topic.in_sync()) == 2, "both replicas to be in sync")
        admin = self._kafka.admin()  # `Topic.delete` would wait for what tierfold wrote, too.
        admin.delete_topics([self.topic.name])[self.topic.name].result(CALL_S)
        self._kafka.brokers[_ELECTED - 1].stop()

    def _write(self, start_offset: int, next_offset: int, most: int = _SEGMENT) -> None:
        """Write offsets as segments of so many; values say who wrote them."""
        leader = self.topic.leader()
        for first in range(start_offset, next_offset, most):
            records: list[KeyValue] = [
                (_key(offset), b"%d of broker %d" % (offset, leader))
                for offset in range(first, min(first + most, next_offset))
            ]
            self.topic.append(records)

    def _keep_local(self, retention_ms: int) -> None:
        """What is older is rolled, uploaded and deleted locally at once."""
        alter(self._kafka, self.topic.name, {"local.retention.ms": str(retention_ms)})


def _key(offset: int) -> bytes:
    """One of seven; in the first and the third segment some that come once: a pass keeps them."""
    return b"once-%d" % offset if offset in _ONCE else b"key-%d" % (offset % 7)


@contextmanager
def cut_log(kafka: KafkaCluster, name: str) -> Iterator[CutLog]:
    """Yield a log before its election; at the end brokers 1 and 2 run, and the topic is gone."""
    log = CutLog(kafka, name)
    try:
        yield log
    finally:
        log.restore()
