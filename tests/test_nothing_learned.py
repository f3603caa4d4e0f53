"""Every message that passed a learner led to something, or its reason is on record."""

import json

import pytest
from engine_fakes import NoteExtractor, assistant, user
from fakes import FakeChat
from graph_fakes import WrittenRelations

from memory_core import Database, FactExtractionMemoryBlock, Memory, Services, SummaryMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.events import NothingLearned, expand
from memory_core.messages import ChatMessage, content_hash
from memory_core.models.extraction import Facts, ModelExtractor
from memory_core.models.protocols import Extraction, ModelCall, NothingFound, Summarised
from memory_core.models.relating import Relations
from memory_core.planning import curation
from memory_core.store.copying.copies import hashes_in
from memory_core.store.tables import content_table
from memory_inspector.demo.conversations import MESSAGES


def facts_block(llm=None, **settings):
    return FactExtractionMemoryBlock(name="facts", llm=llm, **settings)


def graph_block(llm=None):
    return GraphMemoryBlock(name="graph", llm=llm)


def summary_block(llm=None):
    return SummaryMemoryBlock(name="summary", llm=llm)


def memory_of(*blocks, **settings):
    return Memory.from_defaults("s", memory_blocks=list(blocks), **{"token_limit": 4000} | settings)


def deliver(memory, *said):
    """Put messages, user's where they are texts, and hand them over together."""
    for message in said:
        memory.put(user(message) if isinstance(message, str) else message)
    memory.flush(all=True)
    return memory


def tool(text, name="weather"):
    return ChatMessage(role="tool", content=text, additional_kwargs={"name": name})


def reasons(memory, block="facts"):
    """Code, fact and a model's words by the number of the message."""
    found = {}
    for record in memory.events(kinds=("nothing_learned",), block=block):
        for code, seqs, fact, said in record.event.reasons:
            words = memory.log.texts([said]).get(said, "(erased)") if said else ""
            for seq in expand(seqs):
                assert seq not in found
                assert record.event.reason_for(seq) == (code, fact, said)
                found[seq] = (code, fact, words)
    return found


def codes(memory, block="facts"):
    return {seq: code for seq, (code, _, _) in reasons(memory, block).items()}


# -- rules -----------------------------------------------------------------------------------------


def test_the_rules_say_of_each_message_why_they_found_nothing():
    memory = memory_of(facts_block())
    deliver(
        memory,
        "I live in Porto.",
        assistant("Porto is lovely. You like tea, do you?"),
        "Where is the station? And how far is it?",
        "Well, well.",
        "I live in Porto.",
        tool("It is 20 degrees"),
        tool("The user lives in Porto", "archival_memory_search"),
        "I live in Porto, do you know it?",
    )
    assert codes(memory) == {
        2: "assistant", 3: "question", 4: "no_rule", 5: "repeated", 6: "not_read", 7: "repeats_memory", 8: "repeated",
    }  # fmt: skip


class KnowingExtractor(NoteExtractor):
    """Says of a message that it repeats the first known fact, as a model may."""

    def extract(self, messages, *, known):
        if not known:
            return super().extract(messages, known=known)
        return Extraction((), nothing={0: NothingFound("known", known[0])})


def test_what_a_learner_calls_known_is_named():
    memory = deliver(memory_of(facts_block(KnowingExtractor())), "note 1 was taken")
    deliver(memory, "note 1 was taken, you know")
    [note] = memory.facts.read("facts")
    assert reasons(memory) == {2: ("known", note.id, "")}


def test_what_is_said_again_confirms_the_fact():
    memory = deliver(memory_of(facts_block()), "I live in Porto.")
    deliver(memory, "I live in Porto!", "I like tea.")
    [porto, _] = memory.facts.read("facts")
    assert reasons(memory) == {}
    assert [(r.event.fact, r.event.sources) for r in memory.events(kinds=("fact_confirmed",))] == [
        (porto.id, ((2, 2),))
    ]
    assert porto.confirmed_at > porto.created_at
    assert [each.text for each in memory.facts.read("facts")] == ["The user lives in Porto", "The user likes tea"]


