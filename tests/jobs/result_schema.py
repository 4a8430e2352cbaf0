"""The published JSON Schema of results, and what a document does not meet of it."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator

ERRORS = frozenset({"bad_settings", "unreadable"})
"""Outcomes of a document that has no partitions."""


@cache
def schema() -> dict[str, Any]:
    """Return the schema, from where users find it."""
    text = resources.files("tierfold.conf").joinpath("schema/result-2.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def _validator(name: str) -> Draft202012Validator:
    part = {"$ref": f"#/$defs/{name}", "$defs": schema()["$defs"]}
    return Draft202012Validator(part if name else schema())


def faults(document: Any, name: str = "") -> list[str]:
    """Return what contradicts the definition `name`, by default the whole schema; none: nothing."""
    name = name or _name_of(document)
    return [
        f"{error.json_path}: {error.message[:500]}"
        for error in _validator(name).iter_errors(document)
    ]


def _name_of(document: dict[str, Any]) -> str:
    """The definition of its verb, whose errors say more than that none of all verbs fits."""
    if document.get("outcome") in ERRORS:
        return "error"
    verb = document.get("verb", "")
    return verb if verb in schema()["$defs"] else ""
