"""What a round would mean for the brokers that serve the partition, once it is published."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.brokers.topic_retention import TopicRetention
from tierfold.compaction.planning.plan import Compact

_OF_REPLACEMENT: Final = 2
_OF_SOURCE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What publishing a round adds, and when consumers see it."""

    metadata_records: int
    """Records in `__remote_log_metadata`: a segment is started and finished, a source is listed
    for deletion and gone."""
    local_until_ms: int | None
    """Until then some broker may serve consumers from local copies of the range, epoch
    milliseconds; None: it is not known."""

    def sentences(self, now_ms: int, local_until: str) -> tuple[str, ...]:
        """The same for people; `local_until`: the time as text."""
        adds = f"published, it adds {self.metadata_records} records to the brokers' metadata topic"
        if self.local_until_ms is None:
            sees = "when consumers see it is not known: no time limits the brokers' local copies"
        elif self.local_until_ms <= now_ms:
            sees = "consumers see it at once: no broker has local copies of its range"
        else:
            sees = f"consumers see all of it after {local_until}, once local copies have gone"
        return adds, sees


def outlook(choice: Compact, limits: Iterable[TopicRetention]) -> Outlook:
    """The outlook of a planned round; `limits`: what each broker keeps of the topic.

    Brokers delete local segments from the head of the log, by their largest timestamp.
    """
    times_ms = [limit.local_time_ms for limit in limits]
    known_ms = [time_ms for time_ms in times_ms if time_ms is not None]
    newest_ms = max((source.max_timestamp_ms for source in choice.sources), default=-1)
    is_known = len(known_ms) == len(times_ms) and bool(known_ms) and newest_ms >= 0
    return Outlook(
        metadata_records=_OF_REPLACEMENT * len(choice.groups) + _OF_SOURCE * len(choice.sources),
        local_until_ms=newest_ms + max(known_ms) if is_known else None,
    )
