"""The loop of an agent that keeps its own memory: rounds, stopping, failing, going in circles."""

import pytest
from engine_fakes import NoteExtractor, assistant, open_memory, user
from fakes import FakeChat, FakeEmbedder

from memory_core import (
    FactExtractionMemoryBlock,
    Memory,
    MessageRole,
    ModelTimeoutError,
    Services,
    StaticMemoryBlock,
    ToolCallPart,
    VectorMemoryBlock,
)
from memory_core.agent import loop
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.events import ToolCalled
from memory_core.models.offline.responder import OfflineResponder
from memory_inspector.checks.simulation import rebuild


def human(text="", **settings):
    given = {"description": "What you know about the user.", "read_only": False} | settings
    return StaticMemoryBlock(name="Human", static_content=text, **given)


@pytest.fixture
def memory():
    return open_memory(memory_blocks=[human()], token_limit=4000)


def append(content, **values):
    kwargs = {"label": "Human", "content": content}
    return ToolCallPart(tool_name="core_memory_append", tool_kwargs=kwargs, **values)


def ask(memory, model, words="I live in Porto", **options):
    memory.put(user(words), message_id="t-user")
    return loop.reply(memory, model, "t", **options)


def said(memory):
    return [(str(message.role), message.content) for message in memory.get_all()]


def text(memory):
    return next(attached.state for attached in memory.blocks if attached.name == "Human")


def outcomes(memory):
    return [r.event.outcome for r in memory.events(kinds=("tool_called",)) if isinstance(r.event, ToolCalled)]


def test_calls_are_made_and_put_with_their_results_and_the_model_is_asked_again_with_the_new_memory(memory):
    model = FakeChat(["Let me note that. ", append("Sam lives in Porto")], "Noted.")
    reply = ask(memory, model)
    assert (reply.text, reply.stopped) == ("Noted.", False)
    assert said(memory) == [
        ("user", "I live in Porto"),
        ("assistant", "Let me note that. "),
        ("tool", "Appended to Human. It has 18 characters."),
        ("assistant", "Noted."),
    ]
    _, calls, result, _ = memory.get_all()
    assert calls.tool_calls[0].tool_call_id == result.tool_call_id is not None
    assert result.additional_kwargs["name"] == "core_memory_append"
    first, second = model.asked
    assert "Sam lives in Porto" not in first[0].content
    assert "Sam lives in Porto" in second[0].content
    assert second[-1].role is MessageRole.TOOL
    assert model.offered[0] == model.offered[1] != []


def test_without_an_editable_block_no_tools_are_offered_and_it_is_one_answer():
    memory = open_memory(memory_blocks=[human("x", read_only=True)])
    model = FakeChat("Eight")
    ask(memory, model, "How many")
    assert model.offered == [[]]
    assert said(memory)[1:] == [("assistant", "Eight")]


def test_parallel_calls_are_made_in_order_and_every_one_gets_an_id_of_its_own(memory):
    calls = [append("a", tool_call_id="x"), append("b", tool_call_id="x"), append("c"), append("d", tool_call_id="y")]
    ask(memory, FakeChat([*calls], "Done"))
    assert text(memory) == "a\nb\nc\nd"
    _, asked, *results, _ = memory.get_all()
    ids = [call.tool_call_id for call in asked.tool_calls]
    assert len(set(ids)) == 4
    assert (ids[0], ids[3]) == ("x", "y")
    assert [message.tool_call_id for message in results] == ids


def test_a_refused_call_is_told_to_the_model_which_goes_on(memory):
    model = FakeChat([ToolCallPart(tool_name="memory_wipe")], [append("Sam lives in Porto")], "Noted.")
    ask(memory, model)
    refused = memory.get_all()[2]
    assert refused.content.startswith("There is no tool “memory_wipe”.")
    assert refused.additional_kwargs["is_error"] is True
    assert outcomes(memory) == ["refused", "done"]
    assert text(memory) == "Sam lives in Porto"


