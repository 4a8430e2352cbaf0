"""The page about one partition in `compact` names all types that it becomes, in order."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from inspect import isfunction
from typing import Any

import pytest

from scripts import architecture
from scripts.architecture import Step, hints_of, steps, types_in, with_parts
from tests.tidy.source_tree import ROOT
from tierfold.compaction.cleaning.rounds import GroupTask
from tierfold.compaction.discovery.view import PartitionView
from tierfold.jobs import pipeline

TYPES_MAX = 16
"""A reader has to know all of them."""

STEPS = steps()


def test_a_partition_becomes_few_types() -> None:
    assert len(STEPS) <= TYPES_MAX


def out_of_order(in_order: Sequence[Step]) -> list[str]:
    """The functions that take what nothing before them has made."""
    named = {step.made for step in in_order}
    found, parts = [], set[type[Any]]()
    for number, step in enumerate(in_order):
        hints = hints_of(step.maker)
        taken = {one for name in hints if name != "return" for one in types_in(hints[name])}
        is_late = not (taken & named) - {step.made} <= {before.made for before in in_order[:number]}
        if is_late or (number and not taken & parts):
            found.append(step.maker.__name__)
        parts |= with_parts(step.made)
    return found


def test_each_type_is_made_from_those_before_it() -> None:
    assert out_of_order(STEPS) == []
    assert out_of_order([*STEPS[:3], *STEPS[4:]]) == []
    assert out_of_order([*STEPS[:2], STEPS[3], STEPS[2], *STEPS[4:]]) == ["drafted"]
    assert out_of_order(STEPS[:1] + STEPS[7:8]) == ["beginning"]


def test_each_type_has_a_sentence() -> None:
    assert [step.sentence for step in STEPS if not step.sentence.endswith(".")] == []


def test_the_page_names_no_other_type() -> None:
    known = {part.__name__ for step in STEPS for part in with_parts(step.made)}
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`([A-Z]\w+)`", text)) <= known


def missing(named: set[type[Any]]) -> list[str]:
    """Functions of the pipeline that return another type than those, or what they hold."""
    known = {part for one in named for part in with_parts(one)}
    return [
        f"{function.__name__}: {made.__name__}"
        for function in pipeline_functions()
        for made in types_in(hints_of(function).get("return"))
        if made not in known
    ]


def pipeline_functions() -> Iterator[Callable[..., object]]:
    for module in pkgutil.iter_modules(pipeline.__path__, f"{pipeline.__name__}."):
        yield from (
            found
            for found in vars(import_module(module.name)).values()
            if isfunction(found) and found.__module__ == module.name
        )


def test_the_pipeline_returns_no_other_type() -> None:
    assert missing({step.made for step in STEPS}) == []


def test_a_type_that_the_page_lacks_is_found() -> None:
    named = {step.made for step in STEPS}
    assert missing(named - {PartitionView}) == []  # A plan holds it.
    assert "known_partitions: KnownPartition" in missing(named - {STEPS[0].made})
    assert "_joined: GroupTask" in missing(named - {GroupTask})


def test_a_function_that_makes_nothing_new_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    makers = architecture._MAKERS
    monkeypatch.setattr(architecture, "_MAKERS", (*makers[:3], makers[2]))
    with pytest.raises(LookupError, match="facts_of makes no new type"):
        steps()
