"""A layout's options: which source overrides which, and which values are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.jobs.settings.refusals import CANARY, refused
from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.context.key_files import (
    KEYS_VARIABLE,
    with_keys_of_environment,
    with_own_paths,
)
from tierfold.jobs.settings.given_layout import OPTIONS, UNSPECIFIED, GivenLayout
from tierfold.jobs.settings.layers import config_of_toml
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.tiers.layout_options import AS_FOUND, KeyFile, Layout, LayoutOptions

WHERE = {name: f"--{name}" for name in OPTIONS}
BROKER = """
rsm.config.chunk.size=9
rsm.config.key.prefix=of-broker/
rsm.config.encryption.enabled=true
rsm.config.encryption.key.pair.id=a
rsm.config.encryption.key.pairs=a,b
rsm.config.encryption.key.pairs.a.private.key.file=/broker/a
rsm.config.encryption.key.pairs.b.private.key.file=/broker/b
"""


def given(*keys: str, **texts: str) -> GivenLayout:
    return GivenLayout.of({name.replace("_", "."): texts[name] for name in texts}, keys, WHERE)


def files(**paths: str) -> tuple[KeyFile, ...]:
    return tuple(KeyFile(key_id=key_id, path=path) for key_id, path in paths.items())


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(BROKER)
    return path


def test_without_options_the_tier_decides() -> None:
    assert UNSPECIFIED.options() == AS_FOUND
    assert resolve(()).layout == config_of_toml("", where="f").layout == UNSPECIFIED


def test_the_table_has_every_option(tmp_path: Path) -> None:
    table = """
    [layout]
    layout = "aiven"
    "key.prefix" = ""
    "encryption.key" = ["a=/a", "b = /b=c"]
    "rsm.config" = "/server.properties"
    """
    assert all(name in table for name in OPTIONS)
    file = tmp_path / "tierfold.toml"
    file.write_text(table)
    assert resolve((), file).layout == GivenLayout(
        layout=Layout.AIVEN,
        key_prefix="",
        key_files=files(a="/a", b="/b=c"),
        rsm_config=Path("/server.properties"),
    )


def test_the_brokers_file_sets_what_nothing_else_sets(broker: Path) -> None:
    assert given(rsm_config=str(broker)).options() == LayoutOptions(
        layout=Layout.AIVEN,
        key_prefix="of-broker/",
        key_files=files(a="/broker/a", b="/broker/b"),
        chunk_bytes=9,
        is_compressed=False,
        is_encrypted=True,
    )


def test_an_option_overrides_the_table_which_overrides_the_brokers_file(broker: Path) -> None:
    table = given("b=/table/b", "c=/table/c", key_prefix="of-table/", rsm_config=str(broker))
    line = given("c=/line/c", key_prefix="")
    found = line.over(table).options()
    assert found.key_prefix == ""
    assert found.chunk_bytes == 9
    assert found.key_files == files(c="/line/c", b="/table/b", a="/broker/a")
    assert UNSPECIFIED.over(table) == table
    assert UNSPECIFIED.over(given(layout="local")) == given(layout="local")
    other = given(layout="aiven", rsm_config="/none").over(given(layout="local"))
    assert (other.layout, other.rsm_config) == (Layout.AIVEN, Path("/none"))


def test_a_worker_reads_the_keys_of_its_own_machine_and_adds_none() -> None:
    sent = LayoutOptions(key_prefix="p", key_files=files(a="/driver/a", b="/driver/b"))
    here = {KEYS_VARIABLE: " b = /mine/b , c=/mine/c"}
    assert with_own_paths(sent, {}) == with_own_paths(sent, {KEYS_VARIABLE: ""}) == sent
    expected = LayoutOptions(key_prefix="p", key_files=files(a="/driver/a", b="/mine/b"))
    assert with_own_paths(sent, here) == expected


def test_the_driver_adds_the_keys_of_its_environment() -> None:
    given_here = LayoutOptions(key_files=files(a="/driver/a", b="/driver/b"))
    here = {KEYS_VARIABLE: "c=/mine/c,b=/mine/b"}
    expected = LayoutOptions(key_files=files(a="/driver/a", b="/mine/b", c="/mine/c"))
    assert with_keys_of_environment(given_here, here) == expected
    assert with_keys_of_environment(AS_FOUND, {}) == AS_FOUND


@pytest.mark.parametrize("text", ["a", "a=/1,", "a=/1,a=/2", f"a=-----BEGIN PRIVATE KEY-{CANARY}"])
def test_a_wrong_variable_is_refused(text: str) -> None:
    with refused("", where=KEYS_VARIABLE):
        with_own_paths(AS_FOUND, {KEYS_VARIABLE: text})


@pytest.mark.parametrize(
    ("texts", "keys", "message"),
    [
        ({"layout": "s3"}, (), "--layout: there is no layout 's3'. Known are local and aiven"),
        ({"key.prefix": "/a"}, (), "--key.prefix: the key prefix '/a' cannot be used"),
        ({"key.prefix": "a/../b"}, (), "the key prefix 'a/../b' cannot be used"),
        ({"key.prefix": "a/.."}, (), "cannot be used"),
        ({"key.prefix": "a//b"}, (), "cannot be used"),
        ({"key.prefix": "a b"}, (), "cannot be used"),
        ({}, ("key-1",), "--encryption.key: a key is not written as ID=FILE"),
        ({}, ("=/file",), "a key is not written as ID=FILE"),
        ({}, ("a=",), "a key is not written as ID=FILE"),
        ({}, ("a:b=/file",), "An id has no colon"),
        ({}, (f"a=-----BEGIN PRIVATE KEY-----{CANARY}",), "the path of a file with the key"),
        ({}, ("a=/1", "a=/2"), "the key 'a' has two files. Name each id once"),
    ],
)
def test_a_wrong_option_is_refused(
    texts: Mapping[str, str], keys: tuple[str, ...], message: str
) -> None:
    with refused(message):
        GivenLayout.of(texts, keys, WHERE)


@pytest.mark.parametrize("prefix", ["", "a", "a/", "cluster-a/tiered/", "..a/b..", "a.b/=@~,+_-"])
def test_a_prefix_is_kept_as_given(prefix: str) -> None:
    assert given(key_prefix=prefix).options().key_prefix == prefix


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layout = 1", "layout has a value that is not allowed. Give a string"),
        ('layout = ""', "layout has a value that is not allowed"),
        (f'"encryption.key" = "a={CANARY}"', "Give a list of strings, such as"),
        (f'"encryption.key" = [{{a = "{CANARY}"}}]', "Give a list of strings"),
        (f'"private.key" = "{CANARY}"', "there is no option 'private.key'. Known are layout, key"),
        (f'"x {CANARY}" = 1', "there is no option [hidden]"),
    ],
)
def test_a_wrong_table_is_refused(text: str, message: str) -> None:
    with refused(message, where="f.toml [layout]"):
        config_of_toml(f"[layout]\n{text}\n", where="f.toml")


def test_local_tiered_storage_has_no_options_of_aiven(broker: Path) -> None:
    assert given(layout="local").options() == LayoutOptions(layout=Layout.LOCAL)
    both = given("a=/a", layout="local", key_prefix="p", rsm_config=str(broker))
    with pytest.raises(BadSettings, match=r"has no key prefix and no encryption key and no rsm"):
        both.options()


def test_a_brokers_prefix_is_checked_too(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("chunk.size=1\nkey.prefix=/a")
    with pytest.raises(BadSettings, match=r"f key\.prefix: the key prefix '/a' cannot be used"):
        given(rsm_config=str(file)).options()


def test_the_brokers_file_of_a_local_layout_is_not_read() -> None:
    with pytest.raises(BadSettings, match=r"the layout local has no rsm\.config"):
        given(layout="local", rsm_config="/none").options()
