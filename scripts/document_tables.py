"""Generates the reference of JSON documents from their schema, and of `runs` from its columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Final

from scripts.reference_tables import table
from tierfold.storage.catalog.schema import RUNS

SHARED: Final = {
    "document": "What every document has",
    "of_a_tier": "What every document about a tier has, too",
    "partition": "What every entry of `partitions` has",
    "change": "What the entries of `plan`, `compact`, `restore` and `forget` have, too",
}
"""Definitions that several verbs share, and the titles of their sections."""

_HEAD: Final = ("field", "type", "what it is")
_Schema = Mapping[str, Any]
_Row = tuple[str, ...]


def documents() -> str:
    """Return a section for what verbs share, then one for each verb."""
    text = resources.files("tierfold.conf").joinpath("schema/result-2.json").read_text("utf-8")
    defs = json.loads(text)["$defs"]
    shared = [_section(title, defs[name], _rows(defs, name)) for name, title in SHARED.items()]
    verbs = [
        _section(f"`{verb}`", defs[verb], _rows_of_verb(defs, verb))
        for verb in defs["document"]["properties"]["verb"]["enum"]
    ]
    return "".join([*shared, *verbs])


def runs() -> str:
    """Return the table of the columns of `runs`."""
    rows = (
        (
            f"`{column.name}`",
            f"`{column.type}`",
            _sentence(column.metadata[b"comment"].decode()),
        )
        for column in RUNS
    )
    return table(("column", "type", "what it is"), rows)


def _section(title: str, of: _Schema, rows: Sequence[_Row]) -> str:
    said = f"{of['description']}\n\n" if title.startswith("`") else ""
    fields = table(_HEAD, rows) if rows else "The entries have no further fields.\n"
    return f"\n### {title}\n\n{said}{fields}"


def _rows_of_verb(defs: _Schema, verb: str) -> list[_Row]:
    """The verb's own fields, and those of its entries."""
    rows = [row for row in _rows(defs, verb) if not row[0].startswith("`partitions")]
    items = defs[verb]["properties"].get("partitions", {}).get("items", {})
    for entry in items.get("anyOf", [items] if items else []):
        rows += _rows(defs, _name(entry), "partitions[].")
    return rows


def _rows(defs: _Schema, name: str, prefix: str = "") -> list[_Row]:
    """The fields of a definition itself, and of objects within them, with dotted names."""
    return list(_fields(defs, defs[name]["properties"], prefix))


def _fields(defs: _Schema, properties: _Schema, prefix: str) -> Iterator[_Row]:
    for name, of in properties.items():
        if "description" not in of:  # It only narrows a field that is described elsewhere.
            continue
        yield f"`{prefix}{name}`", _type(of), _cell(of)
        within, suffix = _object_in(of)
        if within and prefix + name != "partitions":
            yield from _fields(defs, _all_properties(defs, within), f"{prefix}{name}{suffix}.")


def _object_in(of: _Schema) -> tuple[str, str]:
    """The definition of the object in a field, and what its name has in a list; empty: none."""
    if of.get("type") == "array":
        return _name(of["items"]), "[]"
    choices = [of, *of.get("anyOf", ())]
    return next(filter(None, map(_name, choices)), ""), ""


def _name(of: _Schema) -> str:
    """The definition that a schema refers to; empty: none."""
    reference: str = of.get("$ref", "")
    return reference.rpartition("/")[2]


def _all_properties(defs: _Schema, name: str) -> dict[str, Any]:
    """The fields of a definition, those that it takes from others first."""
    taken = [_all_properties(defs, _name(base)) for base in defs[name].get("allOf", ())]
    merged: dict[str, Any] = {}
    for properties in (*taken, defs[name]["properties"]):
        merged |= properties
    return merged


def _type(of: _Schema) -> str:
    if "const" in of:
        return f"`{of['const']}`"
    if "anyOf" in of:
        return "object or null"
    found = of.get("type", "object")
    return found if isinstance(found, str) else " or ".join(found)


def _cell(of: _Schema) -> str:
    """The description, and the words that the field may be."""
    words = of.get("enum") or of.get("items", {}).get("enum") or ()
    listed = f" One of {', '.join(f'`{word}`' for word in words)}." if words else ""
    return f"{of['description']}{listed}".replace("|", "\\|")


def _sentence(comment: str) -> str:
    return f"{comment[0].upper()}{comment[1:]}."
