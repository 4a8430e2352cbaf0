"""Checks that setup.cfg and the pages about packaging agree with the code they describe."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable
from typing import Final

IMPORTED_AS: Final = {
    "apache-airflow": "airflow",
    "apache-airflow-providers-apache-spark": "airflow",
    "confluent-kafka": "confluent_kafka",
    "delta-spark": "delta",
    "google-crc32c": "google_crc32c",
    "import-linter": "importlinter",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "pycryptodome": "Crypto",
    "pyyaml": "yaml",
    "pyspark-client": "pyspark",
    "pytest-xdist": "xdist",
    "vl-convert-python": "vl_convert",
}
"""Distributions whose import name differs from their own."""

BROUGHT_BY: Final = {
    "botocore": "boto3",
    "jinja2": "altair",
    "llvmlite": "numba",
    "markupsafe": "altair",
    "py4j": "pyspark",
}
"""Imports that belong to the interface of another distribution, which pins their version."""

NEVER_IMPORTED: Final = frozenset({"pandas"})
"""PySpark refuses `mapInArrow` without it."""


def _read(setup: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(setup)
    return parser


def version(setup: str) -> str:
    """The version of the package."""
    return _read(setup)["metadata"]["version"]


def entry_points(setup: str) -> set[str]:
    """Modules that hold a console script."""
    lines = _read(setup)["options.entry_points"]["console_scripts"].split("\n")
    return {line.partition("=")[2].partition(":")[0].strip() for line in lines if line}


def requirements(setup: str, section: str, option: str) -> list[str]:
    """Names of the distributions that an option lists, without their versions."""
    lines = _read(setup)[section][option].split("\n")
    return [re.split(r"[<>=!~\[ ]", line)[0] for line in lines if line]


def unused_requirements(names: Iterable[str], imports: set[str]) -> list[str]:
    """Requirements that no file imports."""
    return [
        f"setup.cfg: {name} is required and never imported; drop it"
        for name in names
        if IMPORTED_AS.get(name, name) not in imports | NEVER_IMPORTED
    ]


def unlisted_imports(names: Iterable[str], imports: set[str]) -> list[str]:
    """Imports that work only because another requirement happens to install them."""
    listed = {IMPORTED_AS.get(name, name) for name in names}
    listed |= {name for name, bringer in BROUGHT_BY.items() if bringer in listed}
    return [f"setup.cfg: {name} is imported and not required" for name in sorted(imports - listed)]


def missing_rows(names: Iterable[str], page: str) -> list[str]:
    """Names that have no row of their own in any table of the page."""
    rows = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    return [f"no table row begins with `{name}`" for name in names if name not in rows]
