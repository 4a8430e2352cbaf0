"""Asks brokers where the records of leader epochs end in their logs (OffsetForLeaderEpoch).

librdkafka sends this request only to check a consumer's position, so the question is a position
that cannot be right: the leader epoch, at an offset beyond every log. The check fails, and its
error has the whole answer. Every partition is paused, so nothing is fetched, Describe on the topic
is enough, and nothing is answered by mistake: what was not checked has no error. (A right position
would prove nothing: if the consumer already knows the leader, `assign` leaves out the check.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tierfold.compaction.brokers.epoch_ends import EpochAnswer
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.facts import TopicPartition


def epoch_ends(
    connection: Connection, questions: Mapping[TopicPartition, Sequence[int]]
) -> dict[TopicPartition, dict[int, EpochAnswer]]:
    """By partition and leader epoch, the brokers' answers; `questions`: its leader epochs.

    Needs Describe on each topic. Ends once nothing has been answered for `request.timeout.ms`;
    raises UnreadableObject if no broker answers at all.
    """
    raise NotImplementedError
