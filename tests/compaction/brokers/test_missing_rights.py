"""Rights that are missing are said at once, with the fewest commands that grant no other."""

from __future__ import annotations

import copy
import re

from tierfold.compaction.brokers.missing_rights import lacking
from tierfold.compaction.model.rights import Resource, Right


def on(operation: str, *topics: str) -> list[Right]:
    return [Right(operation=operation, resource=Resource.TOPIC, name=name) for name in topics]


CLUSTER = Right(operation="DescribeConfigs", resource=Resource.CLUSTER)


def commands(rights: list[Right]) -> list[str]:
    found = re.findall(r"`([^`]+)`", lacking(rights, "b:9092").remedy)
    start = "kafka-acls.sh --bootstrap-server b:9092 --add --allow-principal User:NAME "
    assert all(command.startswith(start) for command in found)
    return [command.removeprefix(start) for command in found]


def test_one_right_is_one_sentence() -> None:
    error = lacking(on("Read", "m"), "b:9092")
    assert (error.where, error.what) == ("broker b:9092", "the right Read on topic m is missing")
    assert error.remedy.startswith("Grant it with `")
    assert commands(on("Read", "m")) == ["--operation Read --topic m"]
    assert lacking([CLUSTER], "b:9092").what == "the right DescribeConfigs on cluster is missing"


def test_what_lacks_the_same_operations_shares_a_command() -> None:
    rights = [*on("Read", "m"), *on("DescribeConfigs", "m"), CLUSTER]
    rights += [*on("Describe", "b", "a"), *on("DescribeConfigs", "b", "a"), *on("Read", "m")]
    assert commands(rights) == [
        "--operation Read --operation DescribeConfigs --topic m",
        "--operation DescribeConfigs --cluster",
        "--operation Describe --operation DescribeConfigs --topic a --topic b",
    ]
    assert lacking(rights, "b:9092").what == (
        "these rights are missing: Read and DescribeConfigs on topic m; DescribeConfigs on cluster;"
        " Describe and DescribeConfigs on topics a, b"
    )
    # One operation on the cluster and on topics.
    assert commands([CLUSTER, *on("DescribeConfigs", "a")]) == [
        "--operation DescribeConfigs --cluster --topic a"
    ]


def test_the_sentence_counts_many_topics_and_the_command_has_all() -> None:
    names = [f"t{number:03}" for number in range(50)]
    error = lacking(on("Describe", *names), "b:9092")
    assert error.what == (
        "these rights are missing: Describe on topics t000, t001, t002, t003, t004 and 45 more"
    )
    assert error.remedy.count("--topic ") == 50
    assert len(commands(on("Describe", *names))) == 1


def test_the_rights_stay_with_the_error() -> None:
    rights = [CLUSTER, *on("Read", "m")]
    error = lacking([*rights, CLUSTER], "b:9092")
    # Workers pickle it, in the same way.
    again = copy.copy(error)
    assert error.rights == again.rights == tuple(rights)
    assert (str(again), again.code) == (str(error), "right_missing")
