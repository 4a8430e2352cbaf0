"""Finds what the messages tell a person to do, and which test does it.

A remedy is what `remedy=` gets, as far as the source says it: the texts of an expression, and of
what it names (a constant, a variable of the function, what a function returns). Where a table
has causes and their remedies, the last text of each row counts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tests.tidy.source_tree import Source

TABLES: Final = ("Cause", "Failure", "_CAUSES")
"""Classes and constants whose rows end with a remedy."""

PART: Final = "…"
"""Stands for what a message fills in."""

_WORDS_MIN: Final = 2
_DEPTH_MAX: Final = 3


def listed(text: str) -> dict[str, str]:
    """What carries out each remedy: the beginnings of remedies, and the section of each.

    A section begins with `[a test file]`, or with `[why no test does it]`; `#` begins a comment.
    """
    found: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line[1:].partition("]")[0]
        elif line.strip() and not line.startswith("#"):
            assert line not in found, f"listed twice: {line}"
            found[line] = section
    return found


def beginning_of(remedy: str, beginnings: Iterable[str]) -> str | None:
    """The longest of the beginnings that the remedy has; None: it has none."""
    return max(filter(remedy.startswith, beginnings), key=len, default=None)


def remedies(sources: Iterable[Source]) -> dict[str, str]:
    """All remedies, and the path of a module that has each."""
    sources = tuple(sources)
    shared = _meanings(node for source in sources for node in source.tree.body)
    found: dict[str, str] = {}
    for source in sources:
        texts = _Texts(own=_meanings(ast.walk(source.tree)), shared=shared)
        for value in _values(source.tree):
            for text in texts.of(value):
                if _is_sentence(text):
                    found.setdefault(text, source.path)
    return found


def _meanings(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """What each name can stand for: a variable's values, what a function returns."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name) | ast.Tuple(elts=[*_, ast.Name(id=name)])]):
                found.setdefault(name, []).append(node.value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.setdefault(name, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                found.setdefault(name, []).append(value)
            case ast.FunctionDef(name=name):
                given = ast.Return | ast.Yield
                returns = (one for one in ast.walk(node) if isinstance(one, given))
                found.setdefault(name, []).extend(one.value for one in returns if one.value)
    return found


def _values(tree: ast.AST) -> Iterator[ast.expr]:
    """Each expression that is a remedy."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="remedy", value=value):
                yield value
            case ast.Assign(targets=[ast.Name(id="remedy")], value=value):
                yield value
            case ast.FunctionDef(args=ast.arguments(args=[*_, ast.arg(arg="remedy")])):
                yield from node.args.defaults[-1:]
                yield from _last_arguments(tree, node)
            case ast.ClassDef(name=name) if name in TABLES:
                yield from _last_of_rows(node)
            case ast.AnnAssign(target=ast.Name(id=name)) if name in TABLES:
                yield from _last_of_rows(node)


def _last_arguments(tree: ast.AST, function: ast.FunctionDef) -> Iterator[ast.expr]:
    """What calls give a function whose last parameter is a remedy."""
    count = len(function.args.args)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=function.name), args=args) if len(args) == count:
                yield args[-1]


def _last_of_rows(table: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(table):
        if isinstance(node, ast.Tuple) and isinstance(node.elts[-1], ast.Constant | ast.JoinedStr):
            yield node.elts[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Texts:
    """The texts of expressions, by what the names stand for: in the module, and in all modules."""

    own: Mapping[str, list[ast.expr]]
    shared: Mapping[str, list[ast.expr]]

    def of(self, node: ast.AST, depth: int = 0) -> Iterator[str]:
        """The texts that the expression can be made of."""
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=parts):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else PART for part in parts
                )
                for part in parts:
                    match part:
                        case ast.FormattedValue(value=ast.Name() as filled_in):
                            yield from self.of(filled_in, depth)
                        case ast.FormattedValue(value=ast.Call(func=ast.Name() as filled_in)):
                            yield from self.of(filled_in, depth)
            case (
                ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name)
            ) if depth < _DEPTH_MAX:
                for value in self.own.get(name) or self.shared.get(name, ()):
                    yield from self.of(value, depth + 1)
            case ast.Call(func=ast.Name() as function):
                yield from self.of(function, depth)
            case (
                ast.IfExp()
                | ast.BinOp()
                | ast.Subscript()
                | ast.Dict()
                | ast.Tuple()
                | ast.List()
                | ast.Attribute()
                | ast.Call()
            ):
                for child in ast.iter_child_nodes(node):
                    yield from self.of(child, depth)


def _is_sentence(text: str) -> bool:
    """Whether it says what to do, and is no name, separator or half of a sentence."""
    begins = text.lstrip(f"{PART} ")
    is_one = begins[:1].isupper() or begins.startswith(("`", "tierfold ", "docs/", "index.", "1. "))
    return is_one and len(text.split()) > _WORDS_MIN
