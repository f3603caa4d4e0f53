import json
import re
from dataclasses import fields

import pytest
from copied_rows import plain, rows_of, words_of
from engine_fakes import (
    Clock,
    Counter,
    HashEmbedder,
    NoteExtractor,
    ShakyExtractor,
    assistant,
    block,
    blocks,
    fact_numbers,
    note,
    on_file,
    open_memory,
    totals,
    user,
)
from hypothesis import HealthCheck, example, given, settings
from session_script import ALL_STEPS, STEPS, Script, with_text

from memory_core import (
    FactExtractionMemoryBlock,
    Memory,
    NotFoundError,
    Services,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.bundles.bundle import read_bundle, write_bundle
from memory_core.events import KINDS
from memory_core.planning import curation
from memory_core.store.copying.copies import REFERENCES
from memory_inspector.checks.simulation import rebuild
from memory_inspector.demo.conversations import INSTRUCTIONS, MESSAGES

BRANCHED = ("session_branched",)


def played(turns, session_id="s", **settings):
    memory = open_memory(session_id, memory_blocks=with_text(), token_limit=60, **settings)
    for number in range(turns):
        memory.put(note(number))
        memory.build_context(f"note {number}")
        memory.put(assistant(f"noted {number}"))
    return memory


def then(memory):
    """What a session holds and would send, apart from numbers that its database gave."""
    return (
        memory.get_all("active"),
        memory.get_all("archived"),
        [(fact.text, fact.state, fact.pinned, fact.version) for fact in memory.facts.read("facts", states=None)],
        [[message.message for message in turn.messages] for turn in memory.retrieval.stored_turns("turns")],
        memory.build_context("note 3", record=False).messages,
    )


@pytest.mark.slow
def test_a_branch_is_the_session_that_was_only_played_so_far():
    memory = played(20)
    for turn in (0, 1, 6, 13, 20):
        assert then(memory.branch(turn)) == then(played(turn, f"until {turn}"))


@pytest.mark.slow
def test_a_branch_and_the_shorter_session_go_on_alike():
    branch, short = played(20).branch(9), played(9, "short")
    for number in range(9, 25):
        assert branch.put(note(number)).flushed == short.put(note(number)).flushed
    assert then(branch) == then(short)
    assert totals(branch)[0] == totals(branch)[1]


@pytest.mark.slow
def test_the_original_is_not_touched():
    memory = played(12)
    before, words = plain(rows_of(memory)), words_of(rows_of(memory))
    branch = memory.branch(5)
    branch.put(note(99))
    branch.blocks.edit("core", "Be strict.")
    branch.configure(token_limit=1000)
    branch.reset()
    assert (plain(rows_of(memory)), words_of(rows_of(memory))) == (before, words)
    assert memory.get()[0].content.count("Be kind.") == 1


def test_the_branch_says_where_it_is_from():
    memory = played(3)
    branch = memory.branch(2)
    record = branch.events()[-1]
    assert (record.kind, record.turn, record.actor) == ("session_branched", 2, "user")
    assert (record.event.source, record.event.turn, record.event.missing) == (memory.session_id, 2, 0)
    assert branch.session.status().title == "Session, from turn 2"
    assert memory.branch(2, title="What if").session.status().title == "What if"


def test_a_turn_there_never_was_is_refused():
    memory = played(3)
    with pytest.raises(NotFoundError, match=r"no turn 4\. Its latest is 3\."):
        memory.branch(4)
    with pytest.raises(NotFoundError):
        memory.branch(-1)


def test_settings_and_texts_are_those_of_then():
    memory = played(3)
    memory.blocks.edit("core", "Be strict.")
    memory.configure(token_limit=70)
    memory.blocks.configure("facts", priority=3)
    memory.put(note(4))
    memory.blocks.edit("core", "Be brief.")
    memory.configure(token_limit=80)
    memory.blocks.remove("counter")
    first, second = memory.branch(2), memory.branch(3)
    assert [text.text for text in first.blocks.revisions("core")] == ["Be kind."]
    assert [text.text for text in second.blocks.revisions("core")] == ["Be kind.", "Be strict."]
    assert [first.session.config.token_limit, second.session.config.token_limit] == [60, 70]
    assert [memory.branch(t).blocks.settings("facts")["priority"] for t in (2, 3)] == [0, 3]
    assert [b.name for b in first.blocks] == ["core", "facts", "turns", "counter"]


def test_words_said_later_are_not_in_the_branch():
    memory = played(6)
    memory.blocks.edit("core", "The password is later.")
    branch = memory.branch(4)
    assert not any("note 5" in text or "password" in text for text in words_of(rows_of(branch)).values())


@pytest.mark.slow
def test_facts_stand_as_they_stood():
    memory = played(14)
    desk = memory.facts.desk("facts")
    first, second, third = desk.facts()[:3]
    desk.apply(curation.edit(first, "note 0 was lost"))
    desk.apply(curation.pin([second]))
    memory.put(note(14))
    at_15 = then(memory)
    memory.put(note(15))
    first, second, third = desk.facts()[:3]
    desk.apply(curation.merge([first, second], "notes 0 and 1 are one"))
    desk.apply(curation.retire([third], "not so"))
    desk.undo()
    desk.apply(curation.reject([desk.facts()[2]], "wrong"))
    branch = memory.branch(15)
    assert then(branch) == at_15
    fact = branch.facts.read("facts")[0]
    assert [(r.text, r.actor) for r in branch.facts.history(fact)] == [
        ("note 0 was taken", "engine"),
        ("note 0 was lost", "user"),
    ]
    branch.facts.desk("facts").undo()
    branch.facts.desk("facts").undo()
    assert then(branch)[2] != at_15[2]
    assert not branch.facts.read("facts")[1].pinned


@pytest.mark.slow
def test_sources_that_a_merge_gave_and_its_undo_took_are_those_of_then():
    memory = played(14)
    desk = memory.facts.desk("facts")
    first, second = desk.facts()[:2]
    desk.apply(curation.merge([first, second], first.text))
    merged = rows_of(memory)
    memory.put(note(14))
    desk.undo()
    undone = rows_of(memory)
    memory.put(note(15))
    assert [fact.sources for fact in merged.facts[:2]] != [fact.sources for fact in undone.facts[:2]]
    for turn, rows in ((14, merged), (15, undone)):
        assert plain(rows_of(memory.branch(turn)), events=BRANCHED) == plain(rows)


def test_blocks_that_learn_every_turn_go_on_from_where_they_were():
    def made(turns, session_id):
        memory = open_memory(session_id, memory_blocks=[Counter(deliver_on="turn")], token_limit=60)
        for number in range(turns):
            memory.put(note(number))
            memory.put(assistant(f"noted {number}"))
        return memory

    branch, short = made(9, "s").branch(4), made(4, "short")
    for number in range(4, 7):
        branch.put(note(number))
        short.put(note(number))
    assert branch.get() == short.get()
    assert block(branch, "counter").heard == block(short, "counter").heard


@pytest.mark.slow
def test_of_a_change_set_that_changed_two_things_both_are_there():
    memory = played(14)
    desk = memory.facts.desk("facts")
    fact = desk.facts()[0]
    desk.apply(curation.together("edit", curation.edit(fact, "note 0 was lost"), curation.pin([fact])))
    desk.undo()
    before = rows_of(memory)
    assert [(fact.version, fact.pinned) for fact in before.facts[:1]] == [(5, False)]
    memory.put(note(14))
    desk.apply(curation.retire(desk.facts()[:1], "no"))
    assert plain(rows_of(memory.branch(14)), events=BRANCHED) == plain(before)


def test_a_fact_was_last_confirmed_when_it_was_then():
    clock = Clock()
    memory = open_memory(memory_blocks=with_text(), token_limit=60, clock=clock)
    for number in (0, 1, 0, 2, 3, 0, 4, 5, 6, 7, 8, 9):
        clock.pass_by(60)
        memory.put(note(number))
        if number == 8:
            before = rows_of(memory)
    confirmed = {record.event.fact for record in memory.events(kinds=["fact_confirmed"])}
    assert [fact.confirmed_at > fact.created_at for fact in before.facts if fact.id in confirmed] == [True]
    assert plain(rows_of(memory.branch(11)), events=BRANCHED) == plain(before)


def test_the_blocks_of_the_original_keep_their_settings():
    memory = played(3)
    memory.blocks.configure("facts", priority=3)
    memory.put(note(4))
    branch = memory.branch(2)
    assert (block(branch, "facts").priority, block(memory, "facts").priority) == (0, 3)


@pytest.mark.slow
def test_a_text_erased_since_stays_erased():
    memory = played(14)
    memory.put(note(14))
    memory.blocks.remove("core")
    memory.reset("archived")
    branch = memory.branch(13)
    assert [each.name for each in branch.blocks] == ["core", "facts", "turns", "counter"]
    assert "Be kind." not in branch.get()[0].content
    assert rows_of(branch).blocks[0].text is None
    assert read_bundle(write_bundle(branch.session.database, branch.session_id), "b.zip").turns == 13


@pytest.mark.slow
def test_a_fact_erased_since_stays_erased():
    memory = played(14)
    desk = memory.facts.desk("facts")
    fact = desk.facts()[0]
    memory.put(note(14))
    desk.erase([fact])
    branch = memory.branch(14)
    assert fact.text not in [f.text for f in branch.facts.read("facts", states=None)]
    assert branch.events()[-1].event.missing == 1
    now = rebuild(branch.events(), lambda key: branch.log.texts([key]).get(key))
    assert [f.text for f in now.facts] == [f.text for f in branch.facts.read("facts", states=None)]


@pytest.mark.slow
def test_messages_forgotten_since_stay_forgotten():
    memory = played(14)
    kept = {message.seq for message in memory.session.messages("active")}
    memory.put(note(14))
    memory.reset("archived")
    branch = memory.branch(13)
    assert {message.seq for message in branch.session.messages()} <= kept
    assert branch.events()[-1].event.missing > 0
    assert totals(branch)[0][3:] == totals(branch)[1][3:]
    branch.put(note(20))


def test_what_set_replaced_is_there_again():
    memory = played(8)
    before = memory.get_all()
    memory.put(note(8))
    memory.set([user("all new")])
    assert memory.branch(8).get_all() == before


def test_turns_count_from_the_last_full_reset():
    memory = played(5)
    memory.reset()
    memory.put(note(50))
    memory.put(note(51))
    assert memory.branch(1).get_all() == [note(50)]
    with pytest.raises(NotFoundError):
        memory.branch(5)


@pytest.mark.slow
def test_a_stored_turn_deleted_since_is_missing():
    memory = played(14)
    before, number = len(memory.retrieval.stored_turns("turns")), memory.retrieval.stored_turns("turns")[0].number
    memory.put(note(14))
    memory.retrieval.forget("turns", number)
    branch = memory.branch(14)
    assert branch.events()[-1].event.missing == 1
    assert len(branch.retrieval.stored_turns("turns")) == before - 1
    assert memory.branch(15).events()[-1].event.missing == 0


def test_what_was_not_delivered_then_is_due_again():
    away = [True]
    memory = open_memory(memory_blocks=blocks(ShakyExtractor(lambda call: away[0])))
    for number in range(6):
        memory.put(note(number))
    failed = memory.session.deliveries(states=["pending"])
    away[0] = False
    memory.put(note(6))
    memory.deliver()
    branch = memory.branch(6)
    waiting = branch.session.deliveries(states=["pending"])
    assert [(d.block, d.flush, d.first_seq, d.last_seq, d.attempts) for d in waiting] == [
        (d.block, d.flush, d.first_seq, d.last_seq, d.attempts) for d in failed
    ]
    assert (len(failed), fact_numbers(branch)) == (1, [])
    branch.deliver()
    assert fact_numbers(branch) == [0, 1]


def test_custom_blocks_have_the_fields_they_had():
    memory = open_memory(memory_blocks=[Counter()])
    heard = {}
    for number in range(12):
        memory.put(note(number))
        heard[number + 1] = memory.session.status().archived_messages
    for turn in (3, 7, 12):
        said = memory.branch(turn).get()[0].content
        assert (f"{heard[turn]} messages" in said) == bool(heard[turn])


def test_a_recording_goes_on_from_where_the_branch_begins():
    memory = open_memory(memory_blocks=blocks())
    memory.session.attach_recording([note(n) for n in range(8)], source="file")
    recording = memory.session.recording()
    for number in range(6):
        memory.put(recording.messages[number], message_id=recording.message_id(number))
    branch = memory.branch(4)
    assert branch.session.recording().played == 4
    assert branch.session.recording().next_turn == (note(4),)
    assert memory.branch(0).session.recording().played == 0
    branch.put(note(4), message_id=branch.session.recording().message_id(4))
    assert (branch.session.recording().played, memory.session.recording().played) == (5, 6)


def test_before_a_recording_came_there_is_none():
    memory = played(3)
    memory.put(note(3))
    memory.session.attach_recording([note(n) for n in range(8)], source="file")
    assert (memory.branch(3).session.recording(), memory.branch(4).session.recording().played) == (None, 0)


@pytest.mark.slow
def test_the_past_of_a_branch_is_that_of_the_original():
    memory = played(16)
    branch = memory.branch(11)
    mine, theirs = memory.log.history(), branch.log.history()
    assert [record.kind for record in mine.upto(mine.position_at(11))] == [
        record.kind for record in theirs.records if record.kind not in BRANCHED
    ]
    for turn in (4, 11):
        assert (
            branch.log.prompt(theirs.turns[turn].built).messages == memory.log.prompt(mine.turns[turn].built).messages
        )
    told = rebuild(branch.events(), lambda key: branch.log.texts([key]).get(key))
    assert [m.message for m in told.queue] == branch.get_all("active")


def test_messages_are_as_large_as_they_were_counted_then():
    memory = Memory.from_defaults("s", token_limit=60, token_flush_size=10, encoding="cl100k_base")
    words = [f"Straße {number}: größer als die übrigen Wörter" for number in range(6)]
    memory.put(user(words[0]))
    memory.put(user(words[1]))
    first = rows_of(memory)
    memory.configure(encoding="o200k_base")
    memory.put(user(words[2]))
    memory.put(user(words[3]))
    memory.configure(encoding="cl100k_base")
    memory.put(user(words[4]))
    assert plain(rows_of(memory.branch(1)), events=BRANCHED)["messages"] == plain(first)["messages"][:1]
    branch = memory.branch(3)
    assert (branch.session.config.encoding, totals(branch)[0][3:]) == ("o200k_base", totals(branch)[1][3:])
    short = Memory.from_defaults("short", token_limit=60, token_flush_size=10, encoding="o200k_base")
    for text in words[:3]:
        short.put(user(text))
    branch.put(user(words[5]))
    short.put(user(words[5]))
    assert branch.session.status().queue_tokens == short.session.status().queue_tokens


@pytest.mark.slow
def test_the_demo_branched_anywhere_is_the_demo_played_so_far():
    def demo(turns, session_id):
        memory = Memory.from_defaults(
            session_id,
            token_limit=1200,
            chat_history_token_ratio=0.6,
            token_flush_size=120,
            services=Services(embedder=HashEmbedder()),
            memory_blocks=[
                StaticMemoryBlock(name="core", static_content=INSTRUCTIONS),
                FactExtractionMemoryBlock(name="facts", priority=1),
                VectorMemoryBlock(name="turns", priority=2, similarity_threshold=0.31),
            ],
        )
        memory.session.attach_recording(MESSAGES, source="demo")
        recording, played = memory.session.recording(), 0
        for message in MESSAGES:
            played += message.role == "user"
            if played > turns:
                break
            if message.role == "assistant":
                memory.build_context()
            memory.put(message, message_id=recording.message_id(len(memory.get_all())))
        return memory

    memory = demo(18, "s")
    for turn in (3, 11, 12, 16):
        branch, short = memory.branch(turn), demo(turn, f"until {turn}")
        assert then(branch) == then(short)
        assert branch.session.recording() == short.session.recording()


def test_facts_of_the_user_are_shared_not_copied():
    services = Services(embedder=HashEmbedder(), extractor=NoteExtractor())
    facts = FactExtractionMemoryBlock(name="facts", scope="user")
    memory = open_memory(memory_blocks=[facts], user_id="sam", services=services)
    for number in range(10):
        memory.put(note(number))
        memory.build_context("note")
    before = memory.facts.read("facts")
    log = len(memory.events(kinds=["fact_added"]))
    branch = memory.branch(6)
    assert branch.facts.read("facts") == memory.facts.read("facts") == before
    assert log
    assert not branch.events(kinds=["fact_added"])
    branch.facts.desk("facts").apply(curation.retire([before[0]], "no"))
    assert [f.text for f in memory.facts.read("facts")] == [f.text for f in before[1:]]


@pytest.mark.slow
def test_a_branch_of_a_branch():
    memory = played(12)
    assert then(memory.branch(10).branch(4)) == then(memory.branch(4))


def test_branches_of_a_file_open_in_another_process_like_any_session(tmp_path):
    memory = open_memory(memory_blocks=with_text(), database_uri=on_file(tmp_path))
    for number in range(8):
        memory.put(note(number))
    branch = memory.branch(5)
    services = Services(embedder=HashEmbedder(), extractor=NoteExtractor())
    again = Memory.open(branch.session_id, memory.session.database, services=services, tokenizer_fn=str.split)
    assert again.get_all() == branch.get_all()
    assert [block.name for block in again.blocks] == ["core", "facts", "turns", "counter"]


# -- every position, whatever happened -----------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_a_branch_holds_exactly_what_the_session_held(steps):
    script = Script()
    held, said = {}, {}
    for step in steps:
        script.do(step)
        if step == "reset":
            held.clear()
        rows = rows_of(script.memory)
        said |= words_of(rows)
        held[script.memory.session.status().turns] = rows, dict(said)
    for turn, (rows, said_by_then) in held.items():
        branch = rows_of(script.memory.branch(turn))
        assert plain(branch, events=BRANCHED) == plain(rows)
        # A reset erases words; said again later, the log before that turn names them again.
        assert words_of(branch).items() <= said_by_then.items()


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(steps=ALL_STEPS)
@example(steps=["note", "close", "note", "forget archive"])  # of the first turn nothing is left
def test_a_branch_works_whatever_was_erased_since(steps):
    script = Script()
    for step in steps:
        script.do(step)
    memory = script.memory
    before = plain(rows_of(memory))
    for turn in {0, memory.log.history().latest_turn // 2, memory.log.history().latest_turn}:
        branch = memory.branch(turn)
        assert totals(branch)[0][3:] == totals(branch)[1][3:]
        data = write_bundle(branch.session.database, branch.session_id)
        bundle = read_bundle(data, "branch.zip")
        assert (bundle.messages, bundle.turns) == (len(branch.session.messages()), turn)
        branch.put(note(1000))
        branch.deliver()
        branch.build_context("note 1000")
    assert plain(rows_of(memory)) == before


# -- real conversations --------------------------------------------------------------------------


def real_memory(session_id="s"):
    return Memory.from_defaults(
        session_id,
        token_limit=900,
        token_flush_size=90,
        services=Services(embedder=HashEmbedder()),
        memory_blocks=[
            StaticMemoryBlock(name="core", static_content="Be kind."),
            FactExtractionMemoryBlock(name="facts", priority=1),
            VectorMemoryBlock(name="turns", priority=2, similarity_threshold=0.1),
        ],
    )


def real_turns(count, data_file):
    log = json.loads(data_file("memorybank/memory_bank_en.json").read_text(encoding="utf-8"))
    said = []
    for person in log.values():
        for day in person["history"].values():
            said += [(entry["query"], entry["response"]) for entry in day]
        if len(said) >= count:
            return said[:count]
    raise AssertionError("the data is shorter than expected")


def talk(memory, turns):
    for question, answer in turns:
        memory.put(user(question))
        memory.build_context()
        memory.put(assistant(answer))


@pytest.mark.slow
def test_branches_of_a_real_conversation_are_the_conversation_so_far(data_file):
    turns = real_turns(60, data_file)
    memory = real_memory()
    talk(memory, turns)
    assert memory.session.status().flushes > 5
    for turn in (7, 31, 55):
        short = real_memory(f"until {turn}")
        talk(short, turns[:turn])
        branch = memory.branch(turn)
        assert then(branch) == then(short)
        talk(branch, turns[turn : turn + 4])
        talk(short, turns[turn : turn + 4])
        assert then(branch) == then(short)


# -- numbers in events ---------------------------------------------------------------------------

NOT_REFERENCES = {
    "elsewhere", "former", "restores",
    "attempt", "attempts", "added", "after", "asked", "before", "billed", "broken", "cached_tokens", "candidates",
    "confirmed", "cost",
    "facts", "flush", "flush_size", "found", "gates", "held_back", "history_budget", "input_tokens", "markup_tokens",
    "context", "context_tokens", "shown",
    "ended", "long", "lost", "max_facts", "max_tokens", "number", "queue_turns", "recalled", "refused", "shortened",
    "turn_covered",
    "messages", "missing", "neutralised", "output_tokens", "over_by", "overhead_tokens", "pinned_tokens",
    "queue_after", "queue_asked", "queue_before", "queue_tokens", "reference_tokens", "reserved_tokens", "restored",
    "retry_in_seconds", "said_at",
    "revision", "seconds", "similarity", "skipped", "threshold", "token_limit", "tokens", "tokens_after", "written_at",
    "best", "boost_weights", "boosts", "count", "finished", "records", "results", "sent",
    "token_budget", "tokens_before", "top_k", "total", "turn", "vectors", "weights",
}  # fmt: skip
"""Fields with numbers that count or measure."""

OF_THE_SESSION = {"covers", "seq", "seqs", "sources", "removed", "queue", "pinned", "summary"}
"""Fields that name messages, which keep their numbers."""

OF_THE_BLOCK = {("graph_curated", "undoes")}
"""Fields that name a change set by its place among those of its block."""

SETTINGS = {
    ("configuration_changed", "before"), ("configuration_changed", "after"), ("configuration_changed", "ignored"),
    ("block_added", "settings"), ("block_edited", "settings"), ("block_edited", "ignored_settings"),
}  # fmt: skip


def test_every_number_in_an_event_is_known_to_be_a_reference_or_none():
    """A field that names facts, stored turns, deliveries, entities or relations says so by its type; any other with
    numbers belongs in one of the lists above."""
    unknown = []
    for kind, event in KINDS.items():
        if event.__module__ != "memory_core.events" or kind == "unknown_event":
            continue
        for field in fields(event):
            holds_numbers = re.search(r"\b(int|float|Any)\b", str(field.type))
            known = field.name in NOT_REFERENCES | OF_THE_SESSION or (kind, field.name) in SETTINGS | OF_THE_BLOCK
            if holds_numbers and not known and field.name not in REFERENCES.get(kind, {}):
                unknown.append(f"{kind}.{field.name}")
    assert unknown == []


def test_before_the_first_turn_means_since_turns_were_last_counted_anew():
    memory = Memory.from_defaults(memory_blocks=[StaticMemoryBlock(name="Instructions", static_content="Old.")])
    memory.put(user("One"))
    memory.blocks.edit("Instructions", "New.")
    memory.set([user("Another")])  # nothing is left: turns begin again
    branch = memory.branch(0)
    assert branch.get_all() == []
    assert [each.text for each in branch.blocks.revisions("Instructions")] == ["Old.", "New."]
