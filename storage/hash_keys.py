"""Draws the secret with which a run hashes record keys."""

from __future__ import annotations

import uuid

from tierfold.compaction.model.hash_key import HashKey


def new_hash_key() -> HashKey:
    """A new one, of 122 random bits from the operating system."""
    return HashKey(*divmod(uuid.uuid4().int, 2**64))
