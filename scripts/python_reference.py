"""Generates the reference of the Python API from its docstrings."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import tierfold
from scripts.reference_tables import table
from tierfold.jobs.api import keywords
from tierfold.jobs.reports.result import Result

_EXAMPLE: Final = ">>> "


def calls() -> str:
    """Return a section for each function: how it is called, and its docstring."""
    found = (getattr(tierfold, name) for name in tierfold.__all__)
    return "\n".join(_section(one) for one in found if not isinstance(one, type))


def keyword_arguments() -> str:
    """Return the table of the keyword arguments, each with the functions that take it."""
    takers = _takers()
    rows: dict[str, tuple[str, str, str, str]] = {}
    for kind in (one for one in vars(keywords).values() if _is_own(one)):
        for name, type_text, doc in _documented(kind):
            if not doc.startswith("As of "):
                taken = ", ".join(f"`{taker}`" for taker in takers[name])
                taken = taken if len(takers[name]) < len(takers["tier"]) - 1 else "all"
                rows.setdefault(name, (f"`{name}`", f"`{_in_cell(type_text)}`", doc, taken))
    return table(("keyword", "type", "what it does", "taken by"), rows.values())


def result() -> str:
    """Return the table of what every result has."""
    rows = [(f"`{name}`", doc) for name, _, doc in _documented(Result)]
    for name, member in vars(Result).items():
        if not name.startswith("_") and not isinstance(member, str):
            doc = inspect.getdoc(member)
            if isinstance(member, property) and doc:
                rows.append((f"`{name}`", _one_line(doc)))
            elif inspect.isfunction(member) and name in {"to_dict", "to_pandas"} and doc:
                rows.append((f"`{name}()`", _one_line(doc)))
    return table(("attribute", "what it is"), rows)


def _section(function: Any) -> str:  # noqa: ANN401 - a function of any signature
    plain = inspect.unwrap(function)
    words, text = [], inspect.getdoc(plain) or ""
    for one in inspect.signature(plain).parameters.values():
        if one.kind is one.VAR_KEYWORD:
            words.append("**keywords")
        else:
            words.append(f"{one.name}=…" if one.default is not one.empty else one.name)
    prose, _, example = text.partition(_EXAMPLE)
    code = f"{_EXAMPLE}{example}".replace(_EXAMPLE, "")
    call = f"tierfold.{function.__name__}({', '.join(words)})"
    return f"### `{call}`\n\n{prose.strip()}\n\n```python\nimport tierfold\n\n{code}\n```\n"


def _takers() -> dict[str, list[str]]:
    """The names of the functions that take each keyword."""
    found: dict[str, list[str]] = {}
    for name in tierfold.__all__:
        function = getattr(tierfold, name)
        if not isinstance(function, type):
            for keyword in inspect.signature(function).parameters:
                found.setdefault(keyword, []).append(name)
    return found


def _is_own(value: object) -> bool:
    return isinstance(value, type) and value.__module__ == keywords.__name__


def _documented(kind: type) -> Iterator[tuple[str, str, str]]:
    """Each annotated name of a class with its type and the text below it, as they are written."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            text = ast.literal_eval(below.value)
            yield ast.unparse(field.target), ast.unparse(field.annotation), _one_line(text)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")
