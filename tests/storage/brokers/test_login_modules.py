"""`sasl.jaas.config` is read as Java's clients read it, and never repeated."""

from __future__ import annotations

import pytest

from tests.jobs.settings.refusals import CANARY, refused
from tierfold.storage.brokers.login_modules import login_settings

SECURITY = "org.apache.kafka.common.security"
SCRAM = f"{SECURITY}.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("options", "password"),
    [
        ('username="u" password="p";', "p"),
        ("username='u' password='p';", "p"),
        ("username=u password=p ;", "p"),
        ('username = "u"\n  password = "a b=c;d" ;\n', "a b=c;d"),
        (r'username="u" password="q\"\\\'";', "q\"\\'"),
        (r'username="u" password="tab\tq\q";', "tab\tqq"),
        ('username="u" password=";";', ";"),
        ('username="u" password="=";', "="),
        ('username="u" password="";', ""),
    ],
)
def test_a_password_is_read_whatever_it_has_in_it(options: str, password: str) -> None:
    for module in (SCRAM, f"{SECURITY}.plain.PlainLoginModule"):
        found = login_settings(f"{module} required {options}", "f")
        assert found == {"sasl.username": "u", "sasl.password": password}


def test_a_clients_secret_is_read() -> None:
    module = f"{SECURITY}.oauthbearer.OAuthBearerLoginModule"
    found = login_settings(f'{module} Required clientId="i" clientSecret="s" scope="a b";', "f")
    assert found == {
        "sasl.oauthbearer.client.id": "i",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.scope": "a b",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        SCRAM,
        f"{SCRAM} required",
        f'{SCRAM} required username="u" password="{CANARY}"',
        f'{SCRAM} perhaps password="{CANARY}";',
        f'{SCRAM} required password="{CANARY};',
        f'{SCRAM} required password="{CANARY}"; {SCRAM} required;',
        f'{SCRAM} required password "{CANARY}";',
        f'{SCRAM} required password for "{CANARY}";',
        f'{SCRAM} required password="{CANARY}" username',
        f"{SCRAM} required password==;",
        f'{SCRAM} required password=;',
        f'{SCRAM} required password=="{CANARY}";',
        f'{SCRAM} required password="=" "{CANARY}";',
        f'{SCRAM} required {CANARY}="p";',
        f'{SCRAM} required tokenauth="true" password="{CANARY}";',
        f'{SCRAM} required password="{CANARY}\\',
        f'com.example.{CANARY} required password="p";',
    ],
)
def test_another_text_is_refused_without_repeating_it(text: str) -> None:
    with refused("sasl.jaas.config", where="f"):
        login_settings(text, "f")


def test_kerberos_is_refused_with_what_to_do() -> None:
    module = "com.sun.security.auth.module.Krb5LoginModule"
    with refused("asks for Kerberos (GSSAPI), which the client of tierfold is built without. Use"):
        login_settings(f'{module} required useKeyTab=true keyTab="/k" principal="u";', "f")
