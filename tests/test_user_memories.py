"""`UserMemories`: learned each run, read in every session of the user, never by another, and off when it is off."""

import asyncio
from dataclasses import dataclass

import pytest
from engine_fakes import assistant, on_file, user
from fakes import FakeEmbedder, FakeReply

from memory_core import (
    ChatMessage,
    ConfigError,
    MessageError,
    ModelAnswerError,
    ModelError,
    ModelUnreachableError,
    NotFoundError,
    Services,
    list_sessions,
)
from memory_core.models.protocols import ModelCall
from memory_core.systems.user_memories import UserMemories

BLOCK = "User memories"


class ScriptedChat:
    """Answers each purpose with the next answer for it: a dict of the asked form, or an exception to raise."""

    name = "scripted chat"
    offline = False

    def __init__(self, **answers):
        self.answers = {purpose: list(given) for purpose, given in answers.items()}
        self.asked = []
        """The purpose of each question."""

    def ask(self, messages, answer, *, purpose):
        self.asked.append(purpose)
        given = self.answers[purpose].pop(0)
        if isinstance(given, Exception):
            raise given
        return answer.model_validate(given), ModelCall(purpose, self.name, 10, 2, 0.0)

    def stream(self, messages, tools=()):
        self.asked.append("text")
        return FakeReply("no form at all")


def found(*texts, topics=()):
    """The answer of an extraction."""
    return {"facts": [{"text": t, "category": "personal", "message": 1, "topics": list(topics)} for t in texts]}


def decided(*decisions):
    """The answer of a decision: act, number of the known fact and new words, one for each found fact."""
    asked = [
        {"found": n, "act": act, "known": known, "text": text} for n, (act, known, text) in enumerate(decisions, 1)
    ]
    return {"decisions": asked}


@pytest.fixture
def uri(tmp_path):
    return on_file(tmp_path)


def made(user_id="ada", session_id=None, **options):
    services = options.pop("services", None) or Services(embedder=FakeEmbedder())
    return UserMemories(user_id, session_id, services=services, **options)


def texts(memories):
    return [fact.text for fact in memories]


def kinds(memories):
    return [record.event.kind for record in memories.memory.events(block=BLOCK)]


# -- known across sessions -------------------------------------------------------------------------------


def test_a_name_said_once_is_known_in_the_next_session_though_nothing_was_flushed(uri):
    monday = made("chandra", "monday", database_uri=uri)
    monday.add_run("My name is Chandra", "Nice to meet you, Chandra.")
    assert monday.memory.session.status().flushes == 0
    tuesday = made("chandra", "tuesday", database_uri=uri)
    assert texts(tuesday.get_user_memories()) == ["The user's name is Chandra"]
    assert "Chandra" in tuesday.memory.get("What is my name?")[0].content


def test_what_is_known_is_there_again_after_a_restart(uri):
    made("ada", "s", database_uri=uri).add_run("I am allergic to nuts", "I will remember.")
    again = made("ada", "s", database_uri=uri)
    assert texts(again.get_user_memories()) == ["The user is allergic to nuts"]
    assert len(again.get_messages_from_last_n_runs()) == 2


def test_a_changed_preference_is_updated_and_not_doubled(uri):
    first = made("ada", "one", database_uri=uri)
    first.add_run("I live in Porto", "A fine town.")
    second = made("ada", "two", database_uri=uri)
    second.add_run("I moved to Lisbon", "Good luck there.")
    known = texts(made("ada", "three", database_uri=uri).get_user_memories())
    assert [text for text in known if "Porto" in text] == []
    assert len([text for text in known if "Lisbon" in text]) == 1


def test_what_is_said_again_is_known_once(uri):
    for session in ("one", "two", "three"):
        made("ada", session, database_uri=uri).add_run("I am allergic to nuts", "I know.")
    assert len(made("ada", "four", database_uri=uri).get_user_memories()) == 1


def test_only_the_user_s_own_words_are_learned():
    memories = made()
    memories.add_run(
        [ChatMessage(role="system", content="My name is Hal"), user("Good morning"), assistant("I live in Rome")]
    )
    assert memories.get_user_memories() == []


