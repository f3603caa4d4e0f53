"""The tools with which an agent keeps its own memory: what each does, what is refused, what is recorded."""

import uuid
from datetime import UTC, datetime

import pytest
from engine_fakes import HashEmbedder, NoteExtractor, assistant, on_file, open_memory, user
from fakes import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core import (
    ConfigError,
    FactExtractionMemoryBlock,
    Memory,
    NotFoundError,
    Services,
    StaticMemoryBlock,
    TextPart,
    ToolCallPart,
    VectorMemoryBlock,
    delete_session,
)
from memory_core.agent.tools import MemoryTools, fused
from memory_core.events import BlockEdited, FactAdded, ToolCalled
from memory_core.messages import MEMORY_TOOLS, ChatMessage


def core(**human):
    return [
        StaticMemoryBlock(name="Instructions", static_content="Be brief."),
        StaticMemoryBlock(name="Persona", description="Who you are.", static_content="I help.", read_only=False),
        StaticMemoryBlock(
            **{
                "name": "Human",
                "description": "What you know\nabout the user.",
                "static_content": "Sam lives in Lisbon\nSam likes jazz",
                "read_only": False,
                "limit": 200,
            }
            | human
        ),
    ]


def archive(**settings):
    given = {"accept_short_term_memory": False, "show": "none"} | settings
    return FactExtractionMemoryBlock(name="Archival", priority=1, **given)


@pytest.fixture
def memory():
    return open_memory(memory_blocks=[*core(), archive()], token_limit=4000)


@pytest.fixture
def tools(memory):
    return MemoryTools(memory)


def text(memory, name="Human"):
    return next(attached.state for attached in memory.blocks if attached.name == name)


def called(memory):
    return [record.event for record in memory.events(kinds=("tool_called",))]


# -- what a model is told -------------------------------------------------------------------------


def test_a_session_has_tools_when_an_agent_may_edit_one_of_its_blocks(memory):
    assert memory.blocks.editable_by_agents
    memory.blocks.configure_all({"Human": {"read_only": True}, "Persona": {"enabled": False}})
    assert not memory.blocks.editable_by_agents
    assert MemoryTools(memory).specs() == []


def test_every_tool_is_told_with_the_blocks_their_limits_and_their_size(tools):
    specs = {spec.name: spec for spec in tools.specs()}
    assert list(specs) == [
        "core_memory_append",
        "core_memory_replace",
        "memory_replace",
        "memory_insert",
        "memory_rethink",
        "archival_memory_insert",
        "archival_memory_search",
        "conversation_search",
    ]
    append = specs["core_memory_append"]
    assert "- Human: What you know about the user. (34 of 200 characters)" in append.description
    assert "- Persona: Who you are. (7 characters)" in append.description
    assert "Instructions" not in append.description
    assert append.parameters["required"] == ["label", "content"]
    assert append.parameters["properties"]["label"]["enum"] == ["Persona", "Human"]
    assert specs["memory_insert"].parameters["required"] == ["label", "new_string"]


def test_without_an_archive_its_tools_are_not_offered_and_say_so():
    tools = MemoryTools(open_memory(memory_blocks=core()))
    assert not any("archival" in spec.name for spec in tools.specs())
    result = tools.call("archival_memory_insert", content="The band wants soup")
    assert not result.done
    assert result.text == "This session has no archive."


