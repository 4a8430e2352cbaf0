"""A real Pushgateway keeps the last success, and forgets topics that are gone or mended."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.monitoring.programs import PUSHGATEWAY, free_port, running
from tests.monitoring.runs import refusing_run, run_with, success
from tierfold.jobs.api.metrics_sinks import push
from tierfold.jobs.reports.metrics import LAST_SUCCESS, STOPPED, Group


def test_a_gateway_keeps_a_success_and_forgets_what_is_gone_or_mended(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    url = f"http://{address}"
    arguments = [PUSHGATEWAY, f"--web.listen-address={address}"]
    other = {"tier": "/other", "verb": "compact", "topic": "gone"}
    with running(arguments, f"{url}/-/ready", tmp_path / "gateway.log"):
        push(url, [run_with("a", "gone"), success("a", 1), success("gone", 1)], is_whole=True)
        others = [Group(key=other, samples=success("gone", 1).samples)]
        of_other = replace(run_with(), key={"tier": "/other", "verb": "compact"}, samples=())
        push(url, [of_other, *others], is_whole=True)
        assert stopped_topics(url) == ["a", "gone"]
        push(url, [run_with("a"), success("a", 2, is_success=False)], is_whole=False)
        assert stopped_topics(url) == ["a"]
        assert topics_of(url) == {("/t", "a"), ("/t", "gone"), ("/other", "gone")}
        push(url, [run_with(), success("a", 3, is_success=False)], is_whole=True)
        assert topics_of(url) == {("/t", "a"), ("/other", "gone")}
        assert stopped_topics(url) == []
        with urlopen(f"{url}/metrics", timeout=10) as answer:
            found = samples_of_tier(answer.read().decode())
        assert found[LAST_SUCCESS] == 1
        assert found["tierfold_refused_partitions"] == 1
        # A slash in a tier's name is no part of the path.
        refusing_run(tmp_path / "tier", "--pushgateway", url)
        assert (str(tmp_path / "tier"), "bills") in topics_of(url)
        assert stopped_topics(url) == ["orders"]


def topics_of(url: str) -> set[tuple[str, str]]:
    with urlopen(f"{url}/api/v1/metrics", timeout=10) as answer:
        labels = [one["labels"] for one in json.load(answer)["data"]]
    return {(one["tier"], one["topic"]) for one in labels if "topic" in one}


def stopped_topics(url: str) -> list[str]:
    with urlopen(f"{url}/metrics", timeout=10) as answer:
        found = text_string_to_metric_families(answer.read().decode())
    return [
        one.labels["topic"] for family in found for one in family.samples if one.name == STOPPED
    ]


def samples_of_tier(text: str) -> dict[str, float]:
    return {
        one.name: one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.labels.get("tier") == "/t" and one.labels.get("topic") == "a"
    }
