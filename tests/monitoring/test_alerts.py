"""The alerts in conf/monitoring: promtool tests each, and a Prometheus scrapes a run."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
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


def test_prometheus_scrapes_a_run_and_fires(tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    refusing_run(tmp_path / "tier", "--metrics-file", served / "metrics")
    handler = partial(_Textfile, directory=str(served))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            (alert,) = _alerts_of(tmp_path, server.server_port, "TierfoldRefused")
        finally:
            server.shutdown()
    assert alert["state"] == "firing"
    assert alert["labels"].items() >= {"topic": "orders", "team": "shop", "verb": "compact"}.items()
    assert alert["annotations"]["summary"] == "1 partitions of orders wait for a person"


class _Textfile(SimpleHTTPRequestHandler):
    """Serves the textfile as Prometheus' text format, silently."""

    extensions_map: Final = {"": "text/plain; version=0.0.4"}

    def log_message(self, *_: Any) -> None:
        """See `BaseHTTPRequestHandler`."""


def _alerts_of(folder: Path, scraped_port: int, name: str) -> list[dict[str, Any]]:
    """The alerts of this name once there are some."""
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
    address = f"127.0.0.1:{free_port()}"
    found: list[dict[str, Any]] = []

    def is_firing() -> bool:
        with urlopen(f"http://{address}/api/v1/alerts", timeout=10) as answer:
            alerts = json.load(answer)["data"]["alerts"]
        found[:] = [one for one in alerts if one["labels"]["alertname"] == name]
        return bool(found)

    arguments = [
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
    ]
    log = folder / "prometheus.log"
    with running(arguments, f"http://{address}/-/ready", log):
        until(is_firing, log)
    return found