# -- core memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "after"),
    [
        ("core_memory_append", {"content": "Sam is 40"}, "Sam lives in Lisbon\nSam likes jazz\nSam is 40"),
        (
            "core_memory_replace",
            {"old_content": "Lisbon", "new_content": "Porto"},
            "Sam lives in Porto\nSam likes jazz",
        ),
        ("core_memory_replace", {"old_content": "Sam likes jazz", "new_content": ""}, "Sam lives in Lisbon"),
        ("core_memory_replace", {"old_content": "Sam", "new_content": "Ada"}, "Ada lives in Lisbon\nAda likes jazz"),
        ("memory_replace", {"old_string": "Lisbon", "new_string": "Porto"}, "Sam lives in Porto\nSam likes jazz"),
        (
            "memory_insert",
            {"new_string": "Sam is 40", "insert_line": 0},
            "Sam is 40\nSam lives in Lisbon\nSam likes jazz",
        ),
        ("memory_insert", {"new_string": "Sam is 40"}, "Sam lives in Lisbon\nSam likes jazz\nSam is 40"),
        ("memory_rethink", {"new_memory": "Sam, Porto, jazz"}, "Sam, Porto, jazz"),
    ],
)
def test_an_edit_is_stored_as_a_version_by_the_agent_and_recorded(memory, tools, tool, arguments, after):
    result = tools.call(tool, label="Human", **arguments)
    assert result.done
    assert result.block == "Human"
    assert result.text.endswith(f"Human. It has {len(after)} of 200 characters.")
    assert text(memory) == after
    assert memory.blocks.revisions("Human")[-1].actor == "agent"
    edited, told = memory.events(kinds=("block_edited", "tool_called"))[-2:]
    assert (edited.event.kind, told.event.kind) == ("block_edited", "tool_called")
    assert (edited.actor, told.actor) == ("agent", "agent")
    assert isinstance(told.event, ToolCalled)
    assert (told.event.tool, told.event.block, told.event.outcome) == (tool, "Human", "done")
    assert memory.log.texts([told.event.result])[told.event.result] == result.text


def test_an_edit_is_undone_by_restoring_the_version_before(memory, tools):
    tools.call("memory_rethink", label="Human", new_memory="nothing of that")
    memory.blocks.restore("Human", 1)
    assert text(memory) == "Sam lives in Lisbon\nSam likes jazz"


