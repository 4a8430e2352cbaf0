"""The alerts in conf/monitoring: promtool tests each, and a Prometheus scrapes a run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.monitoring.programs import (
    PROMETHEUS,
    PROMTOOL,
    free_port,
    running,
    until,
)
from tests.monitoring.runs import monitoring, refusing_run

TESTS: Final = Path(__file__).with_name("alerts_test.yml")


def test_each_alert_fires_when_it_should(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(monitoring("alerts.yml"))
    shutil.copy(TESTS, tmp_path)
    rules = subprocess.run(
        [PROMTOOL, "test", "rules", TESTS.name],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert rules.returncode == 0, rules.stdout + rules.stderr


def test_prometheus_scrapes_a_run_fires_and_answers_the_dashboard(tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    ran = refusing_run(tmp_path / "tier", "--metrics-file", served / "metrics")
    handler = partial(_Textfile, directory=str(served))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            with _prometheus(tmp_path, server.server_port) as prometheus:
                (alert,) = prometheus.alerts("TierfoldStopped")
                shown = {query: prometheus.result(query) for query in _queries()}
        finally:
            server.shutdown()
    assert alert["state"] == "firing"
    assert alert["labels"].items() >= {"topic": "orders", "team": "shop", "verb": "compact"}.items()
    summary, description = (alert["annotations"][name] for name in ("summary", "description"))
    assert summary == "orders-0 refused by compact"
    refusal = ran.partitions["orders", 0]["refusals"][0]
    assert description.startswith(f"{refusal['detail']}. First: If __remote_log_metadata has")
    # No partition failed, no brokers were named, and no segment could be gone.
    idle = ("failed_partitions", "publish_lag", "superseded_overdue", "cost_usd")
    empty = {query for query, found in shown.items() if not found}
    assert empty == {query for query in shown if any(word in query for word in idle)}


def _queries() -> list[str]:
    """Every query of the dashboard, for all tiers and topics."""
    panels = json.loads(monitoring("grafana.json"))["panels"]
    found = [target["expr"] for panel in panels for target in panel["targets"]]
    return [re.sub(r"\$\w+", ".*", query) for query in found]


class _Textfile(SimpleHTTPRequestHandler):
    """Serves the textfile as Prometheus' text format, silently."""

    extensions_map: Final = {"": "text/plain; version=0.0.4"}

    def log_message(self, *_: Any) -> None:
        """See `BaseHTTPRequestHandler`."""


@dataclass(frozen=True, slots=True)
class _Prometheus:
    """A running Prometheus."""

    address: str
    log: Path

    def _asked(self, path: str) -> Any:
        with urlopen(f"http://{self.address}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def alerts(self, name: str) -> list[dict[str, Any]]:
        """The alerts of this name once there are some."""
        found: list[dict[str, Any]] = []

        def is_firing() -> bool:
            alerts = self._asked("alerts")["alerts"]
            found[:] = [one for one in alerts if one["labels"]["alertname"] == name]
            return bool(found)

        until(is_firing, self.log)
        return found

    def result(self, query: str) -> list[Any]:
        """What it answers to a query; raises HTTPError if that is no PromQL."""
        found: list[Any] = self._asked(f"query?{urlencode({'query': query})}")["result"]
        return found


@contextmanager
def _prometheus(folder: Path, scraped_port: int) -> Iterator[_Prometheus]:
    """A Prometheus with our alerts that scrapes this port."""
    (folder / "alerts.yml").write_text(monitoring("alerts.yml"))
    config = {
        "global": {"scrape_interval": "200ms", "evaluation_interval": "200ms"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [
            {
                "job_name": "tierfold",
                "static_configs": [{"targets": [f"127.0.0.1:{scraped_port}"]}],
            }
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address, log = f"127.0.0.1:{free_port()}", folder / "prometheus.log"
    arguments = [
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
    ]
    with running(arguments, f"http://{address}/-/ready", log):
        yield _Prometheus(address, log)