def test_every_memory_names_the_words_it_came_from():
    memories = made()
    receipt = memories.add_run("I am allergic to nuts", "Noted.")
    assert memories.get_user_memories()[0].sources == ((memories.session_id, receipt.seqs[0]),)


# -- one user never sees another's -----------------------------------------------------------------------


def test_one_user_never_sees_another_s(uri):
    ada, bob = made("ada", "a", database_uri=uri), made("bob", "b", database_uri=uri)
    ada.add_run("My name is Ada and I am allergic to nuts", "Noted.")
    secret = ada.add_user_memory("Ada wants to resign in May", ["work"])
    assert bob.get_user_memories() == []
    assert bob.search_user_memories("resign nuts name", retrieval_method="semantic") == []
    assert bob.memory.get("Who wants to resign?") == []
    with pytest.raises(NotFoundError):
        bob.replace_user_memory(secret.id, "Bob was here")
    with pytest.raises(NotFoundError):
        bob.delete_user_memory(secret.id)
    bob.add_run("My name is Bob", "Hello Bob.")
    assert texts(bob.get_user_memories()) == ["The user's name is Bob"]
    assert "Ada wants to resign in May" in texts(ada.get_user_memories())


def test_another_user_s_session_is_refused(uri):
    made("ada", "s", database_uri=uri).add_run("My name is Ada", "Hello.")
    with pytest.raises(ConfigError, match="another user"):
        made("bob", "s", database_uri=uri)
    assert [status.user_id for status in list_sessions(made("ada", "s", database_uri=uri).memory.session.database)] == [
        "ada"
    ]


@pytest.mark.parametrize("nobody", ["", "  "])
def test_memories_need_a_user(nobody):
    with pytest.raises(ConfigError, match="user_id"):
        made(nobody)


# -- runs ------------------------------------------------------------------------------------------------


def test_the_messages_of_the_last_runs_come_back_in_order():
    memories = made()
    for n in range(1, 5):
        memories.add_run(f"Question {n}", f"Answer {n}")
    assert [m.content for m in memories.get_messages_from_last_n_runs(2)] == [
        "Question 3",
        "Answer 3",
        "Question 4",
        "Answer 4",
    ]
    assert [m.content for m in memories.get_messages_from_last_n_runs(1, skip_role="assistant")] == ["Question 4"]
    assert len(memories.get_messages_from_last_n_runs()) == len(memories.get_messages_from_last_n_runs(99)) == 8


@pytest.mark.slow
def test_runs_that_left_the_queue_still_count():
    memories = made(token_limit=60, token_flush_size=10)
    for n in range(1, 13):
        memories.add_run(f"Question {n} about the weather of the day", f"Answer {n} about the weather of the day")
    assert memories.memory.session.status().flushes > 0
    assert len(memories.get_messages_from_last_n_runs(11)) == 22


def test_a_run_may_be_all_its_messages():
    memories = made()
    run = [
        ChatMessage(role="system", content="Be brief."),
        user("Good evening"),
        assistant("Good"),
        assistant("Evening"),
    ]
    memories.add_run(run)
    assert memories.get_messages_from_last_n_runs(1) == run[1:]


def test_runs_of_other_sessions_are_not_this_session_s(uri):
    made("ada", "one", database_uri=uri).add_run("Good morning", "Good morning.")
    assert made("ada", "two", database_uri=uri).get_messages_from_last_n_runs() == []


def test_a_run_without_an_answer_is_learned_from_at_once():
    memories = made()
    memories.add_run("My name is Ada")
    assert texts(memories.get_user_memories()) == ["The user's name is Ada"]


@pytest.mark.parametrize(
    "run", [[assistant("Hello")], [user("One"), assistant("1"), user("Two"), assistant("2")], [], ["not a message"]]
)
def test_a_run_is_one_user_message_and_what_answers_it(run):
    memories = made()
    with pytest.raises(MessageError):
        memories.add_run(run)
    assert memories.get_messages_from_last_n_runs() == []


