"""Which orphans and unfinished uploads this catalog may delete, by who made their ids.

    made by           detached tier   another tier
    this catalog      goes            goes, unless brokers may have been given it
    a broker          goes            stays
    an older tierfold goes            stays: nothing says which catalog's it is
    another catalog   stays           stays: a run of that catalog may still commit it
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeVar

from tierfold.compaction.discovery.listing import IncompleteUpload, ListedSegment
from tierfold.compaction.discovery.metadata_loss import is_known_since
from tierfold.compaction.discovery.phases import Phase, phase_of
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.bindings import Binding, Detached, ServedBy
from tierfold.compaction.model.segment_ids import Maker, maker_of
from tierfold.compaction.model.wording import counted

_Found = TypeVar("_Found", ListedSegment, IncompleteUpload)

_NOT_FOREIGN: Final = frozenset(Maker) - {Maker.ANOTHER_CATALOG}
_OURS: Final = frozenset({Maker.THIS_CATALOG})


def deletable_uploads(
    uploads: Sequence[IncompleteUpload], view: PartitionView, binding: Binding
) -> tuple[IncompleteUpload, ...]:
    """The unfinished uploads that may go; no run gives brokers an upload before it is whole."""
    return _made_by(uploads, view, _NOT_FOREIGN if isinstance(binding, Detached) else _OURS)


def deletable_orphans(view: PartitionView, binding: Binding) -> tuple[ListedSegment, ...]:
    """The orphans that may go.

    Where a cluster serves the tier, its brokers must never have had the orphan: the run that
    wrote it may have given it to them before it died. A metadata topic that was lost says so only
    of what was written after it was named again.
    """
    match binding:
        case Detached():
            return _made_by(view.orphans, view, _NOT_FOREIGN)
        case ServedBy():
            brokers = view.brokers
            return tuple(
                orphan
                for orphan in _made_by(view.orphans, view, _OURS)
                if brokers is not None
                and phase_of(orphan.segment_id, brokers) is Phase.NEVER_NAMED
                and is_known_since(view.state, brokers.metadata_start, orphan.modified_ms)
            )
        case _:
            return _made_by(view.orphans, view, _OURS)


def deletable_set_apart(view: PartitionView, binding: Binding) -> tuple[ListedSegment, ...]:
    """What a person may give up: none on a tier that brokers may serve."""
    if not isinstance(binding, Detached):
        return ()
    given_up = [segment for segment in view.set_apart if segment.segment_id not in view.needed]
    return _made_by(given_up, view, _NOT_FOREIGN)


def named_by_brokers(
    view: PartitionView, binding: Binding, uploads: Sequence[IncompleteUpload]
) -> dict[str, int]:
    """How many orphans and uploads stay because a broker may name them, by what they are."""
    if isinstance(binding, Detached):
        return {"orphaned": 0, "in upload": 0}
    named = _made_by(view.orphans, view, {Maker.BROKER, Maker.THIS_CATALOG})
    return {
        "orphaned": len(named) - len(deletable_orphans(view, binding)),
        "in upload": len(_made_by(uploads, view, {Maker.BROKER})),
    }


def maker_notes(
    view: PartitionView, binding: Binding, uploads: Sequence[IncompleteUpload]
) -> Iterator[str]:
    """What stays because another catalog's run, or an unknown one's, may have written it."""
    older = {Maker.OLDER_TIERFOLD}
    found = [
        counted(len(some), what)
        for what, some in (
            ("orphan", _made_by(view.orphans, view, older)),
            ("unfinished upload", _made_by(uploads, view, older)),
        )
        if some
    ]
    if found and not isinstance(binding, Detached):
        yield (
            f"{' and '.join(found)} of an older tierfold kept: the ids do not say which catalog's"
            " runs wrote them. If no broker serves this tier, set tier.binding=detached"
        )
    foreign = _made_by(uploads, view, {Maker.ANOTHER_CATALOG})
    if foreign:
        yield f"{counted(len(foreign), 'unfinished upload')} kept: another catalog's, by the id"


def _made_by(
    found: Sequence[_Found], view: PartitionView, makers: Collection[Maker]
) -> tuple[_Found, ...]:
    return tuple(one for one in found if maker_of(one.segment_id, view.fingerprint) in makers)
