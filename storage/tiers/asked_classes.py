"""Asks Azure and Google Cloud for the storage classes of objects, which no listing shows.

obstore leaves the class out of everything that it returns, but it signs URLs. So an object's class
costs one HEAD by a signed URL, which is valid for minutes and never shown. Signing needs a key of
the account, or the right to have one made; without it, classes stay unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.error import HTTPError

from tierfold.storage.tiers.object_store import ObjectStore
from tierfold.storage.tiers.store_errors import RequestFailedError

_THREADS: Final = 4
_MISSING: Final = 404


class AskedClasses:
    """The storage classes that a run has asked for; threads share it."""

    def __init__(self, store: ObjectStore, scheme: str) -> None:
        self._store = store if scheme in {"az", "gs"} else None
        """None: its listing shows classes, or it has none."""
        self._found: dict[str, str] = {}
        self.refusal = ""
        """Why classes are unknown, a clause; empty: they are known, or nothing was asked."""

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        """By key, the class of each object, empty for the usual one; unknown ones are left out.

        Nothing is asked of a store whose listing shows classes, nor again after a refusal.
        """
        if self._store is None:
            return {}
        wanted = [key for key in keys if key not in self._found]
        store = self._store
        with ThreadPoolExecutor(_THREADS) as pool:
            answers = pool.map(lambda key: self._ask(store, key), wanted)
            for key, found in zip(wanted, answers, strict=True):
                if found is not None:
                    self._found[key] = found
        return {key: self._found[key] for key in keys if key in self._found}

    def _ask(self, store: ObjectStore, key: str) -> str | None:
        # Imports obstore's clients, which most verbs do without.
        from tierfold.storage.tiers.signed_heads import class_of  # noqa: PLC0415

        if self.refusal:
            return None
        try:
            return class_of(store, key)
        except RequestFailedError as failed:
            what, _ = failed.failure.cause.value
            self.refusal = f"the credentials cannot sign a request ({what})"
        except HTTPError as error:
            error.close()
            if error.code != _MISSING:
                self.refusal = f"the store answers {error.code} to a signed request"
        except OSError:
            self.refusal = "a signed request gets no answer"
        return None
