"""`rebuild` beside a healthy cluster: it names what brokers never had, and nothing else.

What a lost metadata topic means is in `test_rebuild`, on a cluster of its own.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.test_status_of_brokers import brokers_of, tierfold, topic_of
from tests.brokers.topics import METADATA_TOPIC
from tests.jobs.commands import Ran, told
from tests.jobs.commands import tierfold as command

TWIN: Final = "zzzzzzzzzzzzzzzzzzzzzQ"
"""Of two uploads of the same offsets, the one with the lower id is taken."""


def test_a_second_upload_of_the_same_offsets_is_named_once(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Brokers had it before; live segments have all its offsets, so it is only started."""
    topic = topic_of(kafka, "rebuilt")
    scope = (kafka.tier, "--topic", topic.name, "--catalog", tmp_path / "catalog")

    def rebuild(*options: str) -> Ran:
        return tierfold(kafka, "rebuild", *scope, *options)

    (healthy,) = rebuild("--publish", "--json").entries
    assert (healthy["outcome"], healthy["is_served"], healthy["commands"]) == (
        *("nothing_to_do", None, []),
    )
    first = topic.logs()[0].stem
    for path in topic.folder().glob(f"{first}.*"):
        twin = path.name.replace(first.partition("-")[2], TWIN)
        shutil.copy(path, path.with_name(twin))
    end = kafka.metadata.offsets()
    (on := tmp_path / "on.toml").write_text("[cluster]\npublish = true\n")
    (planned,) = rebuild("--config", str(on), "--json").entries  # It only looks.
    assert (planned["outcome"], planned["order"]) == ("planned", "from_memory")
    assert [one["id"] for one in planned["unnamed"]] == [TWIN]
    assert (planned["events_planned"], planned["events_sent"]) == (1, 0)
    shown = rebuild("--dry-run", "--publish")
    missing = told(
        shown.stdout,
        "rebuilt-0: planned",
        "does not name 1 segment of the tier, offsets 0 to 3",
        "Consumers still read from the log start, 0",
        "  tierfold rebuild",
    )
    assert not missing, shown
    # Neither a topic that is taken out nor a cluster that may lose records is sent anything.
    (out,) = rebuild("--publish", "--set", "publish=false", "--json").entries
    assert (out["outcome"], out["events_sent"]) == ("left", 0)
    alter(kafka, METADATA_TOPIC, {"retention.ms": "604800000"})
    (refused,) = rebuild("--publish", "--json").entries
    alter(kafka, METADATA_TOPIC, {"retention.ms": "-1"})
    assert [one["code"] for one in refused["refusals"]] == ["metadata_settings"]
    assert kafka.metadata.offsets() == end
    (done,) = rebuild("--publish", "--json").entries
    assert (done["outcome"], done["events_sent"]) == ("published", 1), done
    assert done["commands"] == []
    assert rebuild("--publish", "--json").entries[0]["outcome"] == "nothing_to_do"
    ran = tierfold(kafka, "status", *scope, "--json")
    assert brokers_of(ran, topic.name)["states"]["COPY_STARTED"]["segments"] == 1
    assert len(topic.read()) == 12


def test_without_brokers_it_says_what_it_needs(kafka: KafkaCluster) -> None:
    ran = command("rebuild", str(kafka.tier), "--json")
    assert (ran.code, ran.document["outcome"]) == (2, "bad_settings")
    assert "--bootstrap-server HOST:PORT" in ran.document["reason"]
