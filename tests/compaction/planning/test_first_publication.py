"""A tier that was compacted without its brokers is first published with a person's consent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.broker_events import uploaded
from tests.compaction.builders import CLUSTER, a_chain, a_view, cleaned_to, retired
from tests.compaction.claimed import NOW_MS, RULES
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.serving import Consent, ConsentKind, Pass
from tierfold.compaction.planning.partition_plan import partition_plan
from tierfold.compaction.planning.plan import Choice
from tierfold.compaction.publishing.steps import Done, Purpose, Send, Step

SEND: Final = Send(purpose=Purpose.START, events=(), why="brokers do not know it")
AGREED: Final = Consent(kind=ConsentKind.DELETED_KEYS, given_at_ms=5, run="r")
OTHER: Final = replace(AGREED, kind=ConsentKind.MOVED)
PASS: Final = Pass(epoch=1, horizon_ms=None, published_at_ms=None, has_spared=False)
TIMESTAMP: Final = replace(RULES, compaction_strategy=CompactionStrategy.TIMESTAMP)


def compacted(segments: int = 1, **fields: Any) -> PartitionView:
    """A row that was compacted before its cluster was noted."""
    row = {"served_by": (CLUSTER,), "has_dropped": True, "cleaner_offsets": cleaned_to(10)}
    chain = a_chain(*[10] * segments, origin=Compacted("run"))
    return a_view(chain, **row | {"epoch": 1} | fields)


def choice_of(view: PartitionView, step: Step = SEND, rules: Any = RULES) -> Choice:
    return partition_plan(view, (), rules, NOW_MS, step=step).choice


def test_it_is_refused_and_says_what_it_means() -> None:
    refusal = choice_of(compacted())
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.DELETED_KEYS
    assert "may keep a deleted key, and should begin again. Choose a time" in refusal.sentence
    assert "every reader" not in refusal.sentence


@pytest.mark.parametrize(
    ("fields", "step"),
    [
        pytest.param({"consents": (OTHER, AGREED)}, SEND, id="a person agreed"),
        pytest.param(
            {"consents": (replace(AGREED, kind=ConsentKind.ADOPTED),)},
            SEND,
            id="it took over what brokers have",
        ),
        pytest.param({"has_dropped": False}, SEND, id="all tombstones are there"),
        pytest.param({"served_by": ()}, SEND, id="no broker serves it"),
        pytest.param(
            {"passes": (replace(PASS, published_at_ms=4), replace(PASS, epoch=2)), "epoch": 2},
            SEND,
            id="it was published before",
        ),
        pytest.param({}, Done(), id="nothing is to be published"),
    ],
)
def test_nothing_else_needs_the_consent(fields: dict[str, Any], step: Step) -> None:
    assert not isinstance(choice_of(compacted(**fields), step), Refusal)


@pytest.mark.parametrize("fields", [{"consents": (OTHER,)}, {"passes": (PASS,)}])
def test_another_consent_or_an_unpublished_pass_do_not_stand_for_it(fields: dict[str, Any]) -> None:
    assert isinstance(choice_of(compacted(**fields)), Refusal)


@pytest.mark.parametrize(("rules", "is_hard"), [(TIMESTAMP, True), (RULES, False)])
def test_what_one_batch_cannot_hold_is_worse_if_versions_decide(
    rules: Any, *, is_hard: bool
) -> None:
    gone = a_chain(*[10] * 20)
    events = [
        event
        for one in gone
        for event in uploaded(one.start_offset, one.start_offset, one.end_offset)
    ]
    events = [one._replace(custom_metadata=bytes(60_000)) for one in events]
    view = compacted(retired=tuple(map(retired, gone)))
    large = choice_of(replace(view, brokers=brokers_have(events)), rules=rules)
    assert isinstance(large, Refusal)
    assert ("every reader may see deleted keys" in large.detail) is is_hard
    small = choice_of(compacted(2), rules=rules)
    assert isinstance(small, Refusal)
    assert "every reader" not in small.detail
