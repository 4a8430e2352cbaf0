"""`--rsm-config` reads the properties of a broker with Aiven's plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.settings.refusals import CANARY, refused
from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.settings.rsm_config import layout_of_properties, read_rsm_config
from tierfold.storage.tiers.layout_options import KeyFile, Layout, LayoutOptions

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "aiven"
ENCRYPTED = """
encryption.enabled=true
encryption.key.pair.id=new
encryption.key.pairs=old, new
encryption.key.pairs.old.private.key.file=/old.pem
encryption.key.pairs.old.public.key.file=/old.pub
encryption.key.pairs.new.public.key.file=/new.pub
"""


def layout(text: str) -> LayoutOptions:
    return layout_of_properties(text, where="f")


def test_the_properties_of_the_samples_brokers_are_read() -> None:
    plain = LayoutOptions(
        layout=Layout.AIVEN, chunk_bytes=131072, is_compressed=False, is_encrypted=False
    )
    assert read_rsm_config(SAMPLES / "plain" / "broker.properties") == plain
    assert read_rsm_config(SAMPLES / "zstd" / "broker.properties") == LayoutOptions(
        layout=Layout.AIVEN,
        key_prefix="cluster-a/tiered/",
        chunk_bytes=131072,
        is_compressed=True,
        is_encrypted=False,
    )
    encrypted = read_rsm_config(SAMPLES / "encrypted" / "broker.properties")
    assert encrypted.is_encrypted
    assert encrypted.key_files == (KeyFile(key_id="key-1", path="KEYS/key-1.private.pem"),)


S3 = "storage.s3.bucket.name=bucket\nchunk.size=7\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (S3, "s3://bucket/"),
        (
            S3 + "key.prefix=a/b-\nstorage.s3.endpoint.url=https://store",
            "s3://bucket/a/b- at https://store",
        ),
        (S3 + "storage.s3.endpoint.url=https://me:pw@store/", "s3://bucket/ at https://store/"),
        (S3 + "storage.azure.account.name=other", "s3://bucket/"),
        ("storage.gcs.bucket.name=bucket\nchunk.size=7", "gs://bucket/"),
        (
            "storage.azure.container.name=c\nstorage.azure.account.name=one\nchunk.size=7",
            "az://c/ at account one",
        ),
        ("storage.root=/no/such\nkey.prefix=a/\nchunk.size=7", "/no/such/a/"),
        ("storage.root=relative\nchunk.size=7", None),
        ("storage.s3.bucket.name=${env:BUCKET}\nchunk.size=7", None),
        ("storage.backend.class=x", None),
    ],
)
def test_the_place_that_brokers_write_to_is_read(text: str, place: str | None) -> None:
    found = layout(text).brokers_place
    assert (None if found is None else str(found)) == place


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("storage.s3.storage.class=STANDARD", "STANDARD"),
        ("storage.s3.storage.class = GLACIER_IR ", "GLACIER_IR"),
        ("storage.s3.storage.class=INTELLIGENT_TIERING", "INTELLIGENT_TIERING"),
        ("storage.s3.storage.class=EXPRESS_ONEZONE", "EXPRESS_ONEZONE"),
        ("storage.s3.storage.class=OUTPOSTS", "OUTPOSTS"),
    ],
)
def test_the_storage_class_is_read(text: str, expected: str | None) -> None:
    assert layout(f"{S3}{text}").storage_class == expected


def test_a_folder_is_named_without_its_links(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    found = layout(f"storage.root={tmp_path / 'link'}\nchunk.size=7").brokers_place
    assert str(found) == f"{tmp_path}/"


def test_the_active_key_comes_first_and_a_public_key_suffices() -> None:
    assert layout(ENCRYPTED).key_files == (
        KeyFile(key_id="new", path="/new.pub"),
        KeyFile(key_id="old", path="/old.pem"),
    )
    assert layout(ENCRYPTED.replace("enabled=true", "enabled=false")).key_files == ()


@pytest.mark.parametrize(
    "text",
    [
        "rsm.config.chunk.size=7\nchunk.size=8\nlog.dirs=/x",
        "remote.log.storage.manager.impl.prefix=mine.\nmine.chunk.size=7\nrsm.config.chunk.size=8",
        "chunk.size=7",
        "chunk.size: 7",
        "chunk.size 7",
        "! a comment\n# chunk.size=8\n  chunk.size = \\\n     7",
        "chunk\\u002esize=7",
        "chunk.size=8\nchunk.size=+7",
        "storage.backend.class=x\nchunk.size=7\r\nkey.prefix.mask=true",
    ],
)
def test_java_properties_with_and_without_the_brokers_prefix(text: str) -> None:
    assert layout(text).chunk_bytes == 7


def test_a_missing_property_has_the_plugins_default() -> None:
    found = layout("storage.backend.class=x")
    assert found == LayoutOptions(layout=Layout.AIVEN, is_compressed=False, is_encrypted=False)


def test_with_the_heuristic_the_manifests_decide() -> None:
    text = "compression.enabled=TRUE\ncompression.heuristic.enabled=true"
    assert layout(text).is_compressed is None
    assert layout(text.replace("TRUE", "false")).is_compressed is False


def test_a_path_with_a_backslash_and_letters_of_other_scripts() -> None:
    text = "chunk.size=1\nkey.prefix=a\\u00e9\\\\b"
    assert layout(text).key_prefix == "aé\\b"
    assert layout("chunk.size=1\nkey.prefix=\xc3\xa9").key_prefix == "Ã©"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("chunk.size=0", "chunk.size cannot be '0'. Give a number of bytes from 1 to 1073741823"),
        ("chunk.size=1073741824", "chunk.size cannot be '1073741824'"),
        ("chunk.size=" + "9" * 5000, "'. Give a number of bytes from 1 to 1073741823"),
        ("chunk.size=4M", "chunk.size cannot be '4M'. Give a number of bytes"),
        ("chunk.size=1_000", "chunk.size cannot be '1_000'. Give a number of bytes"),
        ("chunk.size=\\u0667", "chunk.size cannot be '\u0667'. Give a number of bytes"),
        ("chunk.size=\n", "chunk.size cannot be ''"),
        (
            "chunk.size=7\nstorage.s3.storage.class=STANDARD-IA",
            "storage.s3.storage.class cannot be 'STANDARD-IA'. Give one of STANDARD, STANDARD_IA,",
        ),
        (
            "chunk.size=7\nstorage.s3.storage.class=GLACIER",
            "storage.s3.storage.class cannot be 'GLACIER'. Give a class that is read at once",
        ),
        ("compression.enabled=yes", "compression.enabled cannot be 'yes'. Give true or false"),
        ("chunk.size=1\ncustom.metadata.fields.include=REMOTE_SIZE,X", "Give names of OBJECT_KEY"),
        ("chunk.size=1\nsegment.format=iceberg", "segment.format is not kafka. tierfold reads no"),
        ("chunk.size=${env:A}", "chunk.size is a reference that only the broker can resolve"),
        ("encryption.enabled=true", "encryption.key.pair.id names none of encryption.key.pairs"),
        (
            "encryption.enabled=true\nencryption.key.pair.id=a\nencryption.key.pairs=a",
            "the key pair 'a' has no key file, or a colon in its id. Add encryption.key.pairs.a.",
        ),
        (ENCRYPTED.replace("old", "o\\:d"), "a colon in its id"),
        ("key.prefix=\\u00", "the file has an escape \\u without four"),
        ("log.dirs=/x\nbroker.id=1", "the file has no property of Aiven's plugin"),
        ("remote.log.storage.manager.impl.prefix=x.\nchunk.size=7", "names such as x.chunk.size"),
        (
            "remote.log.storage.manager.class.name=org.x.LocalTieredStorage\nrsm.config.dir=/x",
            "the broker uses the plugin org.x.LocalTieredStorage, not Aiven's",
        ),
    ],
)
def test_a_wrong_value_is_refused(text: str, message: str) -> None:
    secret = f"\nstorage.aws.secret.access.key={CANARY}\nstorage.x.password={CANARY}\n"
    with refused(message, where="f") as caught:
        layout(secret + text)
    assert str(caught.value).count(". ") <= 2


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="cannot be read: No such file or directory"):
        read_rsm_config(tmp_path / "none")
