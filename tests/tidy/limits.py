"""Length limits of files, functions, parameters and lines."""

from __future__ import annotations

import ast
from typing import Final

from tests.tidy.source_tree import Source

FILE_LINES_MOST: Final = 400
FUNCTION_LINES_MOST: Final = 50
PARAMETERS_MOST: Final = 6
LINE_CHARACTERS_MOST: Final = 100


def too_long_file(source: Source) -> list[str]:
    """A file beyond the limit has grown past one idea."""
    lines = len(source.text.splitlines())
    if lines <= FILE_LINES_MOST:
        return []
    return [f"{source.path}: {lines} lines of at most {FILE_LINES_MOST}; split it by idea"]


def functions(source: Source) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, nested ones included."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(source.tree) if isinstance(node, kinds)]


def too_long_functions(source: Source) -> list[str]:
    """From `def` to the last line, docstring included."""
    lengths = {
        node: (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions(source)
    }
    return [
        f"{source.path}:{node.lineno}: {node.name} has {lines} lines of at most "
        f"{FUNCTION_LINES_MOST}; give its steps names"
        for node, lines in lengths.items()
        if lines > FUNCTION_LINES_MOST
    ]


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Names of all parameters but `self` and `cls`."""
    every = node.args
    named = [*every.posonlyargs, *every.args, *every.kwonlyargs]
    rest = [arg for arg in (every.vararg, every.kwarg) if arg is not None]
    return [arg.arg for arg in named + rest if arg.arg not in {"self", "cls"}]


def too_many_parameters(source: Source) -> list[str]:
    """More than six belong together: they are a value that has no name yet."""
    return [
        f"{source.path}:{node.lineno}: {node.name} has {len(parameters(node))} parameters of at "
        f"most {PARAMETERS_MOST}; group what belongs together"
        for node in functions(source)
        if len(parameters(node)) > PARAMETERS_MOST
    ]


def too_long_lines(path: str, text: str) -> list[str]:
    """Two files side by side."""
    return [
        f"{path}:{number}: {len(line)} characters of at most {LINE_CHARACTERS_MOST}"
        for number, line in enumerate(text.splitlines(), start=1)
        if len(line) > LINE_CHARACTERS_MOST
    ]
