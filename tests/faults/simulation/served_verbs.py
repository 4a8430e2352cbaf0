"""What runs do on a partition that brokers serve: compact and publish, delete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tests.compaction.hash_keys import FINGERPRINT
from tests.faults.broker_model.tier_contents import PARTS, Content
from tests.faults.simulation.served_environment import ServedEnvironment
from tests.faults.simulation.served_losses import is_over
from tests.faults.simulation.served_run import ServedRun
from tests.faults.simulation.served_segments import (
    Replacement,
    brokers_of,
    merged,
    planned,
    uploaded,
    written,
)
from tests.faults.simulation.served_table import Stopped
from tests.faults.simulation.simulation_scheduler import Actor
from tierfold.compaction.brokers.broker_view import Naming
from tierfold.compaction.commits.commit import (
    AddSegments,
    AdvanceCleanerOffset,
    FinishDeletion,
    NoteDropped,
    NoteLocalRanges,
    NotePass,
    NotePublished,
    NoteRetired,
    NoteStrategy,
    ReleaseClaim,
    RetireSegments,
    StartDeletion,
    Update,
)
from tierfold.compaction.discovery.metadata_loss import is_known_since
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segment_ids import Maker, maker_of
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.strategies import strategy_name
from tierfold.compaction.planning import open_step
from tierfold.compaction.planning.local_copies import joined_past, local_ranges
from tierfold.compaction.publishing.deletions import next_deletion
from tierfold.compaction.publishing.look import BATCH_BYTES_MAX, Look
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import (
    Copy,
    Delete,
    Done,
    Merge,
    RefusalCode,
    Refused,
    Retire,
    Send,
    Step,
    Wait,
)

LOOKS_MAX: Final = 60
"""No run needs more looks."""

NEVER_MS: Final = 2**62


def compact(environment: ServedEnvironment, actor: Actor, name: str, *, passes: int) -> Step | None:
    """Publish what is open, then compact and publish; returns the last step, None: it failed."""
    run = ServedRun(environment=environment, actor=actor, name=name)
    try:
        run.claim(adopts=True)
        return published(run, passes)
    except (Stopped, UnreadableObject) as error:
        environment.happened(f"run stopped: {error}")
    return None


def published(run: ServedRun, passes: int) -> Step:
    """Publish what is open, then as many passes; returns the last step: it is done, or waits."""
    for _ in range(LOOKS_MAX):
        look = run.look()
        if run.follow_log_start(look) or _gives_up_stray(run, look):
            continue
        step = next_step(look)
        if isinstance(step, Done) and _note_published(run, look):
            continue
        may_plan = not isinstance(step, Merge) and not open_step.why_open(look.row, step)
        if passes and may_plan and (plan := planned(run.environment, look)):
            passes -= 1
            _rewrite(run, look, plan)
            continue
        match step:
            case Send():
                run.send(step)
            case Merge(segment_ids=ids):
                if set(ids) <= look.row.live_ids:
                    _merge(run, look, merged(run.environment, look, ids))
                else:
                    run.claim(adopts=True)
            case Done():
                run.commit(look, ReleaseClaim(run=run.name))
                run.environment.happened("run ended: done")
                return step
            case Retire(segment_ids=ids):
                _retire(run, look, ids)
            case Copy() | Refused():
                run.judge_refusal(look, step)
            case Wait():
                run.environment.happened(f"run waits: {step.why}")
                return step
    return run.environment.fail(f"{run.name} looks for ever: {step}")


def compact_detached(environment: ServedEnvironment, actor: Actor) -> None:
    """Compact before the cluster is given; nothing is published, and tombstones go at once."""
    run = ServedRun(environment=environment, actor=actor, name="detached")
    environment.is_detached = True
    if environment.is_by_version:
        # Else the first publication takes several batches, and until the last one every reader may
        # see deleted keys, as a person has agreed.
        environment.limits = replace(environment.limits, batch_bytes_max=BATCH_BYTES_MAX)
    run.claim(adopts=True)
    for _ in range(environment.rng.randint(1, 3)):
        look = run.look()
        if plan := planned(environment, look):
            _rewrite(run, look, plan)
    run.commit(run.look(), ReleaseClaim(run=run.name))
    environment.is_detached = False
    environment.caught_up_ms = NEVER_MS


def _gives_up_stray(run: ServedRun, look: Look) -> bool:
    """Retire a deposed leader's segment, as a person does by `forget`, if a refusal names it."""
    step = next_step(look)
    if not isinstance(step, Refused) or step.code is not RefusalCode.OUTSIDE_LINEAGE:
        return False
    environment = run.environment
    outside = [one.added for one in look.outside if one.added.segment_id not in look.retired_ids]
    if not {added.segment_id for added in outside} <= environment.strays:
        environment.fail(f"{outside} are no segments of another history")
    _note_retired(run, look, [uploaded(added, added.start_offset, ()) for added in outside])
    environment.outcomes["strays given up"] += 1
    return True