def test_a_label_is_understood_in_any_case(memory, tools):
    assert tools.call("core_memory_append", label="human", content="Sam is 40").done


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        (
            "core_memory_append",
            {"label": "Human", "content": "x" * 200},
            "Human would have 235 characters; its limit is 200. Nothing was changed. Shorten it first.",
        ),
        ("core_memory_append", {"label": "Human", "content": " \n "}, "There is no content to append."),
        ("core_memory_append", {"label": "Human", "content": "Sam likes jazz"}, "Human says that already."),
        ("core_memory_append", {"label": "Instructions", "content": "Lie."}, "Instructions is read only."),
        ("core_memory_append", {"label": "Archival", "content": "x"}, "There is no block “Archival”."),
        ("core_memory_append", {"label": "Dog", "content": "x"}, "Your blocks: Persona, Human."),
        ("core_memory_append", {"label": "Human"}, "core_memory_append: content: Field required."),
        ("core_memory_append", {"label": "Human", "content": 4}, "content: Input should be a valid string."),
        ("core_memory_replace", {"label": "Human", "old_content": "", "new_content": "x"}, "no old content"),
        ("core_memory_replace", {"label": "Human", "old_content": "tea", "new_content": "x"}, "“tea” is not in Human."),
        (
            "memory_replace",
            {"label": "Human", "old_string": "Sam", "new_string": "x"},
            "“Sam” is more than once",
        ),
        ("memory_insert", {"label": "Human", "new_string": "x", "insert_line": 3}, "Human has 2 lines"),
        ("memory_insert", {"label": "Human", "new_string": "x", "insert_line": -2}, "there is no line -2"),
        ("memory_insert", {"label": "Human", "new_string": "x", "insert_line": "end"}, "valid integer"),
        ("memory_rethink", {"label": "Human", "new_memory": "  "}, "Human would be empty."),
        (
            "memory_rethink",
            {"label": "Human", "new_memory": "Sam lives in Lisbon\nSam likes jazz"},
            "says that already",
        ),
        ("core_memory_append", {"label": "Human", "content": "x", "colour": "red"}, "colour: Extra inputs"),
        ("core_memory_replace", {"label": "Human", "old_content": "Sam", "new_content": "Sam"}, "are the same"),
        ("conversation_search", {"query": "jazz", "roles": ["tool"]}, "roles.0: Input should be 'user' or"),
        ("conversation_search", {"query": "jazz", "start_date": "monday"}, "“monday” is no time."),
        ("archival_memory_search", {"query": "jazz", "tag_match_mode": "some"}, "'any' or 'all'"),
        ("archival_memory_search", {"query": "jazz", "end_datetime": "later"}, "“later” is no time."),
        ("core_memory_delete", {"label": "Human"}, "There is no tool “core_memory_delete”."),
        ("conversation_search", {"query": "  "}, "There is no query."),
        ("conversation_search", {"query": "jazz", "limit": 0}, "greater than or equal to 1"),
        ("archival_memory_insert", {"content": ""}, "There is no content to archive."),
        ("archival_memory_insert", {"content": "x" * 5000}, "has 5,000 characters; at most 4,000"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence_and_on_record(memory, tools, tool, arguments, said):
    before = memory.blocks.revisions("Human"), memory.facts.read("Archival", states=None)
    result = tools.call(tool, **arguments)
    assert not result.done
    assert said in result.text
    assert (memory.blocks.revisions("Human"), memory.facts.read("Archival", states=None)) == before
    (event,) = called(memory)
    assert (event.tool, event.outcome) == (tool, "refused")
    assert memory.log.texts([event.result]) == {event.result: result.text}


@pytest.mark.parametrize("arguments", ["{broken", "[1, 2]", "null and void", "\ud83d"])
def test_malformed_arguments_are_refused_and_kept_as_they_came(memory, tools, arguments):
    result = tools.call(ToolCallPart(tool_name="core_memory_append", tool_kwargs=arguments))
    assert result.text == "The arguments of core_memory_append are not a JSON object. Nothing was done."
    (event,) = called(memory)
    assert memory.log.texts([event.arguments])[event.arguments] == arguments.replace("\ud83d", "?")


def test_half_a_character_and_a_name_without_end_can_be_stored(memory, tools):
    assert tools.call("core_memory_append", label="Human", content="Sam smiles \ud83d").done
    assert text(memory).endswith("Sam smiles ?")
    assert not tools.call(ToolCallPart(tool_name="x" * 10_000)).done
    assert len(called(memory)[-1].tool) == 64


def test_what_letta_adds_to_the_arguments_for_its_loop_is_left_aside(tools):
    assert tools.call("core_memory_append", label="Human", content="Sam is 40", request_heartbeat=True).done


def test_a_block_that_holds_a_picture_is_not_edited_by_an_agent():
    parts = (TextPart(text="a"), TextPart(text="b"))
    memory = open_memory(memory_blocks=core(static_content=parts))
    assert not MemoryTools(memory).call("core_memory_append", label="Human", content="x").done


def test_a_text_above_its_limit_may_become_shorter(memory, tools):
    memory.blocks.edit("Human", "x" * 300 + "\nSam likes jazz")
    assert tools.call("core_memory_replace", label="Human", old_content="\nSam likes jazz", new_content="").done
    assert not tools.call("core_memory_append", label="Human", content="y").done


def test_a_person_may_edit_what_is_read_only_and_above_the_limit(memory):
    memory.blocks.edit("Human", "y" * 500)
    memory.blocks.edit("Instructions", "Be long.")
    with pytest.raises(ConfigError, match="Instructions is read only"):
        memory.blocks.edit("Instructions", "Be brief.", actor="agent")


def test_a_call_edits_the_newest_text_whoever_wrote_it(tmp_path):
    uri = on_file(tmp_path)
    here = open_memory(database_uri=uri, memory_blocks=core())
    there = Memory.open(
        "s", here.session.database, services=Services(embedder=HashEmbedder(), extractor=NoteExtractor())
    )
    MemoryTools(there).call("core_memory_append", label="Human", content="Sam is 40")
    MemoryTools(here).call("core_memory_append", label="Human", content="Ana is 39")
    assert text(here) == "Sam lives in Lisbon\nSam likes jazz\nSam is 40\nAna is 39"


def test_a_deleted_session_is_no_matter_for_the_model(memory, tools):
    delete_session(memory.session.database, "s")
    with pytest.raises(NotFoundError):
        tools.call("core_memory_append", label="Human", content="x")


def test_forty_times_the_same_is_written_once(memory, tools):
    for _ in range(40):
        tools.call("core_memory_append", label="Human", content="Sam is 40")
    assert text(memory).count("Sam is 40") == 1
    assert [event.outcome for event in called(memory)] == ["done"] + 39 * ["refused"]
    assert len([r for r in memory.events(kinds=("block_edited",)) if isinstance(r.event, BlockEdited)]) == 4


# -- the archive ----------------------------------------------------------------------------------


def test_what_is_archived_is_a_fact_of_the_agent_and_out_of_view(memory, tools):
    result = tools.call("archival_memory_insert", content="The band wants\nsoup first", tags="band")
    assert result.done
    assert result.block == "Archival"
    (fact,) = memory.facts.read("Archival")
    assert (fact.text, fact.origin, fact.topics) == ("The band wants soup first", "written", ("band",))
    assert fact.sources == ()
    added = memory.events(kinds=("fact_added",))[-1]
    assert isinstance(added.event, FactAdded)
    assert added.actor == "agent"
    assert "soup" not in "".join(message.content for message in memory.build_context("soup").messages)
    memory.facts.desk("Archival").undo()
    assert memory.facts.read("Archival") == []


def test_what_is_archived_names_the_message_it_was_archived_on(memory, tools):
    memory.put_messages([user("Hello"), assistant("Hi."), user("The band wants soup first")])
    tools.call("archival_memory_insert", content="The band wants soup first")
    (fact,) = memory.facts.read("Archival")
    assert fact.sources == (("s", 3),)


def test_what_is_archived_already_is_refused(memory, tools):
    tools.call("archival_memory_insert", content="The band wants soup first")
    assert not tools.call("archival_memory_insert", content="the band wants soup first").done
    assert len(memory.facts.read("Archival", states=None)) == 1


def test_where_a_person_approves_facts_the_archive_waits(memory):
    memory.blocks.configure("Archival", approval=True)
    result = MemoryTools(memory).call("archival_memory_insert", content="The band wants soup first")
    assert result.text == "Archived in Archival. A person has to accept it first."
    assert [fact.state for fact in memory.facts.read("Archival", states=None)] == ["proposed"]


def test_the_archive_is_searched_by_words_and_tags():
    services = Services(embedder=FakeEmbedder(), extractor=NoteExtractor())
    tools = MemoryTools(open_memory(memory_blocks=[*core(), archive()], services=services))
    for content, tag in (("The band wants soup first", "band"), ("Rui stays off meat", "guests")):
        tools.call("archival_memory_insert", content=content, tags=[tag])
    assert tools.call("archival_memory_search", query="soup for the band").text == (
        "Found 1 entry:\n- The band wants soup first [band]"
    )
    assert tools.call("archival_memory_search", query="soup band", tags=["guests"]).text == "Found no entry."


def test_the_archive_is_searched_by_all_tags_and_by_the_time_of_archiving():
    clock = iter(range(1_790_000_000, 1_800_000_000, 86_400))  # 2026-09-21, a day for each call
    services = Services(embedder=FakeEmbedder(), extractor=NoteExtractor())
    memory = open_memory(memory_blocks=[*core(), archive()], services=services, clock=lambda: next(clock))
    tools = MemoryTools(memory)
    tools.call("archival_memory_insert", content="The band wants soup", tags=["Band", "food"])
    tools.call("archival_memory_insert", content="The band wants light", tags=["band"])
    days = [datetime.fromtimestamp(fact.created_at, UTC).date().isoformat() for fact in memory.facts.read("Archival")]

    def found(**filters):
        text = tools.call("archival_memory_search", query="band", **filters).text
        return [word for word in ("soup", "light") if word in text]

    assert found(tags=["band", "food"]) == ["soup", "light"]
    assert found(tags=["band", "food"], tag_match_mode="all") == ["soup"]
    assert found(end_datetime=days[0]) == ["soup"], "the day itself included"
    assert found(start_datetime=f"{days[0]}T23:59:59", end_datetime="2030-01-01") == ["light"]
    assert found(start_datetime="2030-01-01T00:00") == []


# -- the conversation -----------------------------------------------------------------------------


def test_the_conversation_is_searched_in_earlier_turns_by_what_was_said(memory, tools):
    memory.put_messages(
        [
            user("Rui stays off meat these days"),
            assistant("I will note the meat."),
            user("Thanks"),
            user("What about meat?"),
        ]
    )
    found = tools.call("conversation_search", query="meat", limit=2)
    assert found.text == (
        "Found 2 messages:\n- Turn 1, assistant: I will note the meat.\n- Turn 1, user: Rui stays off meat these days"
    ) or found.text == (
        "Found 2 messages:\n- Turn 1, user: Rui stays off meat these days\n- Turn 1, assistant: I will note the meat."
    )
    assert tools.call("conversation_search", query="umbrella").text == "Found no message."


def test_the_conversation_is_searched_by_role_and_day_with_or_without_words(memory, tools):
    for day, (asked, answered) in enumerate((("meat or fish?", "No meat."), ("meat again?", "Fish.")), 1):
        memory.put_messages(
            [
                ChatMessage(text, role=role, additional_kwargs={"time": f"2026-03-0{day}T12:30:40+00:00"})
                for role, text in (("user", asked), ("assistant", answered))
            ]
        )
    memory.put(user("What did we say?"))

    def found(**filters):
        lines = tools.call("conversation_search", **filters).text.splitlines()[1:]
        return [line.partition(": ")[2] for line in lines]

    assert found(query="meat", roles=["assistant"]) == ["No meat."]
    assert set(found(query="meat", start_date="2026-03-02")) == {"meat again?"}
    assert found(start_date="2026-03-02", end_date="2026-03-02") == ["Fish.", "meat again?"]
    assert found(end_date="2026-03-01T12:30", roles=["user"]) == ["meat or fish?"]
    assert found(limit=1) == ["Fish."]
    assert found(query="meat", end_date="2026-02-28") == []


def test_results_of_tools_and_erased_messages_are_not_found(memory, tools):
    memory.put(user("Rui stays off meat"))
    memory.put(user("The umbrella is blue"))
    memory.put(user("So"))
    assert "Rui" in tools.call("conversation_search", query="meat").text
    memory.set([user("The umbrella is blue"), user("So")])
    assert tools.call("conversation_search", query="meat").text == "Found no message."


def test_stored_turns_are_searched_by_meaning_too():
    memory = open_memory(
        memory_blocks=[*core(), VectorMemoryBlock(name="turns", embed_model=HashEmbedder(), similarity_threshold=None)],
        token_limit=60,
    )
    for number in range(12):
        memory.put(user(f"note {number} of the day is here"))
    memory.deliver()
    found = MemoryTools(memory).call("conversation_search", query="note 3 of the day is here", limit=1)
    assert "note 3 of the day" in found.text


def test_what_several_rankings_have_comes_first():
    assert fused([[1, 2, 3], [3, 9]]) == [3, 1, 2, 9]
    assert fused([[], []]) == []


# -- whatever a model writes ----------------------------------------------------------------------

names = st.sampled_from(sorted(MEMORY_TOOLS)) | st.text(max_size=12)
labels = st.sampled_from(["Human", "human", "Persona", "Instructions", "Archival", "Dog", ""])
words = st.text(max_size=60) | st.sampled_from(["Sam likes jazz", "Sam lives in Lisbon", "Sam", "x" * 300])
odd = st.none() | st.integers(-5, 5) | words | st.lists(words, max_size=2)
arguments = st.text(max_size=12) | st.fixed_dictionaries(
    {},
    optional={
        "label": labels | odd,
        **dict.fromkeys(("content", "old_content", "new_content", "new_string", "new_memory", "query"), words | odd),
        **dict.fromkeys(("insert_line", "top_k", "limit", "tags"), odd),
    },
)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.tuples(names, arguments), min_size=1, max_size=4))
def test_whatever_a_model_writes_is_done_or_refused_and_no_limit_is_passed(calls):
    memory = open_memory(f"s{uuid.uuid4().hex}", memory_blocks=[*core(), archive()], token_limit=4000)
    tools = MemoryTools(memory)
    for tool, given_arguments in calls:
        before = {attached.name: attached.state for attached in memory.blocks}
        result = tools.call(ToolCallPart(tool_name=tool, tool_kwargs=given_arguments))
        after = {attached.name: attached.state for attached in memory.blocks}
        assert result.text
        assert result.done or after == before
        assert after["Instructions"] == "Be brief."
        assert 0 < len(after["Human"]) <= 200
    assert [event.outcome for event in called(memory)].count("done") <= len(called(memory)) == len(calls)


def test_the_definitions_list_the_blocks_once_and_say_what_they_cost(memory):
    specs = MemoryTools(memory).specs()
    listing = [spec.name for spec in specs if "Your blocks:" in spec.description]
    assert listing == ["core_memory_append"]
    assert MemoryTools(memory).tokens() > sum(memory.session.count_tokens(spec.description) for spec in specs)
