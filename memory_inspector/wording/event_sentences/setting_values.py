"""Settings and their values in words."""

from memory_core.config import MAX_TOKENS
from memory_core.recipes import RECIPES
from memory_inspector.wording.event_sentences.line import listed
from memory_inspector.wording.formatting import short, tokens

SETTINGS = {
    "token_limit": "the token limit",
    "chat_history_token_ratio": "the history share",
    "token_flush_size": "the flush size",
    "insert_method": "where memory is inserted",
    "truncation_order": "what is cut first",
    "when_over": "what happens over the limit",
    "split_long_turns": "the splitting of long turns",
    "accounting": "how tokens are counted",
    "learning_context": "the context shown to learners",
    "queue_turns": "the turns in the queue",
    "recipe": "the recipe",
    "recipe_parameters": "the parameters of the recipe",
    "encoding": "the tokenizer",
    "context_window": "the model's window",
    "reply_reserve": "the tokens kept for the reply",
    "reserved_tokens": "the tokens kept for system prompt and tools",
    "image_token_size_estimate": "the size of an image",
    "audio_token_size_estimate": "the size of an audio file",
    "video_token_size_estimate": "the size of a video",
    "document_token_size_estimate": "the size of a document",
    "delivery_timeout": "the time limit of a delivery",
    "delivery_attempts": "the number of attempts of a delivery",
    "priority": "the priority",
    "truncation": "cutting",
    "enabled": "use in prompts",
    "accept_short_term_memory": "learning from flushed messages",
    "deliver_on": "learning",
    "max_facts": "the maximum number of facts",
    "approval": "the approval of new facts",
    "on_change": "the comparison of new facts with known ones",
    "nearest": "the number of facts that a new one is compared with",
    "categories": "the categories",
    "show": "the facts in the prompt",
    "top_k": "the maximum number of facts in the prompt",
    "prompt_share": "the share of a full prompt that the facts keep",
    "show_dates": "the dates of facts in the prompt",
    "former_values": "the display of former values",
    "expire_after_days": "the days until a fact expires",
    "expire_categories": "the categories that expire",
    "scope": "the scope",
    "similarity_top_k": "the number of results",
    "similarity_threshold": "the threshold",
    "postprocessed_by": "the postprocessors",
    "fact_extraction_prompt_template": "the prompt for extracting",
    "fact_condense_prompt_template": "the prompt for condensing",
    "retrieval_context_window": "the messages in a search's question",
    "keyword_weight": "the weight of keywords",
    "vector_weight": "the weight of meaning",
    "neighbour_weight": "the weight of neighbours",
    "episode_weight": "the weight of the episode",
    "speaker_weight": "the weight of the speaker",
    "date_weight": "the weight of dates",
    "informativeness_weight": "the weight of informativeness",
    "length_weight": "the weight against length",
    "layout": "the layout in the prompt",
    "unit": "the stored unit",
    "hops": "the steps from what is mentioned",
    "most_relations": "the maximum number of relations in the prompt",
    "read_only": "read only for the agent",
    "limit": "the maximum number of characters",
    "description": "the description",
}
"""Names of settings, for the middle of a sentence."""

VALUES = {
    "largest_first": "the largest priority number",
    "smallest_first": "the smallest priority number",
    "shrink_queue": "leave out the oldest turns",
    "return": "send it anyway",
    "raise": "stop with an error",
    "system": "the system message",
    "user": "the user message",
    "content": "content only",
    "reference": "as LlamaIndex does",
    "billed": "as billed",
    "trim": "piece by piece",
    "drop": "whole",
    "flush": "at each flush",
    "turn": "after each turn",
    "session_end": "at the end of the session",
    "session": "the session",
    "add": "keep them",
    "decide": "compare and decide",
    "relevant": "the most relevant",
    "lines": "compact lines",
    "messages": "LlamaIndex's messages",
}
"""Names of values of settings, for the middle of a sentence."""

_WITHOUT = {
    "queue_turns": "no limit",
    "limit": "no limit",
    "similarity_top_k": "as many as fit",
    "prompt_share": "by priority alone",
    "expire_after_days": "never",
    "similarity_threshold": "none",
}
"""Meaning of an unset value of these settings; others use their default."""

_UNITS = {
    "message": "each message",
    "turn": "a user message with its replies",
    "batch": "all messages of one flush",
}

_MISSING = object()


def setting_words(name: str, value: object, before: object = _MISSING, *, begun: bool = False) -> str:
    """Describe a changed setting: `the token limit to 1,240`, with `begun` `the token limit from 1,200 to 1,240`."""
    label = SETTINGS.get(name, name.replace("_", " "))
    # None is a value of its own, so a missing one needs another mark.
    former = f" from {value_words(name, before)}" if begun and before is not _MISSING else ""
    return f"{label}{former} to {value_words(name, value)}"


_EMPTY = {"expire_categories": "all", "postprocessed_by": "none"}
"""Words for an empty list, by setting; an empty list of another setting is shown as `its own`."""


def value_words(name: str, value: object) -> str:
    """A setting's value: numbers with separators, shares as percent, choices in words."""
    if name == "scope" and value == "user":
        return "the user"
    if name == "token_limit" and value == MAX_TOKENS:
        return "none"  # of an attached agent, which cuts its prompts itself
    if name == "recipe":
        return recipe_title(str(value)) if value else "none"
    if name in _WITHOUT and value is None:
        return _WITHOUT[name]
    if name == "unit":
        return _UNITS.get(str(value), str(value))
    if isinstance(value, dict):
        return listed([f"{short(str(key))} {value_words(key, item)}" for key, item in value.items()]) or "nothing"
    if isinstance(value, list | tuple):
        return listed([short(str(item)) for item in value]) or _EMPTY.get(name, "its own")
    if value is None:
        return "the default"
    # Before whole numbers: True is an int too.
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return tokens(value)
    if isinstance(value, float):
        return f"{100 * value:g} %" if name == "chat_history_token_ratio" else f"{value:g}"
    return VALUES.get(str(value), short(str(value)))


def recipe_title(key: str) -> str:
    """Return the title of a recipe; for a recipe that this version does not know, its key."""
    recipe_named = RECIPES.get(key)
    return recipe_named.title if recipe_named is not None else short(key.replace("_", " "))
