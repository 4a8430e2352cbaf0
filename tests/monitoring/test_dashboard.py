"""The alerts and the dashboard name only metrics that there are, and each alert has its test."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import yaml

from tests.monitoring.runs import monitoring
from tierfold.jobs.reports.metrics import HELP

TESTS: Final = Path(__file__).with_name("alerts_test.yml")


def test_each_alert_has_a_test() -> None:
    (group,) = yaml.safe_load(monitoring("alerts.yml"))["groups"]
    alerts = {rule["alert"] for rule in group["rules"]}
    tests = yaml.safe_load(TESTS.read_text())["tests"]
    fired = {
        rule["alertname"]
        for test in tests
        for rule in test["alert_rule_test"]
        if rule["exp_alerts"]
    }
    assert fired == alerts


def test_alerts_and_dashboard_use_metrics_that_exist() -> None:
    texts = monitoring("alerts.yml"), monitoring("grafana.json")
    alerts, shown = ({*re.findall(r"\btierfold_\w+", text)} for text in texts)
    assert alerts < {*HELP}
    assert shown == {*HELP}
    panels = json.loads(texts[1])["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
