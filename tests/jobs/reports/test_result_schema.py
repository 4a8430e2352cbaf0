"""The published schema describes every field of every verb's document, and allows no other."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from tests.jobs import result_schema
from tests.jobs.commands import ALWAYS, CLOCK, tierfold
from tests.jobs.elections import histories
from tests.jobs.log_dirs import WrittenLogDir
from tests.jobs.tiers import key_of, updated_tier
from tests.jobs.vacuum_tiers import DELETE, DETACHED, THEN_MS
from tierfold.compaction.commits.history import Event
from tierfold.compaction.deletion.expiry import ExpiryReason
from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    MissingRight,
    TierfoldError,
    UnreadableObject,
)
from tierfold.compaction.planning.explanation import Region, SegmentAction
from tierfold.compaction.uploading.copy_lag import UploadReason
from tierfold.compaction.uploading.local_retention import LocalRetentionReason
from tierfold.jobs.cli.commands import tierfold as group
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.reports.request_report import Spent
from tierfold.jobs.reports.result import (
    BY_URGENCY,
    SCHEMA_VERSION,
    document_of_error,
    document_of_usage_error,
)
from tierfold.jobs.verbs.vacuum_outcome import Kind
from tierfold.storage.tiers.request_counts import Requests

DEFS: Final = result_schema.schema()["$defs"]
LATER: Final = (CLOCK, str(THEN_MS))

Place = tuple[str | int, ...]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A document of each verb, with an entry in each list where that is possible."""
    tier = updated_tier(tmp_path_factory.mktemp("result") / "tier", [key_of("orders")], 2)
    truncated, *_ = histories(tmp_path_factory.mktemp("truncated") / "tier")
    orders = ("--topic", "orders")
    found = {"explained": tierfold("plan", tier, *ALWAYS, "--explain", "orders-0", "--json")}
    found["planned"] = tierfold("plan", tier, *ALWAYS, "--json")
    found["compacted"] = tierfold("compact", tier, *ALWAYS, *orders, "--json")
    found["status"] = tierfold("status", tier, "--json", "--segments")
    found["doctor"] = tierfold("doctor", truncated, "--json")
    found["verified"] = tierfold("verify", tier, "--json")
    found["history"] = tierfold("history", tier, "orders-0", "--json")
    first = found["history"].entries[0]["history"][-1]["committed_at"]
    to = ("--to", first, "--dry-run")
    found["restored"] = tierfold("restore", tier, "orders-0", *to, "--json")
    found["retired"] = tierfold("vacuum", tier, *DETACHED, *LATER, "--dry-run", "--json")
    found["expired"] = tierfold("vacuum", tier, *DELETE, *LATER, "--dry-run", "--json")
    found["forgotten"] = tierfold("forget", truncated, "orders-0", "--dry-run", "--json")
    found["runs"] = tierfold("runs", tier, "--json")
    found["run"] = tierfold("runs", tier, "--run", "2", "--json")
    found["config"] = tierfold("config", "orders", "--json")
    logs = WrittenLogDir(tmp_path_factory.mktemp("logs") / "data").filled(key_of("orders"), 1)
    found["local retention"] = tierfold("local-retention", logs.path, tier, "--json")
    found["refused settings"] = tierfold("status", tier / "none", "--json")
    return {name: ran.document for name, ran in found.items()}


def test_the_schema_is_valid_and_of_the_version_that_documents_have() -> None:
    Draft202012Validator.check_schema(result_schema.schema())
    assert DEFS["document"]["properties"]["schema_version"]["const"] == SCHEMA_VERSION
    assert result_schema.schema()["$id"].endswith(f":{SCHEMA_VERSION}")


def test_every_document_meets_it(documents: dict[str, Any]) -> None:
    whole = Draft202012Validator(result_schema.schema())
    for name, document in documents.items():
        assert result_schema.faults(document) == [], name
        assert whole.is_valid(document), name


def test_an_error_of_any_verb_meets_it() -> None:
    for verb in DEFS["document"]["properties"]["verb"]["enum"]:
        document = document_of_usage_error(verb, "x")
        assert result_schema.faults(document) == []
    assert result_schema.faults(document_of_usage_error("other", "x"))


