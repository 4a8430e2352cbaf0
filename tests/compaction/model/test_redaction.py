"""Messages hide secrets and contain no terminal control characters."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tierfold.compaction.model.errors import CorruptLog, unexpected
from tierfold.compaction.model.redaction import (
    HIDDEN,
    printable,
    redacted,
    setting_name,
    without_secrets,
)

SECRET = "wJalrXUtnFEMI"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"s3://AKIA:{SECRET}@bucket/tier", "s3://[hidden]@bucket/tier"),
        (f"s3://{SECRET}@bucket", "s3://[hidden]@bucket"),
        (f"s3://AKIA:{SECRET}/and/slashes+@bucket/tier", "s3://[hidden]@bucket/tier"),
        (f"s3:/AKIA:{SECRET}@bucket/tier", "s3:/[hidden]@bucket/tier"),
        (f"https://h/b?sig={SECRET}&se=1", "https://h/b?[hidden]"),
        (f"GET http://h/b?X-Amz-Signature={SECRET} failed", "GET http://h/b?[hidden] failed"),
        (f"http://h/b#{SECRET}", "http://h/b#[hidden]"),
        (f"abfss://box:{SECRET}@a.dfs/x", "abfss://[hidden]@a.dfs/x"),
        (f"abfss://box@a.dfs/x@{SECRET}@", "abfss://[hidden]@"),
        (f"a=s3://b/x,b=s3://k:{SECRET}@z/y", "a=s3://[hidden]@z/y"),
        (f"ssl.key.password={SECRET}", "ssl.key.password=[hidden]"),
        (f"password = '{SECRET} {SECRET}'; x", "password =[hidden]; x"),
        (f'"AWS_SECRET_ACCESS_KEY": "{SECRET}"', '"AWS_SECRET_ACCESS_KEY":[hidden]'),
        (f'S3 {{ secret_access_key: Some("{SECRET}") }}', "S3 { secret_access_key:[hidden]) }"),
        (f"fs.azure.account.key.a.net={SECRET}", "fs.azure.account.key.a.net=[hidden]"),
        (
            f'sasl.jaas.config=x.Plain required username="u" password="{SECRET}";',
            'sasl.jaas.config=[hidden] required username="u" password=[hidden];',
        ),
    ],
)
def test_a_secret_is_hidden_and_the_rest_is_kept(text: str, expected: str) -> None:
    assert redacted(text) == expected


@pytest.mark.parametrize("separator", ["", "-", "_", "."])
@pytest.mark.parametrize("of", ["access", "account", "api", "private", "master", "keystore"])
def test_a_key_is_hidden_however_its_name_is_spelled(of: str, separator: str) -> None:
    assert redacted(f"{of}{separator}key={SECRET}") == f"{of}{separator}key=[hidden]"
    assert redacted(f"X-{of.title()}{separator}Key = '{SECRET}'").endswith("ey =[hidden]")


@pytest.mark.parametrize(
    "text",
    [
        "/mnt/tier/kafka-tiered-storage/a-0-x: it is not there. Bring it back?",
        "s3://bucket/tier/00000000000000000000-x.log",
        "http://[::1]:9000/bucket: refused",
        "abfss://container@account.dfs.core.windows.net/tier",
        "file:///home/me@work/tier",
        "file:///mnt/a@b/c: not there",
        "password-resets-0: the results contradict each other",
        "token: was not found",
        "Did you mean delete.retention.ms?",
        "min.compaction.lag.ms = 5 (--set min.compaction.lag.ms) exceeds max.compaction.lag.ms",
        "offsets 0–22, ≤ 3.1 MB",
    ],
)
def test_text_without_a_secret_is_unchanged(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x9b2Jgone", r"\x9b2Jgone"),
        ("two\nlines\r", r"two\nlines\r"),
        ("right\u202eleft", r"right\u202eleft"),
        ("no UTF-8: \udcff", r"no UTF-8: \udcff"),
        ("größer, 上", "größer, 上"),
    ],
)
def test_terminal_escapes_are_made_visible(text: str, expected: str) -> None:
    assert printable(text) == redacted(text) == expected


PIECES = st.sampled_from([*"s3:/@?#=.a ", "password", "'", '"', HIDDEN])


@given(st.text() | st.lists(PIECES).map("".join))
def test_redacted_text_is_redacted_to_itself(text: str) -> None:
    once = redacted(text)
    assert once.isprintable()
    assert redacted(once) == once


@example(user="/", password="", before="")
@given(
    user=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=5),
    password=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=5),
    before=st.sampled_from(["", "x ", "'", "a=s3://b/c,", "s3://u@h:1/x;"]),
)
def test_no_password_of_a_uri_gets_through(user: str, password: str, before: str) -> None:
    expected = without_secrets(f"{before}s3://{user}:{SECRET}{password}@bucket/x")
    assert SECRET not in expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ssl.keystore.password", "'ssl.keystore.password'"),
        ("min.cleanable.dirty.ration", "'min.cleanable.dirty.ration'"),
        ("listener.name.SASL_SSL.x", "'listener.name.SASL_SSL.x'"),
        ("", "''"),
        (f"org.Plain required {SECRET}", HIDDEN),
        ("C2VjcmV0", HIDDEN),
        ("password\n", HIDDEN),
        ("x" * 99, HIDDEN),
    ],
)
def test_an_unknown_setting_is_named_where_it_has_a_name(name: str, expected: str) -> None:
    assert setting_name(name) == expected


def test_errors_are_safe_to_show_and_stay_so_when_pickled() -> None:
    error = CorruptLog(
        f"a\x1bb, password={SECRET}", where=f"s3://k:{SECRET}@b/\n", remedy=f"s3://x?{SECRET}"
    )
    assert str(error) == r"s3://[hidden]@b/\n: a\x1bb, password=[hidden]. s3://x?[hidden]"
    assert SECRET not in repr(error)
    back = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(back), str(back)) == (CorruptLog, str(error))


def test_a_foreign_exception_is_one_line() -> None:
    expected = unexpected(ValueError(f"two\n\tlines of \x1b s3://k:{SECRET}@b"))
    assert expected == r"unexpected ValueError: two lines of \x1b s3://[hidden]@b"
