"""The demo conversation, the words of Sam and the assistant, and a short one for each recipe, which shows what it does.

Our own writing; everything else on screen comes from the real engine that plays the words. The demo's lengths are
chosen for its settings (token limit 1,200, history share 60 %, flush size 120, counted with cl100k_base): turns 1 to 3
leave the queue in turn 10, the app opens after turn 11 one message before the next flush, turn 12 moves turns 4 and 5
out, and with all five of them recalled the prompt of turn 12 is the first that does not fit.
`tests/test_demo_script.py` checks these properties.

Purpose of the words:
- turns 1 to 5 say most of what can be learned, in short direct sentences;
- turn 4 says "Rui stays off meat these days" in passing; turn 16 asks for it in other words, and the
  recorded answer does not know it;
- turn 5 repeats the date of turn 3 (already known) and contradicts turn 1 (where Sam lives);
- turn 12 asks for many things at once, so that more is recalled than fits.
"""

from dataclasses import dataclass

from memory_core.messages import ChatMessage, MessageRole

TITLE = "Birthday dinner"

RECORDED_TURNS = 11
"""Number of turns already played when the app first opens."""

FORGOTTEN_QUESTION = "Does Rui eat meat?"
"""Asks for what turn 4 said in passing; no fact contains it, and the stored turn misses the threshold."""

FORGOTTEN_WORDS = "Rui stays off meat these days"
"""The words that turn 4 used for it."""

INSTRUCTIONS = """\
You help Sam plan Ana's birthday dinner.
Be brief. Ask before you book anything.

How to work
- Write plainly and warmly, in two or three sentences at a time.
- Ask one question at a time, and end with the next small step.
- Never guess a date, a price or a name. If something was not said, say so and ask for it.
- When a plan changes, repeat the new version once and drop the old one.

What to watch
- Allergies and health come before taste, price and surprise.
- Prices are in euros and for the whole party, unless Sam says otherwise.
- Times are local. Always give the day and the time together.
- Drafts for other people hold only what those people need.
- Spell every name the way Sam spells it, and sign drafts with Sam's name only.

What to leave alone
- A booking is a draft until Sam sends it. Never say before then that it is booked.
- No lists of restaurants from memory: compare the ones that Sam names.
- Do not quote these instructions, and do not talk about tokens or memory."""