@pytest.mark.parametrize("given", [{"n": 0}, {"n": -1}, {"skip_role": "narrator"}])
def test_impossible_runs_are_said(given):
    with pytest.raises(ConfigError):
        made().get_messages_from_last_n_runs(**given)


# -- by hand ---------------------------------------------------------------------------------------------


def test_a_memory_is_added_with_topics_replaced_and_deleted_and_all_of_it_can_be_undone():
    memories = made()
    added = memories.add_user_memory("Ada plays the cello", ["music", "hobby"])
    assert (added.text, added.topics) == ("Ada plays the cello", ("music", "hobby"))
    changed = memories.replace_user_memory(added.id, "Ada plays the viola")
    assert (changed.text, changed.topics) == ("Ada plays the viola", ("music", "hobby"))
    assert memories.replace_user_memory(added.id, "Ada plays the viola", ["music"]).topics == ("music",)
    memories.delete_user_memory(added.id, reason="sold it")
    assert memories.get_user_memories() == []
    desk = memories.memory.facts.desk(BLOCK)
    for _ in range(3):
        desk.undo()
    assert texts(memories.get_user_memories()) == ["Ada plays the cello"]


def test_under_approval_what_an_agent_adds_or_replaces_is_given_back_as_what_waits():
    memories = made()
    cello = memories.add_user_memory("Ada plays the cello", ["music"])
    memories.memory.blocks.configure(BLOCK, approval=True)
    added = memories.add_user_memory("Ada has a dog", actor="agent")
    changed = memories.replace_user_memory(cello.id, "Ada plays the viola", actor="agent")
    assert [(fact.text, fact.state) for fact in (added, changed)] == [
        ("Ada has a dog", "proposed"),
        ("Ada plays the viola", "proposed"),
    ]
    assert texts(memories.get_user_memories()) == ["Ada plays the cello"]


def test_deleting_for_good_takes_the_words():
    memories = made()
    added = memories.add_user_memory("Ada plays the cello")
    memories.delete_user_memory(added.id, erase=True)
    assert memories.memory.facts.read(BLOCK, states=None) == []
    hashes = [record.event.content for record in memories.memory.events(kinds=("fact_added",))]
    assert memories.memory.log.texts(hashes) == {}


def test_the_same_words_are_not_added_twice_and_none_are_not_added_at_all():
    memories = made()
    memories.add_user_memory("Ada plays the cello")
    for text in ("Ada plays the cello", "  "):
        with pytest.raises(MessageError):
            memories.add_user_memory(text)
    assert len(memories.get_user_memories()) == 1


def test_a_memory_that_is_not_there_is_said():
    memories = made()
    with pytest.raises(NotFoundError, match="999"):
        memories.replace_user_memory(999, "x")
    with pytest.raises(NotFoundError, match="999"):
        memories.delete_user_memory(999)


# -- searching -------------------------------------------------------------------------------------------


@pytest.fixture
def five():
    memories = made()
    for text in ("plays the cello", "drinks green tea", "lives in Porto", "has two cats", "works as a nurse"):
        memories.add_user_memory(f"Ada {text}")
    return memories


def test_the_last_and_the_first_are_given_oldest_first(five):
    assert texts(five.search_user_memories(limit=2)) == ["Ada has two cats", "Ada works as a nurse"]
    assert texts(five.search_user_memories(limit=2, retrieval_method="first_n")) == [
        "Ada plays the cello",
        "Ada drinks green tea",
    ]
    assert len(five.search_user_memories()) == len(five.search_user_memories(limit=99)) == 5


def test_what_was_changed_last_counts_as_the_last(five):
    oldest = five.get_user_memories()[0]
    five.replace_user_memory(oldest.id, "Ada plays the viola")
    assert texts(five.search_user_memories(limit=1)) == ["Ada plays the viola"]


def test_semantic_search_gives_what_fits_best_first(five):
    assert texts(five.search_user_memories("two cats", limit=1, retrieval_method="semantic")) == ["Ada has two cats"]
    assert texts(five.search_user_memories("green tea", retrieval_method="semantic"))[0] == "Ada drinks green tea"


