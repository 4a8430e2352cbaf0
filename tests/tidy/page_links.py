"""Checks the links, anchors and commands of a page, and finds its Python."""

from __future__ import annotations

import ast
import re
import shlex
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from scripts.transcripts import console_blocks
from tierfold.jobs.cli.commands import tierfold


def broken_links(page: Path) -> list[str]:
    """Links of a page to a file or a heading that does not exist."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        file = page.parent / target if target else page
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        if not file.exists() or (anchor and anchor not in anchors(file.read_text("utf-8"))):
            broken.append(f"{page.name}: {link} leads nowhere")
    return broken


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub forms them."""
    prose = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def missing_pages(path: str, text: str) -> list[str]:
    """Pages that a text names by their path below the repository, and that do not exist."""
    root = Path(__file__).resolve().parents[2]
    named = sorted(set(re.findall(r"\bdocs/[\w./-]+\.(?:md|svg)\b", text)))
    return [f"{path}: there is no {name}" for name in named if not (root / name).exists()]


def wrong_commands(page: str) -> list[str]:
    """`tierfold` commands of a page that the command line would refuse."""
    commands = [step.command for block in console_blocks(page) for step in block]
    refused = []
    for command in commands:
        words = shlex.split(command.removeprefix("$ ").partition(" | ")[0], comments=True)
        if words[:1] != ["tierfold"]:
            continue
        try:
            tierfold.commands[words[1]].make_context(words[1], words[2:])
        except (KeyError, click.UsageError) as error:
            refused.append(f"{command.strip()}: {error}")
    return refused


def python_blocks(page: str) -> list[str]:
    """The Python code of a page."""
    return re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def wrong_imports(page: str) -> list[str]:
    """Names that the Python code of a page imports and that do not exist."""
    imports = [
        (node.module or "", alias.name)
        for block in python_blocks(page)
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    return [
        f"{module}.{name}"
        for module, name in imports
        if find_spec(module) is None or not hasattr(import_module(module), name)
    ]
