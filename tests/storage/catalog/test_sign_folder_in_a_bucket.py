"""The signs of life in a bucket."""

from __future__ import annotations

import pytest

from tests.storage.catalog.sign_contract import SignContract
from tests.storage.emulators import new_bucket, s3_environment, versitygw
from tierfold.storage.catalog.sign_folder import SignFolder, sign_folder
from tierfold.storage.tiers.locations import location_of
from tierfold.storage.tiers.store_options import ENVIRONMENT


class TestSignsOnVersitygw(SignContract):
    @pytest.fixture
    def signs(self, monkeypatch: pytest.MonkeyPatch) -> SignFolder:
        for name, value in s3_environment(versitygw()).items():
            monkeypatch.setenv(name, value)
        uri = f"s3://{new_bucket(versitygw())}/tier/_tierfold"
        return sign_folder(location_of(uri, of="catalog"), ENVIRONMENT)