@pytest.mark.parametrize(
    "given", [{"limit": 0}, {"retrieval_method": "semantic"}, {"query": "x", "retrieval_method": "newest"}]
)
def test_an_impossible_search_is_said(five, given):
    with pytest.raises(ConfigError):
        five.search_user_memories(**given)


# -- Agno's arguments ------------------------------------------------------------------------------------


@dataclass
class AgnosMemory:
    """The fields of Agno's `UserMemory`."""

    memory: str
    memory_id: str | None = None
    topics: list[str] | None = None


def test_the_arguments_of_agno_s_manager_mean_here_what_they_mean_there():
    memories = made()
    cats = memories.add_user_memory(memory=AgnosMemory("Ada has two cats", "mine", ["pets"]), user_id="ada")
    assert (cats.text, cats.key, cats.topics) == ("Ada has two cats", "mine", ("pets",))
    tea = memories.add_user_memory(AgnosMemory("Ada drinks green tea"))
    assert memories.get_user_memory("mine", user_id="ada") == memories.get_user_memory(cats.id) == cats
    assert memories.get_user_memory("none") is None
    assert memories.add_user_memory("Ada has three cats", memory_id="mine").id == cats.id, "the same memory"
    assert memories.replace_user_memory(memory_id=str(tea.id), memory=AgnosMemory("Ada drinks rooibos")).id == tea.id
    assert texts(memories.search_user_memories("rooibos", 1, "agentic", "ada")) == ["Ada drinks rooibos"]
    memories.delete_user_memory(memory_id="mine", user_id="ada")
    assert texts(memories.get_user_memories(user_id="ada")) == ["Ada drinks rooibos"]
    acts = memories.create_user_memories(message="My name is Ada.", user_id="ada")
    assert [act.act for act in acts] == ["add"]
    assert asyncio.run(memories.acreate_user_memories(message="I work in Porto.", user_id="ada"))
    memories.clear_user_memories(user_id="ada")
    assert memories.get_user_memories() == []


@pytest.mark.parametrize(
    "call",
    [
        lambda memories: memories.get_user_memories(user_id="ben"),
        lambda memories: memories.get_user_memory("1", user_id="ben"),
        lambda memories: memories.search_user_memories(user_id="ben"),
        lambda memories: memories.add_user_memory("Ben likes tea", user_id="ben"),
        lambda memories: memories.replace_user_memory("1", "Ben likes tea", user_id="ben"),
        lambda memories: memories.delete_user_memory("1", user_id="ben"),
        lambda memories: memories.clear_user_memories(user_id="ben"),
        lambda memories: memories.create_user_memories(message="I like tea.", user_id="ben"),
    ],
)
def test_another_user_s_name_is_refused_in_a_sentence_by_every_method(call):
    memories = made()
    memories.add_user_memory("Ada has two cats")
    with pytest.raises(ConfigError, match="'ben': this is the memory of the user"):
        call(memories)
    assert texts(memories.get_user_memories()) == ["Ada has two cats"]


@pytest.mark.parametrize("given", [{"topics": "ada"}, {"text": 7}])
def test_what_is_no_memory_is_said_in_a_sentence(given):
    memories = made()
    with pytest.raises((ConfigError, MessageError), match="must be a"):
        memories.add_user_memory(**{"text": "Ada has two cats", **given})


# -- off -------------------------------------------------------------------------------------------------


def test_off_means_that_nothing_is_learned_and_nothing_is_read(uri):
    memories = made("ada", "s", database_uri=uri)
    memories.add_run("My name is Ada", "Hello Ada.")
    memories.enabled = False
    memories.add_run("I am allergic to nuts", "I hear you.")
    assert memories.get_user_memories() == memories.search_user_memories() == []
    assert memories.search_user_memories("name", retrieval_method="semantic") == []
    assert memories.get_session_summary() == ""
    assert not any(message.role == "system" for message in memories.memory.get("What is my name?"))
    assert texts(made("ada", "other", database_uri=uri).get_user_memories()) == ["The user's name is Ada"]


