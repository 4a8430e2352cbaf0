"""docs/kafka.md, "Rights": with the commands of its table, every step works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.access import PASSWORD, USER, granted
from tests.brokers.kafka_page import commands_of, rights
from tests.brokers.nights import Night, uploaded
from tests.storage.brokers.secured import SecuredCluster

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("own_note")]

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}


class Restricted(Night):
    """An operator who may do what is granted, and no more."""

    @property
    def server(self) -> str:
        return self.kafka.servers_of("SASL").partition(",")[0]


def test_the_rights_of_the_table_are_enough(kafka: SecuredCluster, tmp_path: Path) -> None:
    topic = uploaded(kafka, tmp_path, "by-rights").topic
    night = Restricted(kafka, tmp_path, topic)
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{name}={text}\n" for name, text in LOGIN.items()))
    more = ("--catalog", str(tmp_path / "catalog"), "--command-config", str(properties))
    (plan,), (compact,) = commands_of("2. Plan"), commands_of("3. Opt in, and compact")
    (status,), (vacuum,) = commands_of("4. Look"), commands_of("5. Free the space")
    only = ("--topic", topic.name, *more)
    with granted(kafka):
        refused = night.types(plan, *only)
        assert (refused.code, "kafka-acls.sh" in refused.stderr) == (3, True), refused
        for command in rights():
            here = command.replace("HOST:PORT", night.server).replace("NAME", USER)
            night.types(here.replace("TOPIC", topic.name))
        kafka.wait(lambda: night.types(plan, *only).code == 0, "the rights that were granted")
        for command in (compact, status, vacuum):
            night.runs(command, *more)
        assert "open: " not in night.runs(status, *more)
        night.hours += 25
        night.runs(vacuum, *more)
        assert len(topic.logs()) == 2
