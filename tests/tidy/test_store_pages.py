"""The pages of the object stores name every option, variable and price."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Final

import pytest

from tests.tidy.source_tree import ROOT
from tierfold.jobs.settings.store_table import OPTIONS
from tierfold.storage.tiers.store_options import StoreOptions

PAGES: Final = {"s3": "s3.md", "az": "azure.md", "gs": "google_cloud.md"}
each_store = pytest.mark.parametrize("scheme", PAGES)
_ROW: Final = re.compile(r'^\| `"?([a-z.]+)"?` \| (.*?) \|', re.MULTILINE)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_each_option_is_on_a_page() -> None:
    tables = [_ROW.findall(page(name)) for name in ("object_stores.md", *PAGES.values())]
    assert {option for table in tables for option, _ in table} == set(OPTIONS)


@each_store
def test_each_variable_of_a_page_sets_its_option(scheme: str) -> None:
    for option, variables in _ROW.findall(page(PAGES[scheme])):
        field = OPTIONS[option][0]
        for name, _, value in (text.partition("=") for text in re.findall("`(.*?)`", variables)):
            found = StoreOptions().completed(scheme, {name: value or "https://a"})
            assert getattr(found, field) is not None, name


@each_store
def test_the_prices_of_a_page_are_those_that_are_counted(scheme: str) -> None:
    prices = tomllib.loads((ROOT / "conf/request_prices.toml").read_text("utf-8"))[scheme]
    written = re.search(r"([\d.]+) USD for writes.* ([\d.]+) USD for reads", page(PAGES[scheme]))
    assert written is not None
    assert tuple(map(float, written.groups())) == (prices["write"], prices["read"])


@pytest.mark.parametrize("name", PAGES.values())
def test_what_is_to_be_copied_is_json(name: str) -> None:
    for block in re.findall(r"^```json\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL):
        assert json.loads(block)