def _retire(run: ServedRun, look: Look, ids: Sequence[str]) -> None:
    """Let the row name as retired what a late send of a run started, or an upload beside others."""
    retired: list[Segment] = []
    for segment_id in ids:
        added = look.view.segments[segment_id].added
        is_upload = look.is_upload(segment_id)
        if is_upload:
            retired.append(uploaded(added, added.start_offset, ()))
        else:
            content = run.environment.tier.contents[segment_id]
            retired.append(written(content, run.name, content.start))
        run.environment.outcomes["uploads retired" if is_upload else "late starts retired"] += 1
    _note_retired(run, look, retired)


def _note_retired(run: ServedRun, look: Look, segments: Sequence[Segment]) -> None:
    """Let the row name as retired what it never named."""
    update = NoteRetired(segments=tuple(segments), at_ms=run.environment.now_ms, run=run.name)
    run.commit(look, update, _local_noted(run.environment, look))


def _note_published(run: ServedRun, look: Look) -> bool:
    """Note that all passes are published, if need be; nothing may be out of range now."""
    environment = run.environment
    if holes := environment.cluster.holes(environment.cluster.whole):
        if run.seen == len(environment.cluster.sent):
            environment.fail(f"nothing is left to do, but offsets {holes} are out of range")
    elif environment.cluster.is_without_holes:
        environment.excused.clear()
    environment.caught_up_ms = min(environment.caught_up_ms, environment.now_ms)
    is_noted = all(one.published_at_ms is not None for one in look.row.passes)
    if is_noted:
        return False
    run.commit(look, NotePublished(at_ms=environment.now_ms))
    return True


def _rewrite(run: ServedRun, look: Look, plan: Sequence[Replacement]) -> None:
    """Write the groups of a pass, and commit them."""
    environment = run.environment
    for group in plan:
        _write(run, group)
    horizon_ms = look.now_ms + environment.delete_retention_ms
    clean = max(source.end_offset + 1 for group in plan for source in group.sources)
    try:
        run.commit(
            look,
            *_swapped(run, plan),
            NotePass(earliest_ms=horizon_ms, has_spared=False),
            *_noted_of(environment, plan),
            _local_noted(environment, look),
            AdvanceCleanerOffset(
                epoch=look.row.epoch, offset=max(clean, look.row.cleaner_offset or 0)
            ),
        )
    finally:
        _note_dropped(environment, plan)
    environment.outcomes["passes"] += 1
    environment.outcomes["groups"] += len(plan)


def _note_dropped(environment: ServedEnvironment, plan: Sequence[Replacement]) -> None:
    """Note which tombstones are gone, if the row has the pass: a run may die of its own commit."""
    live = environment.table.row.live_ids
    for group in plan:
        if live & {content.segment_id for content in group.contents}:
            for offset, end in group.dropped.items():
                environment.cluster.log.dropped.setdefault(offset, set()).add(end)


def _noted_of(environment: ServedEnvironment, plan: Sequence[Replacement]) -> Iterator[Update]:
    """What a pass notes of its strategy, and of tombstones that went before anything is published.
    """
    if environment.is_by_version:
        yield NoteStrategy(name=strategy_name(environment.rules))
    if environment.is_detached and any(group.dropped for group in plan):
        yield NoteDropped()


def _local_noted(environment: ServedEnvironment, look: Look) -> NoteLocalRanges:
    """Until when brokers have local copies, as every commit notes that retires uploads."""
    until_ms = environment.now_ms - environment.delete_retention_ms
    brokers = None if environment.is_detached else brokers_of(environment, look)
    ranges = joined_past(local_ranges(look.row, brokers, environment.now_ms), until_ms)
    return NoteLocalRanges(entries=ranges, retention_ms=environment.cluster.local_retention_ms)


def _rows_of(run: ServedRun, group: Replacement) -> Iterator[Segment]:
    start = min(source.start_offset for source in group.sources)
    for content in group.contents:
        yield written(content, run.name, max(content.start, start))


def _merge(run: ServedRun, look: Look, group: Replacement) -> None:
    """Write one replacement of live segments that overlap; it is no pass."""
    _write(run, group)
    run.commit(look, *_swapped(run, [group]), _local_noted(run.environment, look))
    run.environment.outcomes["merged"] += 1


def _swapped(run: ServedRun, plan: Sequence[Replacement]) -> tuple[Update, ...]:
    """The change of the row when these replacements take the place of their sources."""
    sources = tuple(source.segment_id for group in plan for source in group.sources)
    added = tuple(segment for group in plan for segment in _rows_of(run, group))
    return (
        RetireSegments(ids=sources, at_ms=run.environment.now_ms, run=run.name),
        AddSegments(segments=added),
    )


