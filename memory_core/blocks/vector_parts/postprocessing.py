"""Apply LlamaIndex's node postprocessors to granted units: they may reorder and drop units, not change texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory_core.errors import ConfigError, user_message

NOT_APPLIED = "Not postprocessed:"
"""Beginning of the sentence on a postprocessor that failed, or is missing in this process."""


@dataclass(frozen=True, slots=True)
class PostprocessedUnit:
    """A stored unit, as postprocessors see it."""

    number: int
    words: str
    score: float


@dataclass(frozen=True, slots=True)
class Postprocessed:
    """Units that remain after the postprocessors, in their order."""

    kept: tuple[int, ...]
    problem: str | None = None
    """Sentence on a postprocessor that was not applied."""


def check(postprocessors: Sequence[Any]) -> list[str]:
    """Return the names of the postprocessors.

    Raises:
        ConfigError: an object is no postprocessor.
    """
    for item in postprocessors:
        if isinstance(item, type) or not callable(getattr(item, "postprocess_nodes", None)):
            name = item.__name__ if isinstance(item, type) else type(item).__name__
            raise ConfigError(f"node_postprocessors must be postprocessors of LlamaIndex, not {name}")
    return [type(postprocessor).__name__ for postprocessor in postprocessors]


def postprocess(postprocessors: Sequence[Any], question: str, nodes: Sequence[PostprocessedUnit]) -> Postprocessed:
    """Apply postprocessors in order. If one fails, the units stay unchanged."""
    from llama_index.core.schema import NodeWithScore, TextNode  # loaded already, as the postprocessors need it

    by_id = {str(node.number): node for node in nodes}
    passed = [NodeWithScore(node=TextNode(id_=id, text=node.words), score=node.score) for id, node in by_id.items()]
    problem = None
    for item in postprocessors:
        name = type(item).__name__
        try:
            passed = list(item.postprocess_nodes(passed, query_str=question))
            reworded = any(
                by_id.get(one.node.node_id) is None or one.node.get_content() != by_id[one.node.node_id].words
                for one in passed
            )
        except Exception as error:  # foreign code, which may call a model
            # Return the units as granted: nobody asked for the result of only some of the postprocessors.
            return Postprocessed(
                tuple(node.number for node in nodes), f"{NOT_APPLIED} {name} failed: {user_message(error)}"
            )
        if reworded:
            problem = f"{name} wrote other words, which were not used."
    passed_numbers = dict.fromkeys(by_id[one.node.node_id].number for one in passed if one.node.node_id in by_id)
    return Postprocessed(tuple(passed_numbers), problem)
