"""Changes made on the Graph page, as `on_click` callbacks: one change set and one message for each."""

from collections.abc import Callable, Sequence
from functools import partial

from memory_core.curation.graph_desk import GraphDesk
from memory_core.history.change_log import AppliedChangeSet
from memory_core.planning.graph_rules import Entity, Relation
from ui.graph import graph_tab
from ui.graph.graph_snapshot import GraphSnapshot
from ui.parts import toasts
from ui.parts.components import noticed
from ui.parts.effect import foreseen, next_prompt

Change = Callable[[GraphDesk], AppliedChangeSet | None]
"""Function that makes a change of the graph; None if nothing changed."""


def apply(desk: GraphSnapshot, change: Change, *, before: str = "") -> AppliedChangeSet | None:
    """Apply a change set and announce it, after the words `before`, with its effect; return None if nothing changed."""
    with noticed():
        old = next_prompt(desk.memory)
        made = change(desk.desk)
        if made is not None:
            new = next_prompt(desk.memory)
            effect = f" {foreseen(old, new)}" if old is not None and new is not None else ""
            sentence = f"{before}{made.words}." if before else made.sentence
            # What was undone gets no Undo in its toast: the list of all changes redoes it.
            toasts.done(f"{sentence}{effect}", undo=None if made.undone else partial(desk.desk.undo, made.number))
        return made
    return None


def make(desk: GraphSnapshot, change: Change) -> None:
    """Apply a change set as the callback of a button; see `apply`."""
    apply(desk, change)


def retire(desk: GraphSnapshot, relation: Relation) -> None:
    # A retired relation is in no list any more, so its panel is closed.
    if apply(desk, lambda graph: graph.retire([relation])) is not None:
        graph_tab.look(desk.place, relation=None)


def remove(desk: GraphSnapshot, entity: Entity) -> None:
    """Retire an entity with all its relations."""
    if apply(desk, lambda graph: graph.remove([entity])) is not None:
        graph_tab.look(desk.place, focus=None, to=None)


def merge(desk: GraphSnapshot, entities: Sequence[Entity], into: Entity) -> None:
    if apply(desk, lambda graph: graph.merge(entities, into)) is not None:
        graph_tab.look(desk.place, focus=into.id)


def undo(desk: GraphSnapshot, change: AppliedChangeSet) -> None:
    """Undo a change; redo one that was undone."""
    before = "Redone: " if change.undone else "Undone: "
    apply(desk, lambda graph: graph.undo(change.undone_by or change.number), before=before)