@pytest.mark.parametrize(
    ("kind", "outcome", "code"),
    [
        (BadSettings, "bad_settings", "bad_settings"),
        (CorruptLog, "unreadable", "corrupt"),
        (UnreadableObject, "unreadable", "unreadable"),
        (MissingRight, "unreadable", "right_missing"),
    ],
)
def test_an_error_has_its_code_beside_its_sentence(
    kind: type[TierfoldError], outcome: str, code: str
) -> None:
    document = document_of_error("plan", kind("it is odd", where="here", remedy="Mend it."))
    assert (document["outcome"], document["reason"]) == (outcome, "here: it is odd. Mend it.")
    assert document["refusals"] == [
        {"code": code, "detail": "here: it is odd", "remedy": "Mend it."}
    ]
    assert result_schema.faults(document) == []
    own = kind("it is odd", where="here", remedy="Mend it.", code="its_own")
    # Workers pickle it, in the same way.
    assert document_of_error("plan", copy.copy(own))["refusals"][0]["code"] == "its_own"


def test_the_requests_of_a_bucket_meet_it() -> None:
    spent = Spent(requests=Requests(gets=3), cost_usd=Fraction(1, 7))
    for compacted_bytes in (0, 5):
        assert result_schema.faults(spent.entry(compacted_bytes), "requests") == []


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """The places of all objects in a document."""
    if isinstance(value, dict):
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for name, part in inner:
        if isinstance(part, dict | list):
            yield from places(part, (*place, name))


def at(document: Any, place: Place) -> Any:
    for name in place:
        document = document[name]
    return document


OPEN: Final = {"counts", "verified", "requests", "stage_seconds"}
"""Objects of a recorded run that have the names of the version that ran."""


def test_no_other_field_is_allowed_and_none_may_be_missing(documents: dict[str, Any]) -> None:
    for name, document in documents.items():
        for place in places(document):
            if name == "run" and place and place[-1] in OPEN:
                continue
            changed = copy.deepcopy(document)
            at(changed, place)["new"] = 1
            assert result_schema.faults(changed), (name, place)
            del at(changed, place)["new"]
            for field in [*at(changed, place)]:
                value = at(changed, place).pop(field)
                assert result_schema.faults(changed), (name, place, field)
                at(changed, place)[field] = value


def properties_in(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """All properties of all objects of the schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        for part in schema.values():
            yield from properties_in(part)


def test_every_field_is_described_once() -> None:
    described = {name for name, of in properties_in(DEFS) if of.get("description")}
    for name, of in properties_in(DEFS):
        assert of.get("description") or name in described, name
        assert of.get("description", ".").endswith("."), name


@pytest.mark.parametrize(
    ("definition", "field", "values"),
    [
        ("document", "verb", {*group.commands} - {"dump", "init", "report"}),
        ("document", "outcome", {*BY_URGENCY}),
        ("partition", "outcome", {*BY_URGENCY} - result_schema.ERRORS),
        ("explained_segment", "action", {*SegmentAction}),
        ("expired_segment", "reason", {*ExpiryReason}),
        ("deleted_object", "kind", {*Kind}),
        ("history_line", "event", {*Event}),
        ("plan", "publishing", {*Publishing}),
        ("compact", "publishing", {*Publishing}),
        ("rebuild", "publishing", {*Publishing}),
        ("local_segment", "decision", {*UploadReason}),
        ("kept_segment", "decision", {*LocalRetentionReason}),
    ],
)
def test_the_words_of_a_field_are_those_of_the_code(
    definition: str, field: str, values: set[str]
) -> None:
    assert set(DEFS[definition]["properties"][field]["enum"]) == set(map(str, values))


def test_the_regions_of_a_segment_are_those_of_the_code() -> None:
    regions = DEFS["explained_segment"]["properties"]["regions"]["items"]["enum"]
    assert regions == list(map(str, Region))


def test_the_totals_count_each_outcome_of_a_partition() -> None:
    counts = DEFS["totals"]["properties"]["partitions"]
    of_entries = DEFS["partition"]["properties"]["outcome"]["enum"]
    assert counts["propertyNames"]["enum"] == counts["required"] == of_entries


def test_the_outcomes_are_listed_by_urgency() -> None:
    assert DEFS["document"]["properties"]["outcome"]["enum"] == [*BY_URGENCY]
