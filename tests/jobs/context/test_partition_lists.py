"""A list selects exactly its partitions; documents are written once and read back."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.tiers import key_of
from tests.storage.emulators import new_bucket, s3, s3_environment
from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.documents import check_new, read_document, write_document
from tierfold.jobs.context.partition_lists import partitions_from, partitions_in
from tierfold.jobs.context.scope import Listed, Scope

ORDERS = [key_of("orders", number) for number in range(3)]
PAYMENTS = key_of("payments")
OLD_PAYMENTS = key_of("payments", incarnation=1)
ALL = [*ORDERS, PAYMENTS, OLD_PAYMENTS]


def listed(*entries: Any) -> frozenset[Listed]:
    return partitions_in(list(entries), where="list.json")


def entry(topic: str, partition: int, **more: str) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, **more}


@pytest.mark.parametrize(
    ("entries", "chosen"),
    [
        pytest.param(
            [entry("orders", 2), entry("orders", 0)],
            [ORDERS[0], ORDERS[2]],
            id="exactly the listed partitions, in the tier's order",
        ),
        pytest.param(
            [entry("payments", 0)],
            [PAYMENTS, OLD_PAYMENTS],
            id="without an id, every topic of that name",
        ),
        pytest.param(
            [entry("payments", 0, topic_id=OLD_PAYMENTS.topic_id)],
            [OLD_PAYMENTS],
            id="with an id, one topic",
        ),
        pytest.param(
            [entry("orders", 0), entry("orders", 0, topic_id=ORDERS[0].topic_id)],
            [ORDERS[0]],
            id="with and without an id, a partition once",
        ),
    ],
)
def test_a_list_selects_its_partitions(
    entries: list[dict[str, Any]], chosen: list[PartitionKey]
) -> None:
    assert Scope(listed=listed(*entries)).chosen(ALL) == chosen


def test_patterns_choose_among_the_listed_partitions() -> None:
    both = listed(entry("orders", 1), entry("payments", 0))
    assert Scope(listed=both, topics=("pay*",)).chosen(ALL) == [PAYMENTS, OLD_PAYMENTS]


def test_an_empty_list_selects_nothing_and_no_list_selects_everything() -> None:
    assert Scope(listed=frozenset(), topics=("orders",)).chosen(ALL) == []
    assert Scope().chosen(ALL) == ALL


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (entry("orders", 7), r"no partition orders-7\."),
        (entry("orders", 0, topic_id="x"), "no partition orders-0 with the id x"),
    ],
)
def test_a_list_of_another_tier_is_refused(missing: dict[str, Any], words: str) -> None:
    scope = Scope(listed=listed(entry("orders", 0), missing))
    with pytest.raises(BadSettings, match=words):
        scope.chosen(ALL)


def test_a_document_lists_the_partitions_for_the_next_verb() -> None:
    outcomes = ("planned", "refused", "nothing_to_do", "compacted", "left", "sound", "failed")
    entries = [entry("orders", at, outcome=name) for at, name in enumerate(outcomes)]
    found = partitions_in({"partitions": entries, "verb": "plan"}, where="list.json")
    assert sorted(one.partition for one in found) == [0, 3, 5]


@pytest.mark.parametrize(
    "document",
    [
        "text",
        "",
        {},
        {"partitions": "orders-0"},
        [1],
        ["orders-0"],
        [entry("orders", True)],
        [{"topic": "orders"}],
        [{"partition": 0}],
        [{"topic": "orders", "partition": 0, "topic_id": None}],
        [entry("orders", 0) | {"outcome": []}],
        {"partitions": [{"outcome": {}}]},
    ],
)
def test_a_document_that_is_not_a_list_of_partitions_is_refused(document: object) -> None:
    with pytest.raises(BadSettings, match=r"list\.json.*tierfold plan --json"):
        partitions_in(document, where="list.json")


def test_a_list_is_in_a_file_or_on_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "plan.json"
    place.write_text(json.dumps([entry("orders", 1)]), encoding="utf-8")
    assert partitions_from(str(place)) == {Listed("orders", 1)}
    monkeypatch.setattr("sys.stdin", io.StringIO(place.read_text(encoding="utf-8")))
    assert partitions_from("-") == {Listed("orders", 1)}


@pytest.mark.parametrize("text", ["orders-0", "[" * 100_000])
def test_a_file_that_is_missing_or_not_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadSettings, match="this is not JSON"):
        partitions_from(str(tmp_path / "plan.json"))
    with pytest.raises(UnreadableObject, match=r"nothing\.json: .*wrote with --document"):
        partitions_from(str(tmp_path / "nothing.json"))


def test_a_document_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(tmp_path / "new folder" / "document.json")
    check_new(place)
    write_document(place, {"verb": "plan"})
    assert json.loads(read_document(place)) == {"verb": "plan"}
    with pytest.raises(BadSettings, match="Choose a name that no run has used"):
        check_new(place)
    with pytest.raises(UnreadableObject, match="nothing is ever overwritten"):
        write_document(place, {"verb": "compact"})
    assert json.loads(read_document(place)) == {"verb": "plan"}
    monkeypatch.chdir(tmp_path)
    write_document("here.json", {})
    assert read_document(str(tmp_path / "here.json")) == "{}"


def test_a_document_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnreadableObject, match="cannot make this folder"):
        write_document(str(tmp_path / "file" / "document.json"), {})


@pytest.mark.parametrize("place", ["s3://bucket", "", "https://host/x.json"])
def test_a_place_that_names_no_document_is_refused(place: str) -> None:
    with pytest.raises(BadSettings):
        write_document(place, {})


def test_a_document_in_a_bucket_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_environment(s3()).items():
        monkeypatch.setenv(name, value)
    bucket = new_bucket(s3())
    for place in (f"s3://{bucket}/plan.json", f"s3://{bucket}/a/run=1/plan.json"):
        check_new(place)
        write_document(place, [{"topic": "orders", "partition": 0}])
        assert partitions_from(place) == {Listed("orders", 0)}
        with pytest.raises(BadSettings, match="Choose a name"):
            check_new(place)
        with pytest.raises(UnreadableObject):
            write_document(place, [])
    with pytest.raises(UnreadableObject, match=r"nothing\.json: .*wrote with --document"):
        read_document(f"s3://{bucket}/nothing.json")