def test_a_long_delivery_is_read_in_pieces_and_each_message_has_its_own_reason(monkeypatch):
    monkeypatch.setattr("memory_core.blocks.base.CALL_TOKENS", 1)
    memory = deliver(memory_of(facts_block()), "I like jazz.")
    deliver(memory, "I like tea.", "Do you?", "I like tea.", "I like jazz.", assistant("Ok"))
    [jazz, _] = memory.facts.read("facts")
    assert reasons(memory) == {
        3: ("question", None, ""), 4: ("repeated", None, ""), 6: ("assistant", None, ""),
    }  # fmt: skip
    assert [r.event.fact for r in memory.events(kinds=("fact_confirmed",))] == [jazz.id]


def test_what_is_like_a_rejected_fact_says_which():
    memory = deliver(memory_of(facts_block()), "I like tea.")
    [tea] = memory.facts.read("facts")
    memory.facts.desk("facts").apply(curation.reject([tea]))
    deliver(memory, "I like tea.")
    assert reasons(memory) == {2: ("suppressed", tea.id, "")}


def test_where_each_fact_is_decided_on_the_same_again_is_a_confirmation():
    memory = deliver(memory_of(facts_block(on_change="decide")), "I like tea.")
    deliver(memory, "I like tea.", "I like tea.")
    assert reasons(memory) == {3: ("repeated", None, "")}
    assert [expand(record.event.sources) for record in memory.events(kinds=("fact_confirmed",))] == [[2]]


def test_a_delivery_of_which_nothing_is_read_says_so_too():
    memory = memory_of(facts_block(scope="user"), user_id="sam")
    deliver(memory, assistant("Hello"), tool("20 degrees"))
    assert codes(memory) == {1: "assistant", 2: "not_read"}


def test_what_the_assistant_only_repeats_from_memory_is_named_so():
    class Reader(NoteExtractor):
        """One fact a message, whoever says it."""

        def extract(self, messages, *, known):
            facts = [super(Reader, self).extract([user(m.content)], known=()).facts[0] for m in messages]
            return Extraction(tuple(type(f)(f.text, source=i) for i, f in enumerate(facts)))

    memory = deliver(memory_of(facts_block(Reader())), "note 1 of the day")
    deliver(memory, assistant("You told me that note 1 was taken"), assistant("Then note 2"))
    assert codes(memory) == {2: "repeats_memory"}


def test_an_extractor_that_gives_no_reasons_still_works():
    memory = deliver(memory_of(facts_block(NoteExtractor())), "note 1", assistant("number 2"))
    assert reasons(memory) == {2: ("no_rule", None, "")}


def test_a_delivery_from_which_everything_is_learned_leaves_no_event():
    memory = deliver(memory_of(facts_block()), "I live in Porto.")
    assert memory.events(kinds=("nothing_learned",)) == []


# -- models ----------------------------------------------------------------------------------------


def fact(text, message=None):
    return {"text": text, "message": message}


def test_a_models_own_reason_is_kept_among_the_words_and_not_in_the_event():
    chat = FakeChat(
        {"facts": [fact("The user likes tea", 1)], "skipped": [{"message": 2, "reason": "Only a greeting by Sam."}]}
    )
    memory = deliver(memory_of(facts_block(chat)), "I like tea", "Hi, I'm Sam", assistant("Hello"))
    assert reasons(memory) == {
        2: ("model_found_none", None, "Only a greeting by Sam."),
        3: ("model_found_none", None, ""),
    }
    [record] = memory.events(kinds=("nothing_learned",))
    assert record.event.learner == "fake chat"
    assert "greeting" not in record.event.to_json()
    assert content_hash("Only a greeting by Sam.") in hashes_in(record.event.to_json())


def test_a_fact_without_a_message_counts_for_all():
    memory = deliver(memory_of(facts_block(FakeChat({"facts": [fact("The user likes tea")]}))), "Tea", "is fine")
    assert reasons(memory) == {}


def test_what_a_model_said_in_no_usable_form_is_named_so():
    chat = FakeChat({"facts": [fact("Likes tea", 1), fact("likes tea.", 2), fact("...", 3)]})
    memory = deliver(memory_of(facts_block(chat)), "Tea", "tea", "x")
    assert codes(memory) == {2: "repeated", 3: "refused"}


def test_erasing_a_fact_erases_the_remarks_that_may_quote_it():
    chat = FakeChat(
        {"facts": [fact("The user likes tea", 1)]},
        {"facts": [], "skipped": [{"message": 1, "reason": "Says again that he likes tea."}]},
    )
    memory = deliver(memory_of(facts_block(chat)), "I like tea")
    deliver(memory, "Tea!")
    assert reasons(memory)[2] == ("model_found_none", None, "Says again that he likes tea.")
    memory.facts.desk("facts").erase(memory.facts.read("facts"))
    assert reasons(memory)[2] == ("model_found_none", None, "(erased)")
    with memory.session.database.read() as connection:
        assert not [data for data in connection.execute(content_table.select()).all() if "again" in data.data]