def _write(run: ServedRun, group: Replacement) -> None:
    environment = run.environment
    for content in group.contents:
        for part in PARTS:
            put(environment, run.actor, content, part)


def put(environment: ServedEnvironment, actor: Actor, content: Content, part: str) -> None:
    """Write an object."""
    environment.act(
        actor,
        f"write {content.segment_id[:6]}.{part} ({content.start} to {content.end})",
        lambda: environment.tier.put(content, part, environment.now_ms),
    )


def before_deletion(look: Look) -> Step:
    """What a vacuum must do before it deletes."""
    return next_step(look)


def vacuum(environment: ServedEnvironment, actor: Actor, name: str) -> None:
    """Complete what is open, then delete what brokers no longer need."""
    run = ServedRun(environment=environment, actor=actor, name=name)
    try:
        run.claim(adopts=False)
        for _ in range(LOOKS_MAX):
            look = run.look()
            if run.follow_log_start(look) or _gives_up_stray(run, look) or _finishes(run, look):
                continue
            step = before_deletion(look)
            if isinstance(step, Send):
                run.send(step)
                continue
            if isinstance(step, Retire):
                _retire(run, look, step.segment_ids)
                continue
            if isinstance(step, Copy | Refused):
                run.judge_refusal(look, step)
                continue
            if isinstance(step, Done | Wait) and run.moves_log_start(look):
                continue
            deletion = next_deletion(look)
            match deletion:
                case Send():
                    run.send(deletion)
                case Delete(segment_ids=ids):
                    _delete(run, look, ids)
                case _:
                    _delete_orphans(run, look)
                    run.commit(look, ReleaseClaim(run=run.name))
                    environment.happened(f"vacuum ended: {type(deletion).__name__}")
                    return
    except (Stopped, UnreadableObject) as error:
        environment.happened(f"vacuum stopped: {error}")
        return
    environment.fail(f"{name} looks for ever: {deletion}")


def _finishes(run: ServedRun, look: Look) -> bool:
    """Let the row forget what is gone; return whether it did."""
    gone, never_named = set[str](), set[str]()
    for entry in look.row.retired:
        segment_id = entry.segment.segment_id
        if segment_id in look.present or segment_id in look.view.segments:
            continue
        if look.naming[segment_id] is Naming.NAMED:
            gone.add(segment_id)
        elif is_over(look, entry):
            never_named.add(segment_id)
    ids = tuple(sorted(gone | never_named))
    if not ids:
        return False
    unmarked = tuple(one for one in ids if one not in look.row.marked_ids)
    if unmarked:
        _mark(run, look, unmarked)
    else:
        run.commit(
            look,
            FinishDeletion(ids=ids, gone=frozenset(gone), never_named=frozenset(never_named)),
        )
        run.environment.outcomes["segments forgotten"] += len(ids)
    return True


def _mark(run: ServedRun, look: Look, ids: Sequence[str]) -> None:
    never_named = frozenset(one for one in ids if look.naming[one] is Naming.NEVER_NAMED)
    run.commit(
        look,
        StartDeletion(
            ids=tuple(ids),
            at_ms=run.environment.now_ms,
            listed=frozenset(ids) - never_named,
            never_named=never_named,
        ),
    )


def _delete(run: ServedRun, look: Look, ids: Sequence[str]) -> None:
    """Delete objects, once the row says that this has begun."""
    environment = run.environment
    if unmarked := [one for one in ids if one not in look.row.marked_ids]:
        _mark(run, look, unmarked)
    for segment_id in ids:
        for part in PARTS:
            remove(environment, run.actor, segment_id, part)
    environment.outcomes["segments deleted"] += len(ids)


def remove(environment: ServedEnvironment, actor: Actor, segment_id: str, part: str) -> None:
    """Delete an object; what a run deletes is checked."""

    def removed() -> None:
        environment.is_by_run = not actor.name.startswith("broker")
        environment.tier.remove(segment_id, part)

    environment.act(actor, f"delete {segment_id[:6]}.{part}", removed)


def _delete_orphans(run: ServedRun, look: Look) -> None:
    """Delete what dead runs of this catalog wrote, and nothing ever named."""
    environment = run.environment
    # A run that claims later may have written what was listed; of an earlier one the claim is lost.
    if environment.table.read(run.actor) != look.row:
        raise Stopped("fenced")
    for segment_id in sorted(look.present - look.row.named_ids):
        written_ms = max(
            environment.tier.objects.get((segment_id, part), 0) for part in PARTS
        )
        if (
            maker_of(segment_id, FINGERPRINT) is Maker.THIS_CATALOG
            and look.naming[segment_id] is Naming.NEVER_NAMED
            and is_known_since(look.row, run.metadata_start, written_ms)
            and look.now_ms - written_ms > environment.orphan_age_ms
        ):
            for part in PARTS:
                remove(environment, run.actor, segment_id, part)
            environment.outcomes["orphans deleted"] += 1