def test_the_same_call_a_third_time_is_not_made(memory):
    search = ToolCallPart(tool_name="conversation_search", tool_kwargs={"query": "Porto"})
    ask(memory, FakeChat([search], [search], [search], [search], "Enough."))
    assert outcomes(memory) == ["done", "done", "refused", "refused"]
    assert memory.get_all()[-2].content.startswith("This call was made 2 times already.")


def test_after_eight_rounds_the_model_has_to_answer_without_tools(memory):
    model = FakeChat(*([append(f"line {number}")] for number in range(8)), "Enough.")
    reply = ask(memory, model)
    assert reply.text == "Enough."
    assert [bool(offered) for offered in model.offered] == [True] * 8 + [False]
    assert text(memory).count("line") == 8


def test_calls_that_were_not_offered_are_not_made(memory):
    model = FakeChat(*([append(f"line {number}")] for number in range(8)), ["Enough.", append("one more")])
    ask(memory, model)
    assert "one more" not in text(memory)
    assert memory.get_all()[-1].tool_calls == ()


def test_forty_calls_at_once_are_cut_and_said_so(memory):
    ask(memory, FakeChat([append(f"line {number}") for number in range(40)], "Done"))
    assert text(memory).count("line") == loop.MAX_CALLS
    assert memory.get_all()[-2].content.startswith("40 calls at once are too many: this one and all after it, 24,")


def test_a_model_that_fails_in_a_later_round_leaves_what_was_done(memory):
    class Failing(FakeChat):
        def stream(self, messages, tools=()):
            if not self.answers:
                raise ModelTimeoutError("The model did not answer within 60 s.")
            return super().stream(messages, tools)

    with pytest.raises(ModelTimeoutError):
        ask(memory, Failing([append("Sam lives in Porto")]))
    assert text(memory) == "Sam lives in Porto"
    assert [role for role, _ in said(memory)] == ["user", "assistant", "tool"]
    loop.reply(memory, FakeChat("Noted."), "t+")
    assert said(memory)[-1] == ("assistant", "Noted.")


def test_stopped_between_rounds_nothing_more_is_asked(memory):
    model = FakeChat([append("Sam lives in Porto")], "never said")
    reply = ask(memory, model, watch=loop.ReplyCallbacks(stopped=lambda: bool(memory.events(kinds=("tool_called",)))))
    assert reply.stopped
    assert len(model.asked) == 1
    assert text(memory) == "Sam lives in Porto"


def test_stopped_while_it_speaks_no_call_is_made_and_the_words_are_kept(memory):
    pieces = []
    model = FakeChat(["Let me note", append("x")])
    reply = ask(memory, model, watch=loop.ReplyCallbacks(text=pieces.append, stopped=lambda: bool(pieces)))
    assert reply.stopped
    assert said(memory)[1:] == [("assistant", "Let me note")]
    assert text(memory) == ""


def test_a_round_done_again_after_a_crash_is_stored_once(memory):
    ask(memory, FakeChat([append("Sam lives in Porto")], "Noted."))
    ask(memory, FakeChat([append("Sam lives in Porto")], "Noted."))
    assert len(said(memory)) == 4


def test_a_flush_never_parts_calls_from_their_results():
    memory = open_memory(memory_blocks=[human()], token_limit=80, token_flush_size=10)
    for number in range(6):
        memory.put(user(f"I am in place {number} of the list"), message_id=f"u{number}")
        loop.reply(memory, FakeChat([append(f"place {number}")], "Noted."), f"t{number}")
        queue = memory.session.messages()
        active = [m for m in queue if m.status == "active"]
        calls = {call.tool_call_id for m in active for call in m.message.tool_calls}
        assert calls == {m.message.tool_call_id for m in active if m.message.role is MessageRole.TOOL}
    assert memory.session.status().flushes > 0


