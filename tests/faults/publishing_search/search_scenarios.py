"""The scenarios, by name: each small enough that a search soon reaches what is particular to it."""

from __future__ import annotations

from typing import Final

from tests.faults.publishing_search.search_state import Loss, Scenario, Tombstones, Window

_TWO_EPOCHS: Final = ((0, 0), (2, 2))
_WIDE: Final = ((0, 1), (2, 3))

THREE_EVENTS: Final = 350

SCENARIOS: Final = {
    # Runs that take over from each other, sends that are late or repeated.
    "one run": Scenario(runs="A", one_group="A"),
    "two runs": Scenario(runs="AB", one_group="AB", repeats=1),
    "groups one by one": Scenario(runs="AB"),
    "a group of all and then each alone": Scenario(runs="AB", one_group="A", repeats=1),
    "two rounds that spare tombstones": Scenario(
        runs="AB", one_group="B", plans=2, offsets=6, segments=((0, 1), (2, 3), (4, 5)), margin=0,
        tombstones=Tombstones.STAY_A_PASS,
    ),
    "two rounds": Scenario(
        runs="AB", one_group="B", plans=2, offsets=6, segments=((0, 1), (2, 3), (4, 5))
    ),
    "rows read early": Scenario(runs="AB", one_group="AB", slow_looks=True),
    "rows of an overlap read early": Scenario(
        runs="AB", one_group="AB", offsets=5, uploads=((2, 4),), plans=2, slow_looks=True,
        window=Window.NEXT_LOOK,
    ),
    # A consumer that pauses.
    "a reader that pauses": Scenario(
        runs="A", one_group="A", has_reader=True, tombstones=Tombstones.STAY
    ),
    "a reader that pauses and two runs": Scenario(
        runs="AB", has_reader=True, tombstones=Tombstones.STAY
    ),
    "a reader that pauses and a vacuum": Scenario(
        runs="AV", one_group="A", margin=0, segments=_WIDE, has_reader=True, passes_time=True,
        tombstones=Tombstones.STAY,
    ),
    "a reader that pauses and an overlap": Scenario(
        runs="A", one_group="A", segments=((0, 1), (2, 2), (3, 3)), offsets=5, uploads=((2, 4),),
        plans=2, has_reader=True, tombstones=Tombstones.STAY, window=Window.NEXT_LOOK,
    ),
    "a reader that pauses and cuts": Scenario(
        runs="A", one_group="A", margin=0, segments=((0, 4), (5, 5)), offsets=6, cuts=(1,),
        has_reader=True, tombstones=Tombstones.STAY,
    ),
    # An earlier state is restored.
    "a restore": Scenario(runs="AZ", margin=0, offsets=2, segments=((0, 0), (1, 1))),
    "a restore of four groups": Scenario(runs="AZ", margin=0),
    "a restore of one group": Scenario(runs="AZ", one_group="A", repeats=1),
    "a restore that another run completes": Scenario(runs="AZB", one_group="B"),
    "a restore and two brokers": Scenario(
        runs="AZ", one_group="A", margin=0, segments=_WIDE, has_second_broker=True
    ),
    "a restore and a reader that pauses": Scenario(
        runs="AZ", margin=0, segments=_WIDE, has_reader=True, tombstones=Tombstones.STAY
    ),
    "a restore and a vacuum": Scenario(
        runs="AZV", one_group="A", margin=0, segments=_WIDE, passes_time=True
    ),
    "a restore in batches of few events": Scenario(
        runs="AZ", margin=0, batch_bytes_max=THREE_EVENTS
    ),
    "a restore in two epochs": Scenario(
        runs="AZ", one_group="A", margin=0, lineage=_TWO_EPOCHS
    ),
    "a restore of sources that were cut": Scenario(
        runs="AZ", one_group="A", margin=0, offsets=7, segments=((0, 4), (5, 6)), cuts=(4,),
        plans=2, tombstones=Tombstones.STAY_A_PASS,
    ),
    "a restore beside an overlap": Scenario(
        runs="AZ", margin=0, segments=_WIDE, offsets=5, uploads=((3, 4),), plans=3,
        window=Window.NEXT_LOOK,
    ),
    # The metadata topic is lost, once, and a rebuild names all again.
    "lost metadata": Scenario(runs="AM", one_group="A", loss=Loss.TRUNCATED),
    "lost metadata and two rebuilds": Scenario(
        runs="AMM", one_group="A", segments=_WIDE, margin=0, repeats=1, loss=Loss.TRUNCATED
    ),
    "lost metadata between groups": Scenario(runs="AM", margin=0, loss=Loss.TRUNCATED),
    "lost metadata and a source that is cut": Scenario(
        runs="AM", margin=0, segments=((0, 3),), cuts=(2,), loss=Loss.TRUNCATED
    ),
    "lost metadata and two brokers": Scenario(
        runs="AM", one_group="A", margin=0, segments=_WIDE, has_second_broker=True,
        loss=Loss.TRUNCATED,
    ),
    "lost metadata and a vacuum": Scenario(
        runs="AVM", ended=1, one_group="A", margin=0, segments=_WIDE, passes_time=True,
        loss=Loss.TRUNCATED,
    ),
    "lost metadata and a restore": Scenario(
        runs="AZM", ended=1, margin=0, offsets=2, segments=((0, 0), (1, 1)), loss=Loss.TRUNCATED
    ),
    "lost metadata and an upload": Scenario(
        runs="AM", one_group="A", offsets=5, uploads=((4, 4),), loss=Loss.TRUNCATED
    ),
    "lost metadata and an overlap": Scenario(
        runs="AM", one_group="A", offsets=5, uploads=((2, 4),), plans=2, loss=Loss.TRUNCATED,
        window=Window.NEXT_LOOK,
    ),
    "lost metadata and an upload within another": Scenario(
        runs="AM", one_group="A", margin=0, segments=((1, 1), (0, 2), (3, 3)), loss=Loss.TRUNCATED
    ),
    "lost metadata and a log start": Scenario(
        runs="AM", one_group="A", segments=_WIDE, margin=0, log_starts=(1, 2), loss=Loss.TRUNCATED
    ),
    "lost metadata in two epochs": Scenario(
        runs="AM", one_group="A", margin=0, lineage=_TWO_EPOCHS, loss=Loss.TRUNCATED
    ),
    "lost metadata and batches of few events": Scenario(
        runs="AM", one_group="A", batch_bytes_max=THREE_EVENTS, loss=Loss.TRUNCATED
    ),
    "lost metadata and a restart without copying": Scenario(
        runs="AMB", one_group="AB", segments=_WIDE, margin=0, loss=Loss.TRUNCATED,
        stops_copying=True,
    ),
    "a metadata topic that is created again": Scenario(
        runs="AMB", one_group="A", loss=Loss.CREATED_AGAIN
    ),
    "a topic that is created again, without copying": Scenario(
        runs="AMB", one_group="A", loss=Loss.CREATED_AGAIN, stops_copying=True
    ),
    # The third send.
    "vacuum": Scenario(runs="AV", one_group="A", passes_time=True),
    "two runs and a vacuum": Scenario(runs="ABV", one_group="AB", passes_time=True),
    "a vacuum that reads its row early": Scenario(
        runs="AV", one_group="A", passes_time=True, slow_looks=True
    ),
    "two vacuums": Scenario(runs="AVV", one_group="A", passes_time=True),
    "a vacuum and repeated sends": Scenario(
        runs="AV", one_group="A", passes_time=True, repeats=1
    ),
    "no margin and a vacuum": Scenario(
        runs="AV", one_group="A", margin=0, segments=((0, 1), (2, 2), (3, 3)), passes_time=True
    ),
    # Several replacements of one group; sources that are cut.
    "a source cut in two": Scenario(
        runs="AB", margin=0, segments=((0, 3),), cuts=(2,), repeats=1
    ),
    "a source cut in three": Scenario(
        runs="AB", segments=((0, 3), (4, 4), (5, 5)), offsets=6, cuts=(1, 3), repeats=1
    ),
    "three sources and two replacements": Scenario(
        runs="AB", one_group="AB", segments=((0, 1), (2, 3), (4, 4), (5, 5)), offsets=6, cuts=(3,)
    ),
    "cuts where segments begin": Scenario(runs="AB", one_group="AB", margin=0, cuts=(2,)),
    "cuts in two epochs": Scenario(
        runs="AB", one_group="A", margin=0, segments=_WIDE, lineage=((0, 0), (2, 1)), cuts=(1, 3)
    ),
    "a tombstone behind a source that is cut": Scenario(
        runs="A", one_group="A", margin=0, segments=((0, 4), (5, 5)), offsets=6, cuts=(1,),
        plans=2, tombstones=Tombstones.STAY_A_PASS,
    ),
    "a cut where an epoch begins": Scenario(
        runs="A", one_group="A", margin=0, segments=((0, 3),), lineage=_TWO_EPOCHS, cuts=(2,)
    ),
    # Two brokers that have read the topic to different places.
    "two brokers": Scenario(runs="A", one_group="A", has_second_broker=True),
    "two brokers and a vacuum": Scenario(
        runs="AV", one_group="A", margin=0, segments=_WIDE, has_second_broker=True,
        passes_time=True,
    ),
    "two brokers and a log start": Scenario(
        runs="A", one_group="A", segments=_WIDE, margin=0, log_starts=(1, 2),
        has_second_broker=True,
    ),
    "two brokers and an overlap": Scenario(
        runs="A", one_group="A", margin=0, segments=_WIDE, offsets=5, uploads=((1, 4),),
        plans=3, has_second_broker=True, window=Window.NEXT_LOOK,
    ),
    # DeleteRecords.
    "log start": Scenario(runs="A", one_group="A", log_starts=(1, 2, 3, 4)),
    "log start within a source": Scenario(
        runs="AB", one_group="AB", segments=_WIDE, margin=0, log_starts=(1,)
    ),
    "log start and a vacuum": Scenario(
        runs="AV", one_group="A", log_starts=(2,), passes_time=True
    ),
    "log start and cuts": Scenario(
        runs="A", one_group="A", segments=_WIDE, margin=0, cuts=(1,), log_starts=(1, 2)
    ),
    # Two leader epochs.
    "two epochs": Scenario(runs="AB", one_group="AB", lineage=((0, 0), (2, 1)), repeats=1),
    "two epochs and a vacuum": Scenario(
        runs="AV", one_group="A", margin=0, lineage=_TWO_EPOCHS, passes_time=True
    ),
    "an epoch in the middle of a segment": Scenario(
        runs="AB", one_group="A", margin=0, segments=((0, 0), (1, 2), (3, 3)), lineage=_TWO_EPOCHS,
        repeats=1,
    ),
    "an epoch without records": Scenario(
        runs="AB", one_group="A", margin=0, segments=((0, 0), (1, 2), (3, 3)),
        lineage=((0, 0), (1, 2), (2, 2)), repeats=1,
    ),
    # Uploads of a new leader that overlap, finished or never; next to it plain ones.
    "an upload": Scenario(runs="AB", one_group="A", offsets=5, uploads=((4, 4),)),
    "an overlap": Scenario(
        runs="AB", one_group="AB", offsets=5, uploads=((2, 4),), plans=2, window=Window.NEXT_LOOK
    ),
    "an overlap within the margin": Scenario(
        runs="AB", one_group="B", margin=2, offsets=5, uploads=((3, 4),), plans=2
    ),
    "an overlap of a whole group": Scenario(
        runs="A", one_group="A", margin=0, offsets=5, uploads=((0, 4),), plans=3,
        window=Window.NEXT_LOOK,
    ),
    "an overlap and a vacuum": Scenario(
        runs="AV", one_group="A", segments=((0, 1), (2, 2), (3, 3)), offsets=5, uploads=((1, 4),),
        plans=2, passes_time=True, window=Window.NEXT_LOOK,
    ),
    "an overlap in two epochs": Scenario(
        runs="AB", one_group="AB", offsets=5, lineage=_TWO_EPOCHS, uploads=((2, 4),), plans=2,
        window=Window.NEXT_LOOK,
    ),
    "an overlap with a new epoch": Scenario(
        runs="AB", one_group="A", offsets=5, lineage=((0, 0), (1, 4)), uploads=((2, 4),), plans=2,
        window=Window.NEXT_LOOK,
    ),
    "an overlap in three epochs": Scenario(
        runs="A", one_group="A", margin=0, segments=((0, 1), (2, 2), (3, 3)), offsets=5,
        lineage=((0, 0), (1, 1), (2, 3)), uploads=((1, 4),), plans=3, window=Window.NEXT_LOOK,
    ),
    "an overlap and cuts": Scenario(
        runs="A", one_group="A", segments=_WIDE, margin=0, offsets=5, uploads=((1, 4),), cuts=(2,),
        plans=3, window=Window.NEXT_LOOK,
    ),
    "an overlap and a log start": Scenario(
        runs="A", one_group="A", offsets=5, uploads=((2, 4),), log_starts=(1, 3), plans=2,
        window=Window.NEXT_LOOK,
    ),
    "two overlaps": Scenario(
        runs="A", offsets=6, uploads=((2, 4), (3, 5)), plans=2, window=Window.NEXT_LOOK
    ),
    "two overlaps in two epochs": Scenario(
        runs="AB", one_group="AB", offsets=6, lineage=_TWO_EPOCHS, uploads=((2, 4), (4, 5)),
        plans=2, window=Window.NEXT_LOOK,
    ),
    "a given up upload is finished": Scenario(
        runs="A", one_group="A", begun_uploads=((1, 1),), passes_time=True, plans=2,
        window=Window.NEXT_LOOK,
    ),
    "a given up upload beside one at work": Scenario(
        runs="A", one_group="A", offsets=5, begun_uploads=((1, 1),), are_given_up=True,
        uploads=((2, 4),), window=Window.NEXT_LOOK,
    ),
    "a given up upload of the first segment": Scenario(
        runs="A", one_group="A", margin=0, begun_uploads=((0, 0),), passes_time=True, plans=2,
        window=Window.NEXT_LOOK,
    ),
    "a dead upload": Scenario(
        runs="AB", one_group="A", dead_uploads=((1, 2),), passes_time=True
    ),
    "a dead upload at the end": Scenario(
        runs="A", one_group="A", offsets=5, dead_uploads=((3, 4),), passes_time=True
    ),
    # What brokers do against the rules, and other histories.
    "a live segment is listed": Scenario(
        # What closes a hole goes first, so no tombstone may go with what it hides.
        runs="A", plans=3, strays=1, tombstones=Tombstones.STAY_A_PASS, window=Window.NEXT_RUN
    ),
    "live segments are listed": Scenario(
        runs="A", one_group="A", plans=3, strays=2, cuts=(1,), window=Window.NEXT_RUN,
        tombstones=Tombstones.STAY_A_PASS,
    ),
    "a segment of another history": Scenario(
        runs="AV", one_group="A", lineage=_TWO_EPOCHS, diverged=((2, 3),), passes_time=True
    ),
    "a clock that is ahead": Scenario(
        runs="AV", one_group="A", lineage=_TWO_EPOCHS, diverged=((2, 3),), is_clock_ahead=True,
        passes_time=True,
    ),
    "another history that is not given up": Scenario(
        runs="A", one_group="A", offsets=5, lineage=_TWO_EPOCHS, diverged=((1, 4),), gives_up=False
    ),
    "a late start": Scenario(
        runs="AB", one_group="A", late_starts=((1, 2),), passes_time=True
    ),
    "batches of few events": Scenario(
        runs="AB", one_group="AB", repeats=1, batch_bytes_max=THREE_EVENTS
    ),
    "batches of few events, groups one by one": Scenario(
        runs="AB", repeats=1, batch_bytes_max=THREE_EVENTS
    ),
    "batches of few events and a log start": Scenario(
        runs="A", one_group="A", log_starts=(1, 2), batch_bytes_max=THREE_EVENTS
    ),
    "batches of few events and an overlap": Scenario(
        runs="A", one_group="A", margin=0, offsets=5, uploads=((0, 4),), plans=3,
        batch_bytes_max=THREE_EVENTS, window=Window.NEXT_LOOK,
    ),
    "batches of few events and cuts": Scenario(
        runs="A", one_group="A", margin=0, segments=_WIDE, cuts=(1,), batch_bytes_max=THREE_EVENTS
    ),
    "batches of few events and a vacuum": Scenario(
        runs="AV", one_group="A", passes_time=True, batch_bytes_max=THREE_EVENTS
    ),
    "log start in two epochs": Scenario(
        runs="A", one_group="A", margin=0, segments=_WIDE, lineage=_TWO_EPOCHS,
        log_starts=(1, 2, 3), cuts_lineage=True,
    ),
    "another history of an epoch of the log": Scenario(
        runs="AV", one_group="A", lineage=_TWO_EPOCHS, diverged=((2, 4),), diverged_epoch=0,
        passes_time=True,
    ),
    "a local range": Scenario(runs="AB", one_group="A", margin=0, local_start=2, repeats=1),
}