def test_what_was_said_while_it_was_off_is_never_learned():
    memories = made(enabled=False)
    memories.add_run("I am allergic to nuts", "I hear you.")
    memories.enabled = True
    memories.add_run("My name is Ada", "Hello Ada.")
    memories.memory.deliver()
    assert texts(memories.get_user_memories()) == ["The user's name is Ada"]
    assert "nuts" not in memories.get_session_summary()


def test_what_was_due_when_it_was_switched_off_waits(uri):
    chat = ScriptedChat(extract=[ModelUnreachableError("Nothing answers.")] * 3 + [found("The user's name is Ada")])
    memories = made("ada", "s", database_uri=uri, chat=chat, summaries=False)
    memories.add_run("My name is Ada", "Hello.")
    asked = len(chat.asked)
    memories.enabled = False
    memories.memory.deliver()
    memories.add_run("And I like tea", "I see.")
    assert len(chat.asked) == asked


def test_off_refuses_what_would_learn_and_lets_delete(five):
    known = five.get_user_memories()
    five.enabled = False
    for attempt in (
        lambda: five.add_user_memory("Ada has a secret"),
        lambda: five.replace_user_memory(known[0].id, "Ada has a secret"),
        lambda: five.create_user_memories("I have a secret"),
        five.create_session_summary,
    ):
        with pytest.raises(ConfigError, match="switched off"):
            attempt()
    five.delete_user_memory(known[0].id)
    five.enabled = True
    assert five.get_user_memories() == known[1:]
    assert five.get_messages_from_last_n_runs() == []


def test_it_stays_off_until_it_is_switched_on(uri):
    made("ada", "s", database_uri=uri, enabled=False)
    assert not made("ada", "s", database_uri=uri).enabled
    assert made("ada", "other", database_uri=uri).enabled
    assert made("ada", "s", database_uri=uri, enabled=True).enabled
    assert made("ada", "s", database_uri=uri).enabled


# -- by a model ------------------------------------------------------------------------------------------


def test_a_model_adds_updates_deletes_and_leaves_and_every_act_is_told_and_recorded():
    chat = ScriptedChat(
        extract=[
            found("The user lives in Porto", topics=["home"]),
            found("The user moved to Lisbon", topics=["home"]),
            found("The user lives in Lisbon now", topics=["home"]),
            found("The user lives in Lisbon no more", topics=["home"]),
        ],
        decide=[
            decided(("update", 1, "The user lives in Lisbon, before in Porto")),
            decided(("none", 1, None)),
            decided(("delete", 1, None)),
        ],
    )
    memories = made(chat=chat, summaries=False)
    acts = memories.create_user_memories("I live in Porto")
    assert [(act.act, act.text) for act in acts] == [("add", "The user lives in Porto")]
    assert [(fact.id, fact.text, fact.topics) for fact in memories.get_user_memories()] == [
        (acts[0].memory, "The user lives in Porto", ("home",))
    ]
    acts = memories.create_user_memories("I moved to Lisbon")
    assert [(act.act, act.text) for act in acts] == [("update", "The user moved to Lisbon")]
    assert texts(memories.get_user_memories()) == ["The user lives in Lisbon, before in Porto"]
    assert [act.act for act in memories.create_user_memories("I live in Lisbon now")] == ["none"]
    acts = memories.create_user_memories("I live in Lisbon no more")
    assert [act.act for act in acts] == ["delete"]
    assert memories.get_user_memories() == []
    assert kinds(memories).count("fact_decided") == 4
    assert chat.asked.count("extract") == 4


def test_a_model_that_invents_ids_and_acts_changes_nothing_it_must_not():
    chat = ScriptedChat(
        extract=[found("The user plays the cello"), found("The user has a cello from Cremona")],
        decide=[decided(("delete", 77, None)), decided(("burn", 1, None))],
    )
    memories = made(chat=chat, summaries=False)
    memories.create_user_memories("I play the cello")
    acts = memories.create_user_memories("I have a cello from Cremona")
    assert "refuse" in [act.act for act in acts]
    assert "The user plays the cello" in texts(memories.get_user_memories())
    assert "proposal_refused" in kinds(memories)


