"""Each code that a finding may have has one paragraph on its page, which says how bad it is."""

from __future__ import annotations

import re
from typing import Final

from tests.compaction.ill_partitions import ILL
from tests.tidy.source_tree import ROOT
from tierfold.compaction.brokers.preconditions import PreconditionCode
from tierfold.compaction.diagnosis.findings import FindingCode, Severity, severity_of
from tierfold.compaction.discovery.view import RefusalReason

NEVER_FOUND: Final = {
    RefusalReason.FIRST_DIRTY_OUT_OF_RANGE,
    RefusalReason.TIERED,
    RefusalReason.NOT_RESTORABLE,
    RefusalReason.LOG_START_MOVED,
    RefusalReason.STILL_COPYING,
    RefusalReason.DELETED_KEYS,
    RefusalReason.PRECONDITION,
    RefusalReason.GRACE_TOO_SHORT,
    RefusalReason.PLAN_OUTDATED,
}
"""Reasons of a verb that writes, and the one that only joins others."""

PAGE: Final = (ROOT / "docs/doctor.md").read_text(encoding="utf-8")
PARAGRAPHS: Final = dict(re.findall(r"^### `(\w+)`\n\n(.+?)\n(?=\n|\Z)", PAGE, re.M | re.S))
OF_REFUSALS: Final = {
    *(reason.code for reason in {*RefusalReason} - NEVER_FOUND),
    *map(str, PreconditionCode),
}


def test_codes_and_paragraphs_match() -> None:
    assert set(PARAGRAPHS) == OF_REFUSALS | set(map(str, FindingCode))
    assert len(re.findall(r"^### ", PAGE, re.M)) == len(PARAGRAPHS)


def test_a_paragraph_says_how_bad_it_is() -> None:
    words = {one: "A note" if one is Severity.NOTE else one.capitalize() for one in Severity}
    for code in OF_REFUSALS:
        assert PARAGRAPHS[code].startswith(words[severity_of(code)]), code


def test_each_code_of_its_own_has_an_example() -> None:
    of_topics = {"empty_policy", "kafka_20732", "metadata_large"}  # test_ill_clusters
    assert set(map(str, FindingCode)) - set(ILL) == of_topics