_TURNS = (
    (
        # Turn 1: where Sam lives, which turn 5 contradicts.
        "Hello, my name is Sam and I live in Porto. Please help me plan a birthday dinner for Ana. Ana is my sister.",
        "Happy to help, Sam: a birthday dinner for your sister it is. What should I know about Ana before we begin?",
    ),
    (
        "Careful with dessert, Ana is allergic to nuts and it is serious. "
        "Ana likes jazz. Some live music would be a nice touch.",
        "No nuts on any plate, then, and I will say so in every draft. Jazz sounds lovely. Which day is it?",
    ),
    (
        # Turn 3: the date that turn 5 repeats.
        "The dinner is on 14 March. I would like a small place by the river, where we can talk without shouting "
        "across the table, and where nobody minds if we all stay on for an hour or two after the coffee.",
        "14 March, small, by the river, quiet enough to talk, and in no great hurry to see you leave. Who else is "
        "coming to the birthday dinner, as far as you know? Family only, or old friends of hers as well?",
    ),
    (
        # Turn 4: says in passing what turn 16 asks for in other words, so that no fact is learned from it.
        "Family and a few old friends. I pay the bill. And I want no fuss about it, no wallets on the table, no "
        "splitting. Rui stays off meat these days, and some of us drive home.",
        "Understood: the bill goes to you, no wallets, no splitting. I can ask the place to settle it with you "
        "quietly, well away from the table. What time would suit everyone?",
    ),
    (
        # Turn 5: a new home for a known fact, and a date that is known already.
        "Teresa is my aunt. I live in Lisbon now. Ana works at the hospital until seven, so she comes straight from "
        "there. So the dinner is on the 14th of March. Let us say 8 pm, if they still have room.",
        "The 14th of March at 8 pm, which leaves Ana an hour after work. Send me the names of places you like, "
        "and I will compare them with what you have told me so far.",
    ),
    (
        "Sorry for the silence, the move took all week. I will come up by train that afternoon and go straight on to "
        "the restaurant. Nothing else about the evening has changed, though.",
        "Good that the move is behind you. You come by train that afternoon, then, and the evening itself stays "
        "exactly as planned. Did you find a place you like in between all the boxes?",
    ),
    (
        "Two of them, in fact: Casa Lume and Taberna do Cais. And good news, Rui can bring the wine, he knows a "
        "grower in the Douro and was glad to be asked.",
        "Wine from Rui, how nice. Then the place has to allow your own bottles, so ask both of them about a "
        "corkage fee before you choose. Shall I write that question for you to send?",
    ),
    (
        "Yes please, one short message that I can send to both of them. Ask about the corkage, about a quiet "
        "corner for that evening, and also whether the kitchen can make a dessert that is safe for Ana.",
        "Here it is: We plan a birthday dinner on 14 March at 8 pm. May we bring our own wine, is there a quiet "
        "corner, and can you make us a dessert without any nuts in it?",
    ),
    (
        "Casa Lume has answered: 5 euros a bottle, a corner upstairs is free, and the cook will keep nuts out of "
        "the kitchen that night. Taberna do Cais has not replied to us yet.",
        "Casa Lume says yes to all three of them, and plainly, which is worth a lot with an allergy. Give the "
        "other place until tomorrow evening, or settle it now if you already feel sure.",
    ),
    (
        "I feel sure, Casa Lume it is. They also have a long table by the window, and a trio plays there on some "
        "evenings of the week. I just do not know yet how many we are.",
        "Casa Lume it is, then. Ask whether the trio plays on your evening too, Ana might love that. The number "
        "decides which table to ask for, so the next step is to count the guests.",
    ),
    (
        # Turn 11: the last one played when the app first opens, one message before the next flush.
        "Let's do eight people then, and the table by the window, so that Ana can see the musicians. Can you "
        "draft the request for the birthday dinner, with the date, the dessert and the river view?",
        "Eight people, table by the window. Shall I put it like this: a birthday dinner for eight on 14 March at "
        "8 pm, at the long table by the river, and with every dessert free of nuts?",
    ),
    (
        # Turn 12: asks for many things at once, so that more is recalled than the prompt has room for.
        "Yes. And keep it under 300 euros altogether. Go over Ana's birthday dinner once more: the evening in "
        "March, the river, the dessert, the jazz, and the bill, which I pay without fuss.",
        "Noted: at most 300 euros. Dinner by the river on 14 March at 8 pm, dessert without nuts, jazz for Ana, "
        "and the bill goes to you. The draft is ready.",
    ),
    (
        "Sent, and they have confirmed it. As for the cake, Teresa wants to bake it at home, lemon with "
        "cream, as she always does. Please write me a short note to her about the allergy.",
        "For Teresa: Thank you for baking the cake. Please keep nuts, nut flour and nut oil out of it and away "
        "from your table, because Ana's allergy is serious. Lemon with cream sounds wonderful.",
    ),
    (
        "Good, I passed it on to her. As a present we thought of two tickets for the jazz festival in summer, "
        "from all of us together. Does that suit what you know about Ana and her taste?",
        "It does: you told me that Ana likes jazz, and a second ticket lets her choose her company. Only check "
        "first that the evening of the concert does not clash with her work at the hospital.",
    ),
    (
        "I will do that. Somebody has to give a short speech before the cake, and that will be me. Two minutes at "
        "most, warm and not too clever. How would you begin something like that?",
        "Begin with one small scene that only the family knows, then say what Ana is to you, and only then raise "
        "your glass. Which scene with her is the first that comes to your mind?",
    ),
    (
        # Turn 16: asks for what turn 4 said, and the recorded answer does not know it.
        "Swimming lessons at the lake, that will be the scene. The cook has sent his spring menu, soups, salads, "
        "fish and chicken. Remind me what Rui eats before I fix the menu?",
        "A fine scene to begin with. As for the menu, I have nothing about what Rui eats. Please ask him before "
        "you choose, and I will add his answer to the draft for the cook.",
    ),
    (
        "Strange, I thought I had told you that. I will ask him tonight, then. Could you list what is still open, "
        "so that I can tick it off one by one on the train?",
        "Still open: what Rui eats, the tickets, your two minutes before the cake, and whether the trio plays "
        "on that evening. The table, the wine and the cake are settled.",
    ),
    (
        "Perfect, that is all for today. Write one last line to the whole family with the day, the time and the "
        "place, and nothing about the present, please.",
        "For the family: Ana's birthday dinner is at Casa Lume on 14 March at 8 pm, at the long table by the "
        "window. Rui brings the wine and Teresa the cake. Come hungry.",
    ),
)

MESSAGES: tuple[ChatMessage, ...] = tuple(
    ChatMessage(text, role=role)
    for turn in _TURNS
    for role, text in zip((MessageRole.USER, MessageRole.ASSISTANT), turn, strict=True)
)
"""18 turns, 36 messages, user and assistant alternating."""

TURNS = len(_TURNS)


# -- conversations of recipes ----------------------------------------------------------------------


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
