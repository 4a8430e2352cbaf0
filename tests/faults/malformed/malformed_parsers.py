"""Every parser that gets malformed input, by name."""

from __future__ import annotations

from typing import Final

from tests.faults.malformed.malformed_aiven_parsers import AIVEN_PARSERS
from tests.faults.malformed.malformed_catalog_parsers import CATALOG_PARSERS
from tests.faults.malformed.malformed_events import EVENT_PARSERS
from tests.faults.malformed.malformed_log_parsers import LOG_PARSERS
from tests.faults.malformed.malformed_metadata_parsers import METADATA_PARSERS
from tests.faults.malformed.malformed_outcome import Parser
from tests.faults.malformed.malformed_side_parsers import SIDE_PARSERS
from tests.faults.malformed.malformed_tiers import TIER_PARSERS

_ALL: Final = (
    *LOG_PARSERS,
    *SIDE_PARSERS,
    *CATALOG_PARSERS,
    *TIER_PARSERS,
    *AIVEN_PARSERS,
    *METADATA_PARSERS,
    *EVENT_PARSERS,
)

PARSERS: Final = {parser.name: parser for parser in _ALL}


def inputs_by_parser(inputs: int, parsers: tuple[Parser, ...]) -> dict[str, int]:
    """Divide the inputs among parsers by their shares; every parser gets at least one."""
    shares = sum(parser.share for parser in parsers)
    return {parser.name: max(1, -(-inputs * parser.share // shares)) for parser in parsers}