def test_remarks_on_facts_of_the_user_go_with_these_in_every_session():
    database = Database.open()
    chat = FakeChat(
        {"facts": [], "skipped": [{"message": 1, "reason": "He only mentions tea."}]}, {"facts": [fact("Tea")]}
    )
    memories = [
        Memory.from_defaults(id, "sam", database=database, memory_blocks=[facts_block(chat, scope="user")])
        for id in ("one", "two")
    ]
    for memory in memories:
        deliver(memory, "Tea")
    assert reasons(memories[0])[1] == ("model_found_none", None, "He only mentions tea.")
    memories[1].facts.desk("facts").erase(memories[1].facts.read("facts"))
    assert reasons(memories[0])[1] == ("model_found_none", None, "(erased)")


def test_forgetting_messages_erases_what_was_said_about_them():
    chat = FakeChat({"facts": [], "skipped": [{"message": 1, "reason": "Only a greeting."}]})
    memory = deliver(memory_of(facts_block(chat)), "Hi")
    memory.reset()
    assert reasons(memory)[1] == ("model_found_none", None, "(erased)")


# -- graphs and summaries --------------------------------------------------------------------------


def test_the_rules_of_a_graph_say_why_they_found_no_relation():
    memory = memory_of(graph_block())
    deliver(memory, "Ana lives in Porto.", "Where is Porto?", "Fine.", assistant("Ana lives in Rome."))
    deliver(memory, "Ana lives in Porto.")
    assert codes(memory, "graph") == {2: "question", 3: "no_rule", 4: "assistant"}


def test_relations_that_cannot_be_and_those_that_were_removed_are_reasons():
    memory = memory_of(graph_block(WrittenRelations()))
    deliver(memory, "Ana | likes | tea", "Ana | likes | Ana", "nothing")
    assert codes(memory, "graph") == {2: "refused", 3: "no_rule"}
    desk = memory.blocks.graph("graph")
    desk.retire(desk.relations("Ana"))
    deliver(memory, "Ana | likes | tea")
    assert codes(memory, "graph")[4] == "suppressed"


def test_a_model_says_why_there_is_no_relation():
    chat = FakeChat(
        {
            "relations": [{"subject": "she", "predicate": "likes", "object": "tea", "message": 1}],
            "skipped": [{"message": 2, "reason": "small talk"}, {"message": 9, "reason": "there is no such message"}],
        }
    )
    memory = deliver(memory_of(graph_block(chat)), "She likes tea", "Nice weather", "Ok")
    assert reasons(memory, "graph") == {
        1: ("refused", None, ""), 2: ("model_found_none", None, "small talk"), 3: ("model_found_none", None, ""),
    }  # fmt: skip


def test_a_summary_says_which_messages_brought_it_nothing():
    memory = deliver(memory_of(summary_block()), "I live in Porto.", "Where are you?", assistant("Here."))
    deliver(memory, "I live in Porto.")
    assert codes(memory, "summary") == {2: "question", 3: "assistant", 4: "known"}


def test_a_summary_that_a_model_left_as_it_was_says_so():
    class Same:
        name, offline = "fake", False

        def summarise(self, summary, messages, *, max_tokens, count):
            return Summarised(summary or messages[0].content)

    memory = deliver(memory_of(summary_block(Same())), "Ana plays the cello.", "Yes")
    assert codes(memory, "summary") == {}
    deliver(memory, "Well", tool("Ana plays", "archival_memory_search"))
    assert codes(memory, "summary") == {3: "model_found_none", 4: "repeats_memory"}


# -- elsewhere -------------------------------------------------------------------------------------


def opened(memory, database):
    """The session out of its bundle, in another database."""
    bundle = read_bundle(write_bundle(memory.session.database, memory.session_id), "s.zip")
    return Memory.open(import_bundle(database, bundle), database, services=Services())


