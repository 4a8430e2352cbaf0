"""moto's server, one request at a time: `python -m tests.storage.moto_server PORT`.

By itself moto checks a condition in one step and writes in another, so under load two conditional
puts of one key may both succeed. And for each request it lists the folder of its own services.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto import backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import main

_ONE_AT_A_TIME = threading.Lock()
_SERVICES = tuple(backends.list_of_moto_modules())
_answered = DomainDispatcherApplication.__call__


def _alone(app: DomainDispatcherApplication, environ: Any, start_response: Any) -> Iterable[bytes]:
    with _ONE_AT_A_TIME:
        return list(_answered(app, environ, start_response))


if __name__ == "__main__":
    DomainDispatcherApplication.__call__ = _alone
    backends.list_of_moto_modules = lambda: _SERVICES
    main(["-H", "127.0.0.1", "-p", sys.argv[1]])
