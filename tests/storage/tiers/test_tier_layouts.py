"""The layout of a tier: as an option names it, else as the objects show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.storage.emulators import moto, new_bucket
from tierfold.compaction.model.errors import BadSettings
from tierfold.storage.tiers.aiven.aiven_tier import AivenTier
from tierfold.storage.tiers.layout_options import AS_FOUND, KeyFile, Layout, LayoutOptions
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.locations import location_of
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions
from tierfold.storage.tiers.tier_uris import catalog_place, open_tier, tier_place, with_layout

LOCAL = "kafka-tiered-storage/orders-0-EnvZlVwBRBCOjS6Uhrdc6w/x"
AIVEN = "orders-EnvZlVwBRBCOjS6Uhrdc6w/0/x"


class Place:
    """A folder, or a prefix in a bucket, with objects in it."""

    uri: str
    options: StoreOptions

    def put(self, *keys: str) -> None:
        raise NotImplementedError


class _Folder(Place):
    def __init__(self, folder: Path) -> None:
        self.uri, self.options = str(folder), ENVIRONMENT

    def put(self, *keys: str) -> None:
        for key in keys:
            path = Path(self.uri) / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")


class _Bucket(Place):
    def __init__(self) -> None:
        self.uri, self.options = f"s3://{new_bucket(moto())}/t", StoreOptions(endpoint=moto())

    def put(self, *keys: str) -> None:
        tier = open_tier(self.uri, self.options, LayoutOptions(layout=Layout.AIVEN))
        assert isinstance(tier, AivenTier)
        for key in keys:
            tier.store.create(key, b"x")


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path, identity: None) -> Place:
    return _Folder(tmp_path) if request.param == "folder" else _Bucket()


def found(place: Place, options: LayoutOptions = AS_FOUND) -> str:
    tier = open_tier(place.uri, place.options, options)
    tier.check()
    return {LocalTieredStorage: "local", AivenTier: "aiven"}[type(tier)]  # type: ignore[index]


@pytest.mark.parametrize(("key", "layout"), [(LOCAL, "local"), (AIVEN, "aiven")])
def test_the_objects_show_the_layout(place: Place, key: str, layout: str) -> None:
    place.put(key, "other/x", "_tierfold/x", "x-without-an-id/0/x")
    assert found(place) == layout
    known = with_layout(place.uri, place.options, AS_FOUND)
    assert known == LayoutOptions(layout=Layout(layout))
    assert with_layout("s3://nowhere", place.options, known) == known
    (partition,) = open_tier(place.uri, place.options).partitions()
    assert (partition.topic, partition.partition) == ("orders", 0)


def test_both_layouts_need_a_choice(place: Place) -> None:
    place.put(LOCAL, AIVEN)
    with pytest.raises(BadSettings, match="it holds kafka-tiered-storage, and topics") as caught:
        found(place)
    assert "--layout local or --layout aiven" in caught.value.remedy
    assert caught.value.where == place.uri
    for layout in Layout:
        assert found(place, LayoutOptions(layout=layout)) == layout.value


def test_a_place_with_neither_layout_is_no_tier(place: Place) -> None:
    place.put("things/x")
    with pytest.raises(BadSettings, match="no folder kafka-tiered-storage in it, but things"):
        found(place)
    with pytest.raises(BadSettings, match="no topic of Aiven's tiered storage plugin in it, but"):
        found(place, LayoutOptions(layout=Layout.AIVEN))


def test_the_folder_inside_a_local_tier_is_no_tier_of_aiven(tmp_path: Path) -> None:
    inside = tmp_path / "kafka-tiered-storage"
    (inside / f"orders-0-{'A' * 22}").mkdir(parents=True)
    for deep in (inside, *inside.iterdir()):
        with pytest.raises(BadSettings, match="no folder kafka-tiered-storage in it") as caught:
            open_tier(str(deep))
        assert f"the folder that holds kafka-tiered-storage, {tmp_path}: " in caught.value.remedy


@pytest.mark.parametrize(
    "options",
    [
        LayoutOptions(key_prefix="a/"),
        LayoutOptions(key_files=(KeyFile(key_id="k", path="/k"),)),
        LayoutOptions(chunk_bytes=7),
        LayoutOptions(is_compressed=False),
        LayoutOptions(is_encrypted=False),
    ],
)
def test_an_option_that_only_aiven_has_names_the_layout(options: LayoutOptions) -> None:
    known = with_layout("s3://nowhere/t", ENVIRONMENT, options)
    assert known == replace(options, layout=Layout.AIVEN)


@pytest.mark.parametrize("prefix", ["/", "/a", "a//b", "../a", "a/./b", "a b", "ä", "a\n"])
def test_a_key_prefix_that_no_store_can_hold_is_refused(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(BadSettings, match="the key prefix"):
        open_tier(str(tmp_path), layout_options=LayoutOptions(key_prefix=prefix))


def test_key_ids_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    files = (KeyFile(key_id="k", path="/a"), KeyFile(key_id="k", path="/b"))
    with pytest.raises(BadSettings, match="the key id 'k' is empty, has a colon, or is given"):
        open_tier(str(tmp_path), layout_options=LayoutOptions(key_files=files))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    for options in (AS_FOUND, LayoutOptions(layout=Layout.AIVEN)):
        with pytest.raises(BadSettings, match="there is no such folder"):
            open_tier(str(tmp_path / "none"), layout_options=options)


@pytest.mark.parametrize(
    ("uri", "prefix", "catalog"),
    [
        ("/a/tier", "", "/a/tier/_tierfold"),
        ("/a/tier", "cluster-a/tiered/", "/a/tier/cluster-a/tiered/_tierfold"),
        ("s3://bucket", "", "s3://bucket/_tierfold"),
        ("s3://bucket", "cluster-a-", "s3://bucket/cluster-a-_tierfold"),
        ("s3://bucket/t", "cluster-a/", "s3://bucket/t/cluster-a/_tierfold"),
    ],
)
def test_clusters_that_share_a_bucket_have_their_own_catalogs(
    uri: str, prefix: str, catalog: str
) -> None:
    place = location_of(uri, of="tier")
    found = catalog_place(place, LayoutOptions(key_prefix=prefix))
    assert str(found) == catalog
    assert location_of(catalog, of="catalog") == found


@pytest.mark.parametrize(
    ("uri", "prefix", "options", "place"),
    [
        ("s3://bucket/a/", "", StoreOptions(), "s3://bucket/a/"),
        ("s3://bucket", "a/", StoreOptions(), "s3://bucket/a/"),
        ("s3://bucket", "a-", StoreOptions(account="one"), "s3://bucket/a-"),
        ("s3://b-1", "", StoreOptions(endpoint="http://s:1"), "s3://b-1/ at http://s:1"),
        ("s3://b-1", "", StoreOptions(endpoint="HTTP://S:1/"), "s3://b-1/ at http://s:1"),
        ("az://con", "a/", StoreOptions(account="one"), "az://con/a/ at account one"),
        ("/no/such/../folder", "", StoreOptions(), "/no/folder/"),
        ("/no/folder", "a-", StoreOptions(), "/no/folder/a-"),
    ],
)
def test_a_tier_has_one_place_whichever_way_it_is_named(
    uri: str, prefix: str, options: StoreOptions, place: str
) -> None:
    layout = LayoutOptions(key_prefix=prefix)
    assert str(tier_place(location_of(uri, of="tier"), layout, options)) == place


def test_a_second_cluster_is_not_listed(place: Place) -> None:
    place.put(f"a/{AIVEN}", f"b/{AIVEN}", "c-" + AIVEN, "c-b-" + AIVEN)
    for prefix in ("a/", "b/", "c-b-"):
        tier = open_tier(place.uri, place.options, LayoutOptions(key_prefix=prefix))
        assert [key.topic for key in tier.partitions()] == ["orders"]
        (listed,) = [tier.listing(key) for key in tier.partitions()]
        assert listed == ()