def test_what_a_memory_tool_returned_is_not_learned_again():
    heard = []

    class Listening(NoteExtractor):
        def extract(self, messages, *, known):
            heard.extend(str(message.role) for message in messages)
            return super().extract([], known=known)

    services = Services(embedder=FakeEmbedder(), extractor=Listening())
    blocks = [human(), FactExtractionMemoryBlock(name="facts", priority=1), VectorMemoryBlock(name="turns", priority=2)]
    memory = open_memory(memory_blocks=blocks, services=services)
    memory.put_messages([user("Rui stays off meat"), assistant("Noted.")])
    search = ToolCallPart(tool_name="conversation_search", tool_kwargs={"query": "meat"})
    ask(memory, FakeChat([search], "You said so."), "What about meat?")
    memory.flush(all=True)
    assert "tool" not in heard
    assert "user" in heard
    roles = [str(m.message.role) for turn in memory.retrieval.stored_turns("turns") for m in turn.messages]
    assert "tool" not in roles


# -- by rules -------------------------------------------------------------------------------------


def talk(memory, words, number=0):
    memory.put(user(words), message_id=f"o{number}-user")
    return loop.reply(memory, OfflineResponder(), f"o{number}").text


def test_the_rules_write_facts_into_the_block_about_the_user_and_acknowledge(memory):
    answer = talk(memory, "I live in Lisbon. My sister Ana is allergic to nuts.")
    assert answer.startswith("Noted: “The user lives in Lisbon”; ")
    assert text(memory).splitlines() == [
        "The user lives in Lisbon",
        "Ana is the user's sister",
        "Ana is allergic to nuts",
    ]


def test_the_rules_replace_the_line_that_a_fact_outdates(memory):
    talk(memory, "I live in Lisbon. I like jazz.", 0)
    talk(memory, "I live in Porto now.", 1)
    assert text(memory) == "The user lives in Porto\nThe user likes jazz"
    assert [r.event.tool for r in memory.events(kinds=("tool_called",))] == [
        "core_memory_append",
        "core_memory_replace",
    ]


def test_the_rules_never_write_what_the_block_says(memory):
    for number in range(3):
        talk(memory, "I live in Lisbon", number)
    assert text(memory) == "The user lives in Lisbon"
    assert outcomes(memory) == ["done"]


def test_the_rules_choose_the_block_by_its_label_or_description_else_the_first():
    notes = {"name": "Notes", "static_content": "", "read_only": False}
    for blocks, chosen in (
        ([StaticMemoryBlock(**notes), human()], "Human"),
        (
            [
                StaticMemoryBlock(**notes),
                StaticMemoryBlock(**notes | {"name": "Profile"}, description="What you know about the user"),
            ],
            "Profile",
        ),
        ([StaticMemoryBlock(**notes)], "Notes"),
    ):
        memory = open_memory(memory_blocks=blocks)
        talk(memory, "I live in Lisbon")
        assert [r.event.block for r in memory.events(kinds=("tool_called",))] == [chosen]


def test_the_rules_say_what_was_refused():
    memory = open_memory(memory_blocks=[human(limit=10)])
    assert talk(memory, "I live in Lisbon") == (
        "I could not write that down: Human would have 24 characters; its limit is 10. Nothing was changed. "
        "Shorten it first."
    )


def test_the_rules_archive_what_is_for_later_and_search_when_asked():
    services = Services(embedder=FakeEmbedder(), extractor=NoteExtractor())
    store = FactExtractionMemoryBlock(name="Archival", accept_short_term_memory=False, show="none")
    memory = open_memory(memory_blocks=[human(), store], services=services, token_limit=4000)
    assert talk(memory, "Remember for later: the band wants soup first", 0) == (
        "Archived for later: the band wants soup first."
    )
    assert [fact.text for fact in memory.facts.read("Archival")] == ["the band wants soup first"]
    assert talk(memory, "Search your archive for soup band", 1) == "In my archive: the band wants soup first."
    talk(memory, "Rui stays off meat these days", 2)
    assert talk(memory, "What did I say about meat?", 3).startswith("I searched our conversation: in turn 3 you said")
    assert talk(memory, "Search our conversation for umbrellas", 4) == (
        "I searched our conversation and found nothing about that."
    )
    assert text(memory) == ""


