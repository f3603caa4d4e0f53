"""Facts of a user's message whose subject only the reply to it names."""

import pytest

from memory_core.messages import ChatMessage
from memory_core.models.offline.extractor import RuleExtractor
from memory_core.models.offline.restating import restated


def learned(*texts):
    roles = ("user", "assistant") * len(texts)
    messages = [ChatMessage(role=role, content=text) for role, text in zip(roles, texts, strict=False)]
    return RuleExtractor().extract(messages, known=()).facts


def test_what_a_pronoun_means_is_taken_from_the_reply():
    [fact] = learned("Her extension is 4302 now.", "Got it — I've updated Sarah's extension from 4217 to 4302.")
    assert (fact.text, fact.slot) == ("Sarah's extension is 4302, not 4217", "sarah.extens")


def test_the_users_message_is_the_source_and_not_the_reply():
    [fact] = learned("Her extension is 4302 now.", "Noted, Sarah's extension is now 4302.")
    assert fact.source == 0


@pytest.mark.parametrize(
    "reply",
    [
        "I've updated your passport number to HG12.",
        "So your current passport number is HG12.",
        "your passport number is HG12",
    ],
)
def test_what_is_yours_is_the_users(reply):
    [fact] = restated("The number printed on it is HG12.", reply)
    assert str(fact.slot) == "user.passport number"


@pytest.mark.parametrize(
    "message",
    [
        "Is the number 4302?",
        "If the number were 4302, I would know.",
        "Tom said the number is 4302.",
        "The number will be 4302 next month.",
        "The number is 4303.",
        "It costs 4302 euros.",
    ],
)
def test_a_reply_alone_teaches_nothing(message):
    assert not list(restated(message, "I've updated Sarah's number to 4302."))


@pytest.mark.parametrize(
    "reply",
    [
        "I'll update Sarah's number to 4302 once Tom confirms it.",
        "Sarah's number might be 4302.",
        "Is Sarah's number 4302?",
        "It's good that the number is 4302.",
        "Your number is lovely.",
    ],
)
def test_an_unsure_reply_teaches_nothing(reply):
    assert not list(restated("The number is 4302.", reply))


def test_only_the_reply_directly_after_a_message_counts():
    facts = learned("Her number is 4302.", "Whose?", "Thanks for asking.", "Sarah's number is 4302.")
    assert not [fact for fact in facts if "Sarah" in fact.text]
