"""Whether a run publishes to its cluster, and how: keywords over the settings.

Publishing is opted into once per cluster, under `[cluster]`, or for one run by an option. Single
topics are taken out by `Rules.publish`.

Rule: PUBLISHING 7.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.verification.canary import CanaryMode
from tierfold.jobs.context.publishing_settings import PublishingSettings
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.brokers.client_settings import ClientSettings

OPTION: Final = "--publish"


def publishing_of(
    given: Mapping[str, Any], settings: Settings, cluster: ClientSettings | None
) -> PublishingSettings:
    """Return how a run publishes to its cluster, if it has one.

    `given`: the keywords `publish`, `canary` and `readers_begin_again`. Raises BadSettings for an
    unknown canary, and if publishing is on and no brokers are named.
    """
    by_option = given.get("publish")
    is_on = settings.cluster.publishes if by_option is None else bool(by_option)
    if is_on and cluster is None:
        raise BadSettings(
            "publishing is on, and no brokers are named",
            where="publish under [cluster]" if by_option is None else OPTION,
            remedy="Name them with --bootstrap-server HOST:PORT or as bootstrap.servers under"
            " [cluster], or add --no-publish.",
        )
    return PublishingSettings(
        is_on=is_on,
        message_timeout_ms=settings.of_run("message_timeout_ms"),
        max_events_per_second=settings.of_run("publish_max_events_per_second"),
        canary=_canary(given.get("canary")),
        readers_begin_again=bool(given.get("readers_begin_again")),
    )


def _canary(given: str | None) -> CanaryMode:
    try:
        return CanaryMode.BORDERS if given is None else CanaryMode(given)
    except ValueError:
        raise BadSettings(
            f"{given!r} is not one of {', '.join(CanaryMode)}",
            where="canary",
            remedy="Leave it out: records around the borders of replaced segments are read.",
        ) from None