def test_a_question_is_answered_from_the_block_that_the_rules_wrote(memory):
    talk(memory, "I live in Lisbon", 0)
    memory.set([user("Something else")])
    assert "Lisbon" in talk(memory, "Where do I live?", 1)


def test_while_a_recording_plays_the_rules_edit_and_say_nothing(memory):
    memory.put(user("I live in Lisbon"))
    (result,) = loop.act(memory, OfflineResponder(), "rules-1")
    assert result.done
    assert [role for role, _ in said(memory)] == ["user", "assistant", "tool"]
    assert memory.get_all()[1].additional_kwargs["model"] == OfflineResponder().name
    assert memory.events(kinds=("context_built", "model_called")) == []


def test_another_process_goes_on_with_the_edited_block(tmp_path):
    uri = f"sqlite:///{tmp_path}/m.db"
    memory = open_memory(database_uri=uri, memory_blocks=[human()])
    talk(memory, "I live in Lisbon")
    again = Memory.open("s", memory.session.database, services=memory.session.services)
    assert "The user lives in Lisbon" in again.build_context("x").messages[0].content


# -- what the log and other places know of it ------------------------------------------------------


def a_talk(**settings):
    services = Services(embedder=FakeEmbedder(), extractor=NoteExtractor())
    store = FactExtractionMemoryBlock(name="Archival", accept_short_term_memory=False, show="none")
    memory = open_memory(memory_blocks=[human(), store], services=services, token_limit=4000, **settings)
    for number, words in enumerate(("I live in Lisbon", "Remember for later: soup first", "I live in Porto")):
        talk(memory, words, number)
    return memory


def test_from_the_log_alone_the_blocks_can_be_told_as_they_were():
    memory = a_talk()
    past = memory.log.history()
    for turn, said in (
        (1, "The user lives in Lisbon"),
        (2, "The user lives in Lisbon"),
        (3, "The user lives in Porto"),
    ):
        position = max(record.position for record in past.records if record.turn == turn)
        blocks = {block.name: block for block in past.blocks_at(position)}
        assert memory.log.texts([blocks["Human"].text]) == {blocks["Human"].text: said}
    rebuilt = rebuild(memory.events(), lambda key: memory.log.texts([key]).get(key))
    assert rebuilt.missing == ()
    assert [fact.text for fact in rebuilt.facts] == ["soup first"]
    assert [message.message for message in rebuilt.queue] == memory.get_all()


def test_a_branch_and_a_bundle_keep_blocks_archive_and_calls():
    memory = a_talk()
    earlier = memory.branch(2)
    copy = import_bundle(memory.session.database, read_bundle(write_bundle(memory.session.database, "s"), "s.zip"))
    copied = Memory.open(copy, memory.session.database, services=memory.session.services)
    assert (text(earlier), text(copied)) == ("The user lives in Lisbon", "The user lives in Porto")
    assert [fact.text for fact in copied.facts.read("Archival")] == ["soup first"]
    called = [r.event for r in copied.events(kinds=("tool_called",))]
    assert called == [r.event for r in memory.events(kinds=("tool_called",))]
    assert len(copied.log.texts(event.arguments for event in called)) == 3
    assert talk(earlier, "I live in Faro", 9).startswith("Noted")
    assert text(earlier) == "The user lives in Faro"


def test_a_reset_forgets_what_was_written_in_calls_and_keeps_the_blocks():
    memory = a_talk()
    called = [r.event for r in memory.events(kinds=("tool_called",))]
    memory.reset()
    assert memory.log.texts(key for event in called for key in (event.arguments, event.result)) == {}
    assert text(memory) == "The user lives in Porto"