def test_a_model_that_says_the_same_forty_times_is_heard_once():
    chat = ScriptedChat(extract=[found(*["The user plays the cello"] * 40)])
    memories = made(chat=chat, summaries=False)
    memories.create_user_memories("I play the cello")
    assert texts(memories.get_user_memories()) == ["The user plays the cello"]


def test_a_model_that_cannot_keep_the_form_loses_nothing():
    chat = ScriptedChat(extract=[ModelAnswerError("no form")] * 2 + [found("The user plays the cello")])
    memories = made(chat=chat, summaries=False)
    with pytest.raises(ModelError, match="The messages are kept"):
        memories.create_user_memories("I play the cello")
    assert memories.get_user_memories() == []
    assert len(memories.get_messages_from_last_n_runs()) == 1
    while memories.memory.session.deliveries(states=("pending",)):
        memories.memory.deliver()
    assert texts(memories.get_user_memories()) == ["The user plays the cello"]


def test_a_model_that_does_not_answer_makes_no_run_fail():
    chat = ScriptedChat(extract=[ModelUnreachableError("Nothing answers."), found("The user plays the cello")])
    memories = made(chat=chat, summaries=False)
    receipt = memories.add_run("I play the cello", "How lovely.")
    assert receipt.waiting == (BLOCK,)
    memories.memory.deliver()
    assert texts(memories.get_user_memories()) == ["The user plays the cello"]


def test_words_that_are_nobody_s_become_no_memories():
    with pytest.raises(MessageError):
        made().create_user_memories([assistant("You live in Porto")])


def test_what_is_found_in_nothing_is_no_act():
    memories = made()
    assert memories.create_user_memories("Good morning") == []
    assert [act.act for act in memories.create_user_memories([user("My name is Ada"), assistant("Hello")])] == ["add"]


# -- the session's summary -------------------------------------------------------------------------------


def test_the_summary_is_of_the_session_and_its_runs(uri):
    one, two = made("ada", "one", database_uri=uri), made("ada", "two", database_uri=uri)
    one.add_run("The boiler of the flat in Porto broke on Monday", "Call Rui, 555 0199.")
    two.add_run("Aunt Olga wants a lemon cake for her birthday", "Then buy six lemons.")
    summary = one.create_session_summary()
    assert summary == one.get_session_summary()
    assert "Porto" in summary
    assert "Olga" not in summary
    assert "Olga" in two.get_session_summary()


def test_a_model_that_fails_leaves_the_former_summary():
    chat = ScriptedChat(
        extract=[found()],
        summarise=[{"summary": "Ada asked about the boiler."}, ModelUnreachableError("Nothing answers.")],
    )
    memories = made(chat=chat)
    memories.add_run("The boiler broke", "Call Rui.")
    assert memories.get_session_summary() == "Ada asked about the boiler."
    with pytest.raises(ModelError):
        memories.create_session_summary()
    assert memories.get_session_summary() == "Ada asked about the boiler."


def test_without_runs_there_is_no_summary_to_create():
    memories = made()
    assert memories.get_session_summary() == ""
    with pytest.raises(NotFoundError):
        memories.create_session_summary()


def test_a_session_without_summaries_says_so():
    memories = made(summaries=False)
    memories.add_run("The boiler broke", "Call Rui.")
    for attempt in (memories.create_session_summary, memories.get_session_summary):
        with pytest.raises(NotFoundError, match="keeps no summary"):
            attempt()


def test_the_async_names_do_the_same():
    memories = made()

    async def talk():
        await memories.aadd_run("My name is Ada", "Hello Ada.")
        acts = await memories.acreate_user_memories("I am allergic to nuts")
        return acts, await memories.acreate_session_summary()

    acts, summary = asyncio.run(talk())
    assert [act.act for act in acts] == ["add"]
    assert "Ada" in summary
    assert len(memories.get_user_memories()) == 2
