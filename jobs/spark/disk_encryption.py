"""Whether a Spark session encrypts what it writes to disks: shuffle files, spills, cached blocks.

They hold keys of records, or whatever a query reads. A tier may be encrypted so that no disk holds
these in plain text. So a run that has a key of such a tier needs a session that encrypts them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tierfold.compaction.model.errors import BadSettings

IO_ENCRYPTION: Final = "spark.io.encryption.enabled"
"""Spark's own setting; it is fixed when the session starts."""


def encrypts_disk(session: SparkSession) -> bool:
    """Return whether the session was started with `IO_ENCRYPTION`.

    A session on a Spark Connect server has the settings with which that server was started.
    """
    if is_remote():
        return session.conf.get(IO_ENCRYPTION, "false") == "true"
    return session.sparkContext.getConf().get(IO_ENCRYPTION) == "true"


def unencrypted_disk() -> BadSettings:
    """Return the error of a run that has a key, in a session that does not encrypt."""
    return BadSettings(
        "a key of an encrypted tier is given, but Spark would write keys of its records to disks in"
        " plain text",
        where=IO_ENCRYPTION,
        remedy=f"Start the session or spark-submit with --conf {IO_ENCRYPTION}=true.",
    )
