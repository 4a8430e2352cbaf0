"""Length limits of files, functions, parameters and lines."""

from __future__ import annotations

import ast
from typing import Final

from tests.tidy.source_tree import Source

FILE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 50
PARAMETERS_MAX: Final = 6
LINE_CHARACTERS_MAX: Final = 100


def too_long_file(source: Source) -> list[str]:
    """The file, if it has too many lines."""
    lines = len(source.text.splitlines())
    if lines <= FILE_LINES_MAX:
        return []
    return [f"{source.path}: {lines} lines of at most {FILE_LINES_MAX}; split it"]


def too_long_functions(source: Source) -> list[str]:
    """Functions with too many lines, from `def` to the last one, docstring included."""
    lengths = {
        node: (node.end_lineno or node.lineno) - node.lineno + 1 for node in _functions(source)
    }
    return [
        f"{source.path}:{node.lineno}: {node.name} has {lines} lines of at most "
        f"{FUNCTION_LINES_MAX}; give its steps names"
        for node, lines in lengths.items()
        if lines > FUNCTION_LINES_MAX
    ]


def too_many_parameters(source: Source) -> list[str]:
    """Functions with too many parameters, `self` and `cls` not counted."""
    counts = {node: _parameters(node.args) for node in _functions(source)}
    return [
        f"{source.path}:{node.lineno}: {node.name} has {count} parameters of at most "
        f"{PARAMETERS_MAX}; group those that belong together"
        for node, count in counts.items()
        if count > PARAMETERS_MAX
    ]


def too_long_lines(path: str, text: str) -> list[str]:
    """Lines with too many characters."""
    return [
        f"{path}:{number}: {len(line)} characters of at most {LINE_CHARACTERS_MAX}"
        for number, line in enumerate(text.splitlines(), start=1)
        if len(line) > LINE_CHARACTERS_MAX
    ]


def _functions(source: Source) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(source.tree) if isinstance(node, kinds)]


def _parameters(of: ast.arguments) -> int:
    named = [*of.posonlyargs, *of.args, *of.kwonlyargs, of.vararg, of.kwarg]
    return sum(arg is not None and arg.arg not in {"self", "cls"} for arg in named)
