"""Short conversations, one for each recipe, that demonstrate the recipe's special feature; played like the demo.

Messages only: everything on screen comes from the real engine that plays them.
"""

from dataclasses import dataclass

from memory_core import ChatMessage


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation, and what to watch in it."""

    title: str
    watch: str
    """Sentence on what to watch, for the screen."""
    messages: tuple[ChatMessage, ...]
    token_limit: int


def _messages(*texts: str) -> tuple[ChatMessage, ...]:
    """Messages of user and assistant, alternating."""
    return tuple(
        ChatMessage(role="assistant" if place % 2 else "user", content=text) for place, text in enumerate(texts)
    )


_TRIP = _messages(
    "I am planning nine days in Portugal in May with my sister Ana.",
    "Nine days in May with Ana: a good time, warm and not yet crowded.",
    "We land in Lisbon on 8 May at 14:20. Ana is allergic to nuts.",
    "Noted: Lisbon, 8 May, 14:20, and no nuts for Ana.",
    "Three nights in Lisbon, then the train to Porto. I prefer window seats.",
    "Three nights in Lisbon, then the train to Porto, window seats.",
    "What should we see in Lisbon if it rains?",
    "The tile museum and the aquarium are both dry, and both worth half a day.",
    "The tile museum it is. Our hotel is the Casa Azul in Alfama.",
    "Tile museum, and the Casa Azul in Alfama is a short walk from the tram.",
    "My budget is 1,400 euros for both of us, flights already paid.",
    "1,400 euros for nine days is comfortable outside of August.",
    "In Porto we want one day on the river and one evening of fado.",
    "A river cruise up to the second bridge, and fado near the cathedral.",
    "We fly home from Porto on 16 May in the evening.",
    "Home from Porto on 16 May, in the evening.",
    "Remind me: when do we land in Lisbon, and what must Ana not eat?",
    "You land on 8 May at 14:20, and Ana must not eat nuts.",
)

_TEAM = _messages(
    "Alice manages Project Alpha. Bob works on Project Alpha with her.",
    "Alice manages it, Bob works on it.",
    "Bob lives in Leeds.",
    "Bob, in Leeds.",
    "The deadline of Project Alpha is March 2026.",
    "March 2026 for Project Alpha.",
    # Contradicts the home above: one relation ends and another begins.
    "Bob moved from Leeds to York.",
    "York it is.",
    "Carol works at Northwind. Northwind is a customer of Project Alpha.",
    "Northwind is the customer, and Carol is there.",
    "Bob reports to Alice. Carol knows Bob.",
    "Bob reports to Alice, and Carol knows him.",
    "Please remember that we meet every Tuesday at ten, in the small room on the second floor.",
    "Every Tuesday at ten, second floor, the small room.",
    "When is the deadline of the project that Alice manages?",
    "March 2026: Alice manages Project Alpha, and that is its deadline.",
)

_PERSON = _messages(
    "Hi! My name is Chandra and I live in Leeds.",
    "Hello Chandra.",
    "I love hiking, and I am learning Portuguese.",
    "Hiking and Portuguese, noted.",
    "I like dark mode.",
    "Dark mode, noted.",
    # The same wish in other words: an update, not a second fact.
    "I prefer dark mode in every app, please.",
    "Dark mode everywhere.",
    "I moved, I live in York now.",
    "York now.",
    "I no longer like hiking, my knee hurts.",
    "No hiking then.",
    "What do you know about me?",
    "You are Chandra, you live in York, you are learning Portuguese and you prefer dark mode in every app.",
)

_SUPPORT = _messages(
    "My coffee machine, a Brio 300, shows error E4 since this morning.",
    "E4 on a Brio 300 means that the water tank is not seen. Is it pushed in fully?",
    "Yes, and I cleaned the contacts. Still E4.",
    "Then please note the serial number on the back, it begins with BR.",
    "It is BR-2231-88. I bought it on 3 February 2026.",
    "BR-2231-88, bought on 3 February 2026: that is under warranty.",
    "What does E4 mean again, and how long is the warranty?",
    "E4: the water tank is not seen. The warranty runs two years.",
    "My address for the new tank is 14 Mill Lane, Leeds.",
    "14 Mill Lane, Leeds: the tank leaves tomorrow.",
    "The tank arrived, and the error is gone.",
    "Glad to hear it. Anything else?",
    "How do I descale it?",
    "Fill in 50 ml of descaler with 500 ml of water and press both buttons for three seconds.",
    "And what was my serial number?",
    "It is BR-2231-88.",
)

# Token limits are far below any real one, so that each effect comes before the conversation ends.
EXAMPLES: dict[str, Example] = {
    "buffer": Example("Trip to Portugal", "The oldest message leaves when the limit is reached.", _TRIP, 260),
    "window": Example("Trip to Portugal", "Each new turn pushes out the oldest once the window is full.", _TRIP, 1_000),
    "blocks": Example("Trip to Portugal", "Facts are learned and turns recalled as the queue is flushed.", _TRIP, 320),
    "vector": Example("Coffee machine", "A question brings back an earlier question with its answer.", _SUPPORT, 280),
    "summary": Example("Trip to Portugal", "What leaves the queue is summarised in one text.", _TRIP, 300),
    "hybrid": Example("The project", "Relations and earlier turns answer together.", _TEAM, 170),
    "graph": Example("The project", "The last question needs two steps: Alice, Project Alpha, March 2026.", _TEAM, 140),
    "user_memories": Example("Chandra", "The name is known in the next session of the same user.", _PERSON, 400),
    "consolidating": Example("Chandra", "Dark mode is updated, not doubled; Leeds becomes York.", _PERSON, 400),
    "self_editing": Example("Chandra", "The agent edits its own blocks; each edit is shown as a diff.", _PERSON, 400),
}
"""Example conversations by the name of the recipe."""