def test_reasons_travel_with_a_branch_and_a_bundle():
    chat = FakeChat(
        {"facts": [fact("The user likes tea", 1)]},
        {"facts": [], "skipped": [{"message": 1, "reason": "Only thanks."}]},
    )
    memory = deliver(memory_of(facts_block(chat)), "I like tea")
    deliver(memory, "Thanks")
    before = reasons(memory)
    assert reasons(memory.branch(2)) == before
    database = Database.open()
    again = opened(memory, database)
    assert reasons(again) == before


def test_the_facts_that_reasons_name_are_renumbered_in_another_database():
    memory = deliver(memory_of(facts_block(KnowingExtractor())), "note 1 was taken")
    deliver(memory, "note 1 was taken, you know")
    database = Database.open()
    other = Memory.from_defaults("other", database=database, memory_blocks=[facts_block()])
    deliver(other, "I like tea.", "I like jam.", "I like figs.")
    again = opened(memory, database)
    [note] = again.facts.read("facts")
    assert reasons(again) == {2: ("known", note.id, "")}
    assert note.id > 3


# -- whole conversations ---------------------------------------------------------------------------


class Reader:
    """A model that finds something in every third message, remarks on every other, and leaves the rest alone."""

    name, offline = "reader", False

    def ask(self, messages, answer, *, purpose):
        numbers = range(1, messages[-1].content.count("\n[") + 1)
        skipped = [{"message": n, "reason": f"nothing lasting in {n}"} for n in numbers if n % 3 == 1]
        if answer is Facts:
            given = {"facts": [fact(f"Number {n} of {len(numbers)} was said", n) for n in numbers if n % 3 == 0]}
        elif answer is Relations:
            ends = [{"subject": f"Ana {n}", "predicate": "likes", "object": "tea", "message": n} for n in numbers]
            given = {"relations": ends[2::3]}
        else:
            return answer.model_validate({"summary": "They talk."}), ModelCall(purpose, self.name, 1, 1, 0.0)
        return answer.model_validate({**given, "skipped": skipped}), ModelCall(purpose, self.name, 1, 1, 0.0)

    def stream(self, messages, tools=()):
        raise AssertionError("every form can be given")


def locomo(data_file):
    told = json.loads(data_file("locomo/locomo5.json").read_text())[0]["conversation"]
    said = [line for number in range(1, 7) for line in told[f"session_{number}"]]
    return [
        ChatMessage(role="user" if line["speaker"] == told["speaker_a"] else "assistant", content=line["text"])
        for line in said
    ]


def traced(memory):
    """(block, message, what was learned of it?, its reason) for each message of each done delivery."""
    queued, since = {}, []
    for record in memory.events():
        event = record.event
        if event.kind == "delivery_queued":
            queued[event.delivery] = event
        elif event.kind != "delivery_done":
            since.append(event)
            continue
        else:
            own = [each for each in since if each.about == event.block]
            learned = {seq for each in own for seq in learned_from(each)}
            why = next((each for each in own if isinstance(each, NothingLearned)), None)
            for seq in [seq for number in event.deliveries for seq in expand(queued[number].seqs)]:
                yield event.block, seq, seq in learned, None if why is None else why.reason_for(seq)
            since = []


def learned_from(event):
    """The messages that something new, changed or confirmed is owed to."""
    if event.kind in ("fact_added", "fact_confirmed", "relation_added", "relation_confirmed"):
        return expand(event.sources)
    return expand(event.seqs) if event.kind == "summary_rewritten" else []


@pytest.mark.slow
@pytest.mark.parametrize("model", [None, Reader()], ids=["rules", "model"])
@pytest.mark.parametrize("conversation", [lambda _: MESSAGES, locomo], ids=["demo", "locomo"])
def test_every_message_of_every_done_delivery_led_to_something_or_has_a_reason(conversation, model, data_file):
    memory = memory_of(
        facts_block(model),
        FactExtractionMemoryBlock(name="decided", llm=model and ModelExtractor(model), on_change="decide"),
        graph_block(model),
        summary_block(model),
        token_limit=600,
        services=Services(),
    )
    messages = conversation(data_file)
    deliver(memory, *messages)
    found = list(traced(memory))
    assert len(found) == 4 * len(messages)
    for block, seq, learned, why in found:
        if block == "summary":  # it names all that were read, of which some brought nothing
            assert learned
        else:
            assert learned is (why is None), (block, seq, messages[seq - 1].content, why)
    assert {why[0] for *_, why in found if why} >= ({"model_found_none"} if model else {"no_rule", "assistant"})
