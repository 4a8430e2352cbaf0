"""Hands a run's metrics over: a Prometheus textfile, a Pushgateway, OpenTelemetry by OTLP/HTTP.

A sink that fails is one warning: the run is done, and its result stays.
"""

from __future__ import annotations

import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit
from urllib.request import urlopen

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.redaction import redacted
from tierfold.jobs.reports.metrics import HELP, LAST_SUCCESS, Group, Sample, metrics_of
from tierfold.jobs.reports.result import Result

JOB: Final = "tierfold"
"""The Pushgateway's `job`, and the name of the service for OpenTelemetry."""

PUSH_SECONDS: Final = 10
"""How long one request to a Pushgateway may take."""

OTLP_VARIABLES: Final = (
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
)
"""OpenTelemetry's own variables; without one of them its packages are not imported."""

_SCOPE: Final = ("topics", "partitions", "partitions_from")
"""The keywords with which a run sees only some of the topics."""

_Result = TypeVar("_Result", bound=Result[Any])
_log: Final = logging.getLogger(__name__)


def check_metrics(given: Mapping[str, Any]) -> None:
    """Raise BadSettings if metrics cannot be handed over, before anything is done."""
    url = given.get("pushgateway")
    if url is not None and urlsplit(url).scheme not in {"http", "https"}:
        raise BadSettings(
            "it is no address of a Pushgateway",
            where="--pushgateway",
            remedy="Give it with its scheme, such as http://pushgateway:9091.",
        )
    if _is_exported():
        try:
            import opentelemetry.exporter.otlp.proto.http.metric_exporter  # noqa: F401
        except ImportError as error:
            raise BadSettings(
                f"the package {error.name} is not installed, and the variable asks for metrics",
                where=next(name for name in OTLP_VARIABLES if os.environ.get(name)),
                remedy="Run `pip install 'tierfold[otel]'`, or unset the variable.",
            ) from error


def with_metrics(result: _Result, given: Mapping[str, Any]) -> _Result:
    """Return the result, once its metrics are where the keywords and the environment say."""
    path, url = given.get("metrics_file"), given.get("pushgateway")
    if (path is None and url is None and not _is_exported()) or given.get("dry_run"):
        return result
    groups = metrics_of(result.to_dict())
    if path is not None:
        with _warned(f"--metrics-file {path}"):
            write_textfile(Path(path), groups)
    if url is not None:
        is_whole = not any(given.get(name) for name in _SCOPE)
        with _warned(f"--pushgateway {redacted(url)}"):
            push(url, groups, is_whole=is_whole)
    if _is_exported():
        with _warned("OpenTelemetry"):
            export(groups)
    return result


@contextmanager
def _warned(sink: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever a sink's library raises
        why = redacted(str(error)) or type(error).__name__
        _log.warning("%s: the metrics were not handed over: %s", sink, why)


@dataclass(frozen=True, slots=True, eq=False)
class _Collector:
    """The samples in the form that the Prometheus client collects."""

    samples: Sequence[Sample]

    def collect(self) -> Iterator[Any]:
        """Yield a family for each metric, in the order of `HELP`."""
        from prometheus_client.core import Metric

        by_name: dict[str, list[Sample]] = defaultdict(list)
        for sample in self.samples:
            by_name[sample.name].append(sample)
        for name in filter(by_name.get, HELP):
            family = Metric(name, HELP[name], "gauge")
            for sample in by_name[name]:
                family.add_sample(name, dict(sample.labels), sample.value)
            yield family


def _registry(samples: Iterable[Sample]) -> Any:  # noqa: ANN401 - of a lazily imported package
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(_Collector(tuple(samples)))
    return registry


def write_textfile(path: Path, groups: Sequence[Group]) -> None:
    """Write a textfile as node_exporter reads it, atomically.

    A topic without a success in this run keeps the time of its last one from the file before.
    """
    from prometheus_client import write_to_textfile

    samples = [sample for group in groups for sample in group.samples]
    has_success = {_key(one.labels) for one in samples if one.name == LAST_SUCCESS}
    of_topics = {_key(group.key) for group in groups}
    kept = [
        one
        for one in _successes_in(path)
        if _key(one.labels) in of_topics and _key(one.labels) not in has_success
    ]
    write_to_textfile(str(path), _registry([*samples, *kept]))


def _key(labels: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(labels.get(name) for name in ("tier", "verb", "topic"))


def _successes_in(path: Path) -> Iterator[Sample]:
    from prometheus_client.parser import text_string_to_metric_families

    if not path.exists():
        return
    for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
        for sample in family.samples:
            if sample.name == LAST_SUCCESS:
                yield Sample(name=sample.name, value=sample.value, labels=sample.labels)


def push(url: str, groups: Sequence[Group], *, is_whole: bool) -> None:
    """Push each group under its own key, and delete the groups of topics that are gone.

    A topic's group keeps what it had before and this run lacks: the time of the last success. The
    run's own is replaced, so a partition that was mended is no longer among those that stopped.
    `is_whole`: the run saw all topics, so another one's group is of a topic that is gone.
    """
    from prometheus_client import delete_from_gateway, push_to_gateway, pushadd_to_gateway

    for group in groups:
        hand_over = pushadd_to_gateway if "topic" in group.key else push_to_gateway
        hand_over(
            url, JOB, _registry(group.samples), grouping_key={**group.key}, timeout=PUSH_SECONDS
        )
    for key in _gone(url, groups) if is_whole else ():
        delete_from_gateway(url, JOB, grouping_key=key, timeout=PUSH_SECONDS)


def _gone(url: str, groups: Sequence[Group]) -> list[dict[str, str]]:
    """The keys of groups of the same tier and verb that are not among these."""
    listing = f"{url.rstrip('/')}/api/v1/metrics"
    with urlopen(listing, timeout=PUSH_SECONDS) as answer:
        found = json.load(answer)["data"]
    pushed = {_key(group.key) for group in groups}
    run = groups[0].key
    keys = [{**one["labels"]} for one in found if one["labels"].get("job") == JOB]
    for key in keys:
        del key["job"]
    return [
        key
        for key in keys
        if key.keys() == {*run, "topic"} and run.items() <= key.items() and _key(key) not in pushed
    ]


def _is_exported() -> bool:
    """Whether OpenTelemetry's variables ask for metrics."""
    if os.environ.get("OTEL_METRICS_EXPORTER") == "none":
        return False
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return any(os.environ.get(name) for name in OTLP_VARIABLES)


def export(groups: Sequence[Group]) -> None:
    """Send all samples once by OTLP/HTTP; raises RuntimeError if they were not accepted."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult
    from opentelemetry.sdk.resources import Resource

    reader = InMemoryMetricReader()
    resource = Resource.create({} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": JOB})
    provider = MeterProvider([reader], resource, shutdown_on_exit=False)
    meter = provider.get_meter(JOB)
    gauges = {name: meter.create_gauge(name, description=text) for name, text in HELP.items()}
    for group in groups:
        for sample in group.samples:
            gauges[sample.name].set(float(sample.value), dict(sample.labels))
    found = reader.get_metrics_data()
    provider.shutdown()
    with _unlogged():
        exporter = OTLPMetricExporter()
        done = None if found is None else exporter.export(found)
        exporter.shutdown()
    if done is not MetricExportResult.SUCCESS:
        raise RuntimeError("the collector did not accept them")


@contextmanager
def _unlogged() -> Iterator[None]:
    """Drop the exporter's own messages: one warning says it all."""
    logger = logging.getLogger("opentelemetry")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
