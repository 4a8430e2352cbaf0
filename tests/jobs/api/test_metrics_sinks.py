"""Metrics reach a textfile and a collector; where they do not, the run goes on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from tests.jobs.commands import COMPACT, tierfold
from tests.monitoring.programs import free_port
from tests.monitoring.runs import labelled_tier, refusing_run, run_with, samples, success
from tierfold.jobs.api.metrics_sinks import write_textfile
from tierfold.jobs.reports.metrics import LAST_SUCCESS, STOPPED

OTLP: Final = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"


@dataclass
class Requests:
    """What a server was sent, and how it answers."""

    status: int = 200
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def server(status: int = 200) -> Iterator[Requests]:
    """A server that records requests."""
    requests = Requests(status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.seen.append((self.command, self.path, body))
            self.send_response(requests.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        requests.port = serving.server_port
        Thread(target=serving.serve_forever, daemon=True).start()
        try:
            yield requests
        finally:
            serving.shutdown()


def test_a_run_writes_its_textfile(tmp_path: Path) -> None:
    file = tmp_path / "metrics.prom"
    ran = refusing_run(tmp_path / "tier", "--metrics-file", file)
    found = samples(file.read_text())
    assert found["tierfold_refused_partitions", "compact", "orders"] == 1
    assert found["tierfold_uncleanable_partitions_count", "compact", ""] == 1
    ended_s = ran.document["finished_at_ms"] / 1000
    assert found[LAST_SUCCESS, "compact", "bills"] == ended_s
    assert (LAST_SUCCESS, "compact", "orders") not in found
    bills = ran.partitions["bills", 0]
    assert bills["labels"] == {"team": "books", "cost_center": "7"}
    assert 'cost_center="7",team="books",tier=' in file.read_text()
    saved = bills["bytes_in"] - bills["bytes_out"]
    assert found["tierfold_saved_bytes", "compact", "bills"] == saved > 0
    assert found["tierfold_run_saved_bytes", "compact", ""] == saved
    assert ("tierfold_run_cost_usd", "compact", "") not in found
    first, second = (line.split()[2] for line in file.read_text().splitlines()[0:4:3])
    assert (first, second) == ("tierfold_run_saved_bytes", STOPPED)
    assert found[STOPPED, "compact", "orders"] == 1
    refusal = ran.partitions["orders", 0]["refusals"][0]
    assert f'reason="{refusal["detail"]}",remedy="If __remote_log_metadata has' in file.read_text()
    assert [path.name for path in tmp_path.glob("metrics*")] == ["metrics.prom"]


def test_a_textfile_keeps_only_the_last_success_of_a_topic_that_fails(tmp_path: Path) -> None:
    file = tmp_path / "metrics.prom"
    write_textfile(file, [run_with("a", "b"), *(success(name, 1) for name in ("a", "b", "gone"))])
    write_textfile(file, [run_with("b"), success("a", 2), success("b", 2, is_success=False)])
    found = samples(file.read_text())
    assert [key[2] for key in found if key[0] == STOPPED] == ["b"]
    assert {key[2]: value for key, value in found.items() if key[0] == LAST_SUCCESS} == {
        "a": 2,
        "b": 1,
    }


def test_a_sink_that_fails_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = labelled_tier(tmp_path / "tier")
    with server(500) as refusing:
        monkeypatch.setenv(OTLP, refusing.url)
        ran = tierfold(
            *("compact", tmp_path / "tier", *COMPACT, "--config", config, "--json"),
            *("--metrics-file", tmp_path / "none" / "metrics.prom"),
            *("--pushgateway", f"http://user:secret@127.0.0.1:{free_port()}"),
        )
    assert (ran.code, ran.document["outcome"]) == (0, "compacted")
    warnings = [line for line in ran.stderr.splitlines() if "were not handed over" in line]
    assert len(warnings) == 3, ran.stderr
    assert "secret" not in ran.stderr
    assert not [one for one in caplog.records if one.name.startswith("opentelemetry")]


def test_a_dry_run_hands_nothing_over(tmp_path: Path) -> None:
    config = labelled_tier(tmp_path / "tier")
    file = tmp_path / "metrics.prom"
    arguments = ("compact", tmp_path / "tier", *COMPACT, "--config", config, "--dry-run", "--json")
    assert tierfold(*arguments, "--metrics-file", file).code == 0
    assert not file.exists()


def test_a_wrong_address_stops_the_run_before_it_begins(tmp_path: Path) -> None:
    config = labelled_tier(tmp_path / "tier")
    arguments = ("compact", tmp_path / "tier", *COMPACT, "--config", config, "--json")
    ran = tierfold(*arguments, "--pushgateway", "gateway:9091")
    assert (ran.code, ran.document["outcome"]) == (2, "bad_settings")
    assert "Give it with its scheme" in ran.document["reason"]
    assert tierfold(*arguments).document["outcome"] == "compacted"


def test_without_the_extra_the_run_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = labelled_tier(tmp_path / "tier")
    monkeypatch.setenv(OTLP, "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    for name in [*sys.modules]:
        if name.startswith("opentelemetry.exporter.otlp.proto.http."):
            monkeypatch.delitem(sys.modules, name)
    arguments = ("compact", tmp_path / "tier", *COMPACT, "--config", config, "--json")
    ran = tierfold(*arguments)
    assert (ran.code, ran.document["outcome"]) == (2, "bad_settings")
    assert "pip install 'tierfold[otel]'" in ran.document["reason"]
    monkeypatch.delenv(OTLP)
    assert tierfold(*arguments).code == 0


def test_a_collector_gets_every_sample_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment=night")
        refusing_run(tmp_path / "tier")
    ((_, path, body),) = collector.seen
    assert path == "/v1/metrics"
    (of_resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    named = {one.key: one.value.string_value for one in of_resource.resource.attributes}
    assert named.items() >= {"service.name": "tierfold", "deployment": "night"}.items()
    found = {
        (metric.name, attributes.get("topic", "")): (point.as_double, attributes)
        for metric in of_resource.scope_metrics[0].metrics
        for point in metric.gauge.data_points
        if (attributes := {one.key: one.value.string_value for one in point.attributes})
    }
    value, attributes = found["tierfold_refused_partitions", "orders"]
    assert (value, attributes["team"]) == (1, "shop")
    assert (LAST_SUCCESS, "orders") not in found
    value, attributes = found[STOPPED, "orders"]
    assert (value, attributes["outcome"], attributes["team"]) == (1, "refused", "shop")
    assert {"partition", "reason", "remedy"} <= attributes.keys()


def test_verify_and_vacuum_have_metrics_too(tmp_path: Path) -> None:
    config = labelled_tier(tmp_path / "tier")
    for verb in ("compact", "verify", "vacuum"):
        file = tmp_path / f"{verb}.prom"
        given = ("--config", config, "--metrics-file", file)
        assert tierfold(verb, tmp_path / "tier", *given, "--json").code == 0
        assert samples(file.read_text())["tierfold_failed_partitions", verb, "orders"] == 0
