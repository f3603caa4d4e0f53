"""The curation desk: change sets in the database, undo at any depth, approval, review, rewrites."""

import json
from dataclasses import replace

import pytest
from engine_fakes import assistant, on_file, open_memory, user
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core import (
    ChatMessage,
    ConfigError,
    ConflictError,
    FactExtractionMemoryBlock,
    Memory,
    MessageError,
    NotFoundError,
    StaticMemoryBlock,
)
from memory_core.events import FactHeldBack, FactsCurated
from memory_core.models.protocols import Condensation, CondensedFact, ExtractedFact, Extraction, ModelCall
from memory_core.planning import curation as wish
from memory_core.store.fact_rows import revise
from memory_inspector.checks.simulation import rebuild
from memory_inspector.files.facts_file import plan_import, read_facts_file


class SayingExtractor:
    """Each line of a user's message that begins with "fact:" is a fact; "slot=..." in front names its slot."""

    name = "saying"
    offline = True

    def __init__(self, condense=None):
        self.known = []
        self._condense = condense

    def extract(self, messages, *, known):
        self.known.append(list(known))
        facts = []
        for source, message in enumerate(messages):
            for line in (message.content or "").splitlines():
                if line.startswith("fact:"):
                    slot, _, text = line[5:].strip().rpartition("=")
                    facts.append(ExtractedFact(text.strip(), source=source, slot=slot.strip() or None))
        return Extraction(tuple(facts), (ModelCall("extract", self.name, 10, 2, 0.0),))

    def condense(self, facts, *, pinned, target):
        return Condensation(tuple(self._condense(list(facts))))


def make(uri=None, session_id="s", *, extractor=None, user_id=None, clock=None, **block):
    given = {"name": "facts", "llm": extractor or SayingExtractor(), **block}
    options = {"clock": clock} if clock else {}
    return open_memory(
        session_id,
        database_uri=uri,
        user_id=user_id,
        memory_blocks=[FactExtractionMemoryBlock(**given)],
        token_limit=4000,
        **options,
    )


def learn(memory, *lines, said=None):
    """Have the block learn from one message of these lines."""
    memory.put((said or user)("\n".join(lines)))
    memory.flush(all=True)


def known(*lines, **options):
    memory = make(**options)
    learn(memory, *[f"fact: {line}" for line in lines])
    return memory, memory.facts.desk("facts")


def state(desk):
    """All facts as a person sees them."""
    return [(f.id, f.text, f.state, f.pinned, f.tokens, f.sources) for f in desk.facts()]


def fact(desk, text):
    return next(f for f in desk.facts() if f.text == text)


# -- applying ------------------------------------------------------------------------------------


def test_a_change_set_is_one_event_after_those_of_its_steps():
    memory, desk = known("likes tea", "loves tea")
    before = memory.session.status().position
    applied = desk.apply(wish.merge(desk.facts(), "loves tea"))
    *single, whole = memory.events(before)
    assert [r.kind for r in single] == ["fact_accepted", "fact_superseded"]
    assert {r.actor for r in (*single, whole)} == {"user"}
    assert (whole.position, whole.event) == (
        applied.number,
        FactsCurated(block="facts", action="merge", reason="", facts=((2, 1, 2), (1, 1, 2))),
    )


def test_an_edit_changes_words_and_tokens_and_the_next_prompt():
    memory, desk = known("likes tea")
    desk.apply(wish.edit(fact(desk, "likes tea"), "likes strong green tea"))
    assert [(f.text, f.tokens, f.version) for f in desk.facts()] == [("likes strong green tea", 4, 2)]
    assert "likes strong green tea" in memory.get("x")[0].content


def test_a_written_fact_is_there_at_once_and_says_who_wrote_it():
    memory, desk = known()
    applied = desk.apply(wish.add("likes jazz", pinned=True))
    (new,) = desk.facts()
    assert (new.id, new.text, new.pinned, new.origin, new.sources) == (
        applied.ids("fact")[0],
        "likes jazz",
        True,
        "written",
        (),
    )
    assert [r.actor for r in memory.facts.history(new)] == ["user"]


def test_a_merge_hands_the_sources_on():
    memory, desk = known("likes tea")
    learn(memory, "fact: drinks coffee daily")
    one, two = desk.facts()
    desk.apply(wish.merge([one, two], "likes tea and coffee"))
    (left,) = desk.facts(("active",))
    assert (left.id, left.sources) == (one.id, (("s", 1), ("s", 2)))


def test_a_split_fact_is_superseded_by_its_first_part():
    memory, desk = known("likes tea and jazz")
    whole = desk.facts()[0]
    applied = desk.apply(wish.split(whole, ["likes tea", "likes jazz"]))
    (superseded,) = memory.events(kinds=["fact_superseded"])
    assert superseded.event.by == applied.ids("fact")[0]
    assert [(f.text, f.sources) for f in desk.facts(("active",))] == [
        ("likes tea", (("s", 1),)),
        ("likes jazz", (("s", 1),)),
    ]


def test_a_fact_that_was_changed_elsewhere_is_not_overwritten():
    memory, desk = known("likes tea", "likes jazz")
    old, other = desk.facts()
    desk.apply(wish.edit(old, "likes coffee"))
    before = state(desk), memory.session.status().position
    with pytest.raises(ConflictError, match='The fact "likes tea" was changed elsewhere'):
        desk.apply(wish.retire([other, old]))
    assert (state(desk), memory.session.status().position) == before


def test_a_fact_that_was_erased_elsewhere_is_a_conflict_too():
    _, desk = known("likes tea")
    old = desk.facts()
    desk.erase(old)
    with pytest.raises(ConflictError):
        desk.apply(wish.pin(old))
    with pytest.raises(ConflictError):
        desk.erase(old)


def test_words_that_another_active_fact_has_are_refused_with_a_way_out():
    memory, desk = known("likes tea", "likes jazz")
    before = memory.session.status().position
    with pytest.raises(MessageError) as caught:
        desk.apply(wish.edit(fact(desk, "likes jazz"), "Likes tea"))
    assert str(caught.value) == 'Another fact says "Likes tea" already, word for word. Merge the two instead?'
    assert memory.session.status().position == before


def test_only_facts_blocks_have_a_desk():
    memory = open_memory(memory_blocks=[])
    with pytest.raises(NotFoundError):
        memory.facts.desk("facts")
    memory.blocks.add(StaticMemoryBlock(name="core", static_content="x"))
    with pytest.raises(ConfigError, match="holds no facts"):
        memory.facts.desk("core")


def test_a_preview_shows_the_next_prompt_and_stores_nothing():
    memory, desk = known("likes tea")
    before = state(desk), memory.session.status().position
    context = desk.preview(wish.edit(desk.facts()[0], "likes green tea"))
    assert "likes green tea" in context.messages[0].content
    assert "likes tea" in memory.get("x")[0].content
    assert before[0] == state(desk)


# -- undoing -------------------------------------------------------------------------------------


def test_undo_at_any_depth_gives_everything_back():
    _, desk = known("likes tea", "likes jazz")
    states = [state(desk)]
    for change in (
        lambda: wish.edit(fact(desk, "likes tea"), "likes green tea"),
        lambda: wish.pin(desk.facts()),
        lambda: wish.merge(desk.facts(), "likes green tea and jazz"),
        lambda: wish.add("Ana is a friend"),
        lambda: wish.split(fact(desk, "likes green tea and jazz"), ["likes green tea", "likes blues"]),
        lambda: wish.retire(desk.facts(("active",)), "wrong"),
        lambda: wish.restore([fact(desk, "likes blues")]),
    ):
        desk.apply(change())
        states.append(state(desk))
    undone = []
    while (change := desk.undo()) is not None:
        states.pop()
        assert state(desk) == states[-1]
        undone.append(change.words)
    assert undone == [
        "restored a fact",
        "retired 3 facts",
        "split a fact into 2",
        "added a fact",
        "merged 2 facts into one",
        "pinned 2 facts",
        "edited a fact",
    ]
    assert len(states) == 1
    assert all(change.undone for change in desk.changes())


def test_what_is_done_after_an_undo_is_undone_first():
    _, desk = known("likes tea")
    desk.apply(wish.edit(desk.facts()[0], "likes coffee"))
    desk.apply(wish.pin(desk.facts()))
    desk.undo()
    desk.apply(wish.retire(desk.facts()))
    assert [(c.words, c.undone) for c in desk.changes()] == [
        ("retired a fact", False),
        ("pinned a fact", True),
        ("edited a fact", False),
    ]
    assert [desk.undo().action, desk.undo().action, desk.undo()] == ["retire", "edit", None]
    assert [(f.text, f.state, f.pinned) for f in desk.facts()] == [("likes tea", "active", False)]


def test_an_undo_that_would_overwrite_somebody_elses_change_is_refused():
    memory, desk = known("likes tea", "likes jazz")
    desk.apply(wish.pin(desk.facts()))
    tea = fact(desk, "likes tea")
    with memory._session.writing() as w:
        revise(w, tea, replace(tea, text="likes coffee", tokens=2), actor="agent")
    before = state(desk), memory.session.status().position
    with pytest.raises(ConflictError, match='The fact "likes coffee" was changed since by the agent in turn 1'):
        desk.undo()
    assert (state(desk), memory.session.status().position) == before


def test_an_undone_addition_leaves_no_words_behind():
    memory, desk = known("likes tea")
    desk.apply(wish.add("a secret"))
    desk.undo()
    assert "a secret" not in everything(memory)
    assert [f.text for f in desk.facts()] == ["likes tea"]


def everything(memory):
    """All that the database holds, as one text."""
    with memory.session.database.read() as connection:
        return "\n".join(connection.connection.driver_connection.iterdump())


def test_erased_facts_leave_no_words_and_cannot_be_undone():
    memory, desk = known("likes tea", "likes jazz")
    desk.apply(wish.edit(fact(desk, "likes tea"), "likes xylophones"))
    desk.apply(wish.retire([fact(desk, "likes xylophones")], "no more xylophones"))
    desk.apply(wish.pin([fact(desk, "likes jazz")]))
    desk.erase([fact(desk, "likes xylophones")])
    assert "xylophones" not in everything(memory)
    assert [(c.words, c.undone, c.final) for c in desk.changes()] == [
        ("pinned a fact", False, False),
        ("retired a fact", False, True),
        ("edited a fact", False, True),
    ]
    assert [desk.undo().words, desk.undo()] == ["pinned a fact", None]


def test_erasing_leaves_words_that_another_fact_or_its_history_needs():
    memory, desk = known("likes tea", "likes jazz")
    desk.apply(wish.edit(fact(desk, "likes jazz"), "likes blues"))
    desk.apply(wish.add("Likes jazz"))
    desk.apply(wish.edit(fact(desk, "Likes jazz"), "likes jazz"))
    desk.erase([fact(desk, "likes jazz")])
    assert [r.text for r in memory.facts.history(fact(desk, "likes blues"))] == ["likes jazz", "likes blues"]


def test_erasing_leaves_a_fixed_text_of_the_same_words():
    memory, desk = known("likes tea")
    memory.blocks.add(StaticMemoryBlock(name="core", static_content="likes tea"))
    desk.erase(desk.facts())
    memory.session.refresh()
    assert "likes tea" in memory.get("x")[0].content


WISHES = st.lists(
    st.tuples(st.sampled_from(["add", "edit", "merge", "split", "pin", "unpin", "retire", "restore", "reject", "accept",
                               "supersede", "keep_both", "undo"]), st.integers(0, 5), st.integers(0, 5)),
    max_size=8,
)  # fmt: skip


def wanted(kind, facts, first, second, number):
    a, b = facts[first % len(facts)], facts[second % len(facts)]
    return {
        "add": lambda: wish.add(f"new {number}", pinned=bool(first % 2)),
        "edit": lambda: wish.edit(a, f"other {number} words"),
        "merge": lambda: wish.merge([a, b], f"merged {number}"),
        "split": lambda: wish.split(a, [f"part {number} a", f"part {number} b"]),
        "pin": lambda: wish.pin([a, b]),
        "unpin": lambda: wish.pin([a, b], False),
        "retire": lambda: wish.retire([a, b], "why"),
        "restore": lambda: wish.restore([a, b]),
        "reject": lambda: wish.reject([a]),
        "accept": lambda: wish.accept([a, b]),
        "supersede": lambda: wish.supersede(a, b),
        "keep_both": lambda: wish.keep_both([a, b]),
    }[kind]()


def sketch(facts):
    return [(f.text, f.state, f.pinned, f.tokens, f.sources) for f in facts]


@pytest.mark.slow
@settings(max_examples=40)
@given(WISHES, st.booleans())
def test_as_many_undos_as_change_sets_give_the_facts_back(wishes, approval):
    memory = make(approval=approval)
    learn(memory, "fact: likes tea", "fact: plays chess on Sundays")
    learn(memory, "fact: Ana is a friend")
    desk = memory.facts.desk("facts")
    stack = [state(desk)]
    for number, (kind, first, second) in enumerate(wishes):
        if kind == "undo":
            undone = desk.undo()
            assert (undone is None) == (len(stack) == 1)
            stack = stack[:-1] or stack
            assert state(desk) == stack[-1] if undone else True
            continue
        try:
            change = wanted(kind, desk.facts(), first, second, number)
        except MessageError:
            continue
        expected = wish.active_after(desk.facts(("active",)), change, memory.session.count_tokens)
        desk.apply(change)
        assert sketch(desk.facts(("active",))) == sketch(expected)
        stack.append(state(desk))
        rebuilt = rebuild(memory.events(), lambda key: memory.log.texts([key]).get(key))
        assert [(f.id, f.text, f.state, f.pinned, f.sources) for f in rebuilt.facts] == [
            (f.id, f.text, f.state, f.pinned, f.sources) for f in desk.facts()
        ]
    while len(stack) > 1:
        assert desk.undo() is not None
        stack.pop()
        assert state(desk) == stack[-1]
    assert desk.undo() is None
    rebuilt = rebuild(memory.events(), lambda key: memory.log.texts([key]).get(key))
    assert [(f.id, f.text, f.state, f.pinned, f.sources) for f in rebuilt.facts] == [
        (f.id, f.text, f.state, f.pinned, f.sources) for f in desk.facts()
    ]


# -- approval and rejection ----------------------------------------------------------------------


def test_with_approval_new_facts_wait_and_reach_no_prompt():
    memory, desk = known("likes tea", approval=True)
    assert [(f.text, f.state) for f in desk.facts()] == [("likes tea", "proposed")]
    assert "likes tea" not in str(memory.get("x"))
    assert [r.event.state for r in memory.events(kinds=["fact_added"])] == ["proposed"]
    assert [f.text for f in desk.review().facts] == ["likes tea"]
    desk.apply(wish.accept(desk.facts()))
    assert "likes tea" in memory.get("x")[0].content
    assert (desk.review().facts, memory.events(kinds=["fact_accepted"])[0].actor) == ((), "user")
    desk.undo()
    assert [f.text for f in desk.review().facts] == ["likes tea"]


def test_with_approval_what_an_agent_adds_waits_whichever_way_it_adds_it():
    memory = make(approval=True)
    memory.facts.add("likes tea", actor="agent")
    memory.facts.add("likes jazz")
    assert [(f.text, f.state) for f in memory.facts.desk().facts()] == [
        ("likes tea", "proposed"),
        ("likes jazz", "active"),
    ]


def test_with_approval_other_words_of_an_agent_wait_beside_the_fact_until_a_person_chooses():
    memory = make(approval=True)
    memory.facts.add("likes tea", pinned=True, category="taste", topics=["drinks"])
    foretold = memory.facts.edit(1, "likes rum", actor="agent", preview=True)
    change = memory.facts.edit(1, "likes rum", actor="agent")
    assert change.sentence == foretold.sentence == "Added a fact. A person has to accept it first."
    prompt = memory.build_context("x", record=False).messages
    assert prompt == memory.facts.edit(1, "likes rum!", actor="agent", preview=True).prompt.messages
    assert ("likes tea" in str(prompt), "rum" in str(prompt)) == (True, False)
    desk = memory.facts.desk()
    old, new = desk.facts()
    assert (old.text, old.version) == ("likes tea", 1)
    assert (new.text, new.state, new.pinned, new.category, new.topics) == (
        "likes rum",
        "proposed",
        True,
        "taste",
        ("drinks",),
    )
    assert [flag.other for flag in desk.review().flags[new.id]] == [old.id]
    desk.apply(wish.supersede(old, new))
    assert "likes tea" not in str(memory.get("x"))
    assert "likes rum" in memory.get("x")[0].content


def test_with_approval_the_same_words_of_an_agent_wait_once():
    memory = make(approval=True)
    memory.facts.add("likes tea")
    memory.facts.edit(1, "likes rum", actor="agent")
    with pytest.raises(MessageError, match='"Likes rum" waits for a person already'):
        memory.facts.edit(1, "Likes rum", actor="agent")
    memory.facts.edit(2, "likes rum and cola", actor="agent")  # what waits may be reworded while it waits
    assert [(f.text, f.state) for f in memory.facts.desk().facts()] == [
        ("likes tea", "active"),
        ("likes rum and cola", "proposed"),
    ]
    assert [flag.other for flag in memory.facts.desk().review().flags[2]] == [1]


def test_with_approval_no_way_round_gives_an_agent_other_words():
    memory = make(approval=True)
    for text in ("likes tea", "likes jazz", "has a cat", "has a dog"):
        memory.facts.add(text)
    memory.facts.merge([1, 2], "likes rum", actor="agent")
    desk = memory.facts.desk()
    desk.apply(wish.split(desk.facts()[2], ["has a rum barrel", "has rum"]), actor="agent")
    memory.facts.retire(4, actor="agent")
    memory.facts.edit(4, "has rum and a dog", actor="agent")
    with pytest.raises(ConfigError, match='a person must approve this: "has a dog" stays as it is'):
        memory.facts.restore(4, actor="agent")
    memory.facts.restore(4)
    person = memory.facts.edit(4, "has a cow")
    with pytest.raises(ConfigError, match='a person must approve this: "has a cow" stays as it is'):
        desk.undo(person.number, actor="agent")
    assert [f.text for f in memory.facts.read("facts")] == ["likes tea", "likes jazz", "has a cat", "has a cow"]
    waiting = {f.id: f.text for f in memory.facts.read("facts", states=["proposed"])}
    assert list(waiting.values()) == ["likes rum", "has a rum barrel", "has rum", "has rum and a dog"]
    flags = desk.review().flags
    assert [{flag.other for flag in flags[id] if flag.kind == "contradiction"} for id in waiting] == [
        {1, 2},
        {3},
        set(),
        {4},
    ]


@pytest.mark.parametrize("together", [False, True], ids=["edited, then accepted", "edited and accepted at once"])
def test_with_approval_what_an_agent_has_split_waits_for_a_choice_however_a_person_words_its_parts(together):
    memory, desk = known("likes tea and has a cat")
    memory.blocks.configure("facts", approval=True)
    (old,) = desk.facts()
    desk.apply(wish.split(old, ["likes teas", "has a cat"]), actor="agent")
    part, words = fact(desk, "likes teas"), "likes tea"  # by the rules no contradiction: it only says less
    if together:
        desk.apply(wish.together("edit", wish.edit(part, words), wish.accept([part])))
    else:
        desk.apply(wish.edit(part, words))
        assert old.id in [flag.other for flag in desk.review().flags[part.id]]
        desk.apply(wish.accept([fact(desk, words)]))
    assert ("contradiction", old.id) in [(flag.kind, flag.other) for flag in desk.review().flags[part.id]]
    desk.apply(wish.supersede(old, fact(desk, words)))
    assert part.id not in desk.review().flags
    assert fact(desk, old.text).state == "superseded"


def test_with_approval_a_program_keeps_and_rewords_facts_under_its_keys():
    memory = make(approval=True)
    desk = memory.facts.desk()
    desk.put({"a": wish.FactDraft("likes tea")})
    desk.put({"a": wish.FactDraft("likes rum")})
    memory.facts.edit(1, "likes gin", actor="agent")
    assert [(f.text, f.state) for f in desk.facts()] == [("likes gin", "active")]


def agents_wish(kind, fact, other, words):
    match kind:
        case "a":
            return wish.add(words)
        case "d":
            return wish.retire([fact])
        case "e":
            return wish.edit(fact, words)
        case "r":
            return wish.restore([fact])
        case "m":
            return wish.merge([fact, other], words)
        case _:
            return wish.split(fact, [words, f"{words} twice"])


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("adermsu"), st.integers(0, 5), st.integers(0, 5)), max_size=12))
@pytest.mark.slow
def test_with_approval_no_prompt_has_words_of_an_agent(steps):
    memory = make(approval=True)
    for text in ("likes tea", "likes jazz"):
        memory.facts.add(text)
    desk = memory.facts.desk()
    for number, (kind, one, other) in enumerate(steps):
        facts = desk.facts()
        if not facts:
            break
        try:
            if kind == "u":
                change = desk.changes()[one % len(desk.changes())]
                desk.undo(change.number, actor="agent")
            else:
                wished = agents_wish(kind, facts[one % len(facts)], facts[other % len(facts)], f"likes rum {number}")
                desk.apply(wished, actor="agent")
        except (MessageError, ConfigError, ConflictError):
            pass  # refused, which is as well
    assert "rum" not in str(memory.build_context("x", record=False).messages)


def test_what_waits_is_not_found_again():
    extractor = SayingExtractor()
    memory, desk = known("likes tea", approval=True, extractor=extractor)
    learn(memory, "fact: Likes tea.")
    assert ([f.text for f in desk.facts()], extractor.known[-1]) == (["likes tea"], ["likes tea"])
    assert len(memory.events(kinds=["fact_confirmed"])) == 1


def test_what_waits_does_not_count_for_condensing():
    memory = make(approval=True, max_facts=2)
    learn(memory, *[f"fact: number {n} is a note about {word}" for n, word in enumerate(("tea", "jazz", "trains"))])
    assert {f.state for f in memory.facts.read("facts", states=None)} == {"proposed"}


def test_approval_is_a_setting_that_sessions_made_before_it_get(tmp_path):
    memory = make(on_file(tmp_path))
    with memory.session.database.write() as connection:
        stored = connection.exec_driver_sql("select settings, constructor from mi_block").one()
        older = [json.loads(text) for text in stored]
        del older[0]["approval"], older[1]["settings"]["approval"]
        connection.exec_driver_sql("update mi_block set settings = ?, constructor = ?", tuple(map(json.dumps, older)))
    again = make(on_file(tmp_path))
    assert [r.kind for r in again.events()].count("block_edited") == 0
    again.blocks.configure("facts", approval=True)
    learn(again, "fact: likes tea")
    assert [f.state for f in again.facts.desk("facts").facts()] == ["proposed"]
    assert [f.state for f in make(on_file(tmp_path)).facts.desk("facts").facts()] == ["proposed"]


def test_a_near_copy_of_a_rejected_fact_is_held_back_and_can_be_allowed():
    memory, desk = known("likes tea")
    desk.apply(wish.reject(desk.facts(), "Wrong"))
    learn(memory, "fact: likes tea!", "fact: likes jazz")
    (record,) = memory.events(kinds=["fact_held_back"])
    assert isinstance(record.event, FactHeldBack)
    (held,) = desk.held_back()
    assert (held.draft.text, held.near.text, held.similarity, held.turn, held.draft.sources, held.position) == (
        "likes tea!",
        "likes tea",
        1.0,
        2,
        (("s", 2),),
        record.position,
    )
    desk.apply(wish.allow(held))
    assert [(f.text, f.sources) for f in desk.facts(("active",))] == [
        ("likes jazz", (("s", 2),)),
        ("likes tea!", (("s", 2),)),
    ]
    assert desk.held_back() == []
    desk.undo()
    assert [h.draft.text for h in desk.held_back()] == ["likes tea!"]


def test_what_was_held_back_is_no_matter_once_the_rejection_is_lifted():
    memory, desk = known("likes tea")
    desk.apply(wish.reject(desk.facts()))
    learn(memory, "fact: likes tea!")
    learn(memory, "fact: likes tea!")
    assert len(desk.held_back()) == 1
    desk.apply(wish.restore(desk.facts()))
    assert desk.held_back() == []


def test_erasing_a_rejected_fact_erases_what_was_held_back_near_it():
    memory, desk = known("likes xylophones")
    desk.apply(wish.reject(desk.facts()))
    learn(memory, "fact: Likes xylophones!")
    memory.reset("archived")
    desk.erase(desk.facts())
    assert "xylophones" not in everything(memory)


# -- trying --------------------------------------------------------------------------------------


def test_trying_says_what_would_become_of_each_fact_and_stores_nothing():
    memory, desk = known("home=lives in Porto", "likes tea", "likes jazz")
    desk.apply(wish.reject([fact(desk, "likes jazz")]))
    before = state(desk), memory.session.status().position
    lines = [
        "fact: likes tea.",
        "fact: likes jazz.",
        "fact: home=lives in Lisbon",
        "fact: plays chess",
        "fact: Plays chess",
    ]
    tried = desk.try_extraction("\n".join(lines))
    assert [(t.text, t.outcome, t.fact.text if t.fact else None) for t in tried] == [
        ("likes tea.", "confirmed", "likes tea"),
        ("likes jazz.", "held_back", "likes jazz"),
        ("lives in Lisbon", "added", None),
        ("plays chess", "added", None),
        ("Plays chess", "repeated", None),
    ]
    assert [f.text for f in tried[2].conflicts_with] == ["lives in Porto"]
    assert (state(desk), memory.session.status().position) == before
    memory.blocks.configure("facts", approval=True)
    assert [t.outcome for t in desk.try_extraction("fact: plays chess")] == ["proposed"]
    with pytest.raises(MessageError, match="no text"):
        desk.try_extraction(" ")


# -- review --------------------------------------------------------------------------------------


def moved(porto="The user lives in Porto", lisbon="The user lives in Lisbon", slot="home="):
    """Two facts of which the second contradicts the first."""
    memory, desk = known(f"{slot}{porto}")
    learn(memory, f"fact: {slot}{lisbon}")
    return desk


def waiting(desk):
    return [f.text for f in desk.review().facts]


def test_of_a_contradiction_the_newer_fact_waits_until_a_person_said_which_holds():
    desk = moved()
    porto, lisbon = desk.facts()
    review = desk.review()
    assert [f.text for f in review.facts] == ["The user lives in Lisbon"]
    assert {id: [(flag.kind, flag.other) for flag in flags] for id, flags in review.flags.items()} == {
        porto.id: [("contradiction", lisbon.id)],
        lisbon.id: [("contradiction", porto.id)],
    }
    desk.apply(wish.keep_both([porto, lisbon]))
    assert (desk.review().facts, desk.review().flags) == ((), {})
    desk.undo()
    assert waiting(desk) == ["The user lives in Lisbon"]
    desk.apply(wish.supersede(*desk.facts()))
    assert desk.review().facts == ()


def test_an_erased_fact_leaves_no_words_of_its_slot_in_the_log():
    memory, desk = known("vantongeren.home=Vantongeren lives in Ghent")
    assert "vantongeren" in repr(memory.events())
    desk.erase(desk.facts())
    assert "vantongeren" not in repr(memory.events())


def test_an_erased_fact_leaves_the_slots_of_other_facts_whose_codes_have_its_words():
    memory, desk = known("home", "user.home=The user lives in Ghent")
    desk.erase([fact for fact in desk.facts() if fact.text == "home"])
    assert [fact.slot for fact in memory.facts.read("facts")] == ["user.home"]
    assert "user.home" in repr(memory.events())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Mia likes rock music", "Mia enjoys rock music"),
        ("Mia is allergic to plums", "Mia has a plum allergy"),
        ("mia.home=Mia lives in Ghent", "mia.home=Mia's home town is Ghent"),
        ("Mia eats fish", "Mia eats fish on Fridays"),
    ],
)
@pytest.mark.parametrize("how", ["rejected", "retired as wrong"])
def test_what_a_person_put_away_as_untrue_waits_when_it_is_said_in_other_words(before, after, how):
    memory, desk = known(before)
    (gone,) = desk.facts()
    put_away = memory.facts.reject if how == "rejected" else memory.facts.retire
    put_away(gone, reason="wrong")
    learn(memory, f"fact: {after}", "fact: Leo eats fish")
    new = fact(desk, after.rpartition("=")[2])
    assert new.state == "proposed"
    assert f'Says what was {how}: "{gone.text}".' in [flag.sentence for flag in desk.review().flags[new.id]]
    assert fact(desk, "Leo eats fish").state == "active"
    desk.apply(wish.accept([new]))
    learn(memory, f"fact: {after}")
    assert fact(desk, new.text).state == "active"


def test_what_was_retired_for_another_reason_is_learned_again_unasked():
    memory, desk = known("Mia likes rock music")
    memory.facts.retire(*desk.facts(), reason="not needed")
    learn(memory, "fact: Mia enjoys rock music")
    assert fact(desk, "Mia enjoys rock music").state == "active"


def test_rejecting_is_one_call_with_its_undo():
    memory, desk = known("Mia likes rock music")
    memory.facts.reject(*desk.facts(), reason="made up")
    assert [each.state for each in desk.facts()] == ["rejected"]
    memory.facts.undo()
    assert [each.state for each in desk.facts()] == ["active"]


def test_an_imported_denial_waits_for_review_beside_what_it_denies():
    _memory, desk = known("Leo is a nurse", "The gala is on 3 May")
    rows = "text\nLeo isn't a nurse anymore\nThe gala is on 2027-05-03\nMia dislikes plums\nMia loves plums\n"
    desk.apply(plan_import(read_facts_file(rows, filename="facts.csv"), desk.facts()).change)
    assert waiting(desk) == ["Leo isn't a nurse anymore", "Mia loves plums"]


def test_what_a_model_finds_without_a_slot_meets_its_opposite():
    memory, desk = known("Mia trusts the bank")
    learn(memory, "fact: Mia no longer trusts the bank")
    assert waiting(desk) == ["Mia no longer trusts the bank"]


@pytest.mark.parametrize(
    "change",
    [
        lambda porto, lisbon: wish.accept([lisbon]),
        lambda porto, lisbon: wish.pin([lisbon]),
        lambda porto, lisbon: wish.label([lisbon], "home"),
        lambda porto, lisbon: wish.edit(lisbon, "The user lives in Lisbon now"),
        lambda porto, lisbon: wish.edit(lisbon, "The user no longer lives in Porto"),
        lambda porto, lisbon: wish.edit(porto, "The user lives in Porto, near the river"),
    ],
)
def test_two_facts_that_contradict_each_other_stay_marked_whatever_else_is_done_to_them(change):
    desk = moved()
    desk.apply(change(*desk.facts()))
    assert set(desk.review().flags) == {f.id for f in desk.facts()}
    assert len(waiting(desk)) == 1


def test_a_contradiction_is_marked_again_when_the_fact_that_was_put_away_is_restored():
    desk = moved()
    desk.apply(wish.supersede(*desk.facts()))
    desk.apply(wish.restore(desk.facts()))
    assert waiting(desk) == ["The user lives in Lisbon"]


@pytest.mark.parametrize(
    ("which", "words"),
    [
        (0, "The user lived in Porto until May"),
        (0, "The user likes Porto"),
        (1, "The user has a flat in Lisbon"),
        (1, "The user often visits Lisbon"),
    ],
)
def test_a_contradiction_ends_when_the_words_no_longer_contradict_and_is_back_when_they_do(which, words):
    desk = moved()
    desk.apply(wish.edit(desk.facts()[which], words))
    assert (desk.review().facts, desk.review().flags) == ((), {})
    desk.undo()
    assert waiting(desk) == ["The user lives in Lisbon"]


def test_a_contradiction_in_words_that_no_rule_reads_stays_until_it_is_settled():
    desk = moved("home is Porto", "home is Lisbon")
    desk.apply(wish.edit(desk.facts()[0], "home is Porto in winter"))
    assert waiting(desk) == ["home is Lisbon"]


def test_keeping_both_takes_two_facts_that_are_not_put_away():
    desk = moved()
    porto = desk.facts()[0]
    with pytest.raises(MessageError):
        wish.keep_both([porto])
    desk.apply(wish.retire([porto]))
    with pytest.raises(MessageError):
        wish.keep_both(desk.facts())


def test_a_fact_that_only_the_assistant_said_waits_for_a_person():
    memory = make()
    learn(memory, "fact: Sam dislikes loud restaurants", said=assistant)
    review = memory.facts.desk("facts").review()
    assert [(f.text, [flag.kind for flag in review.flags[f.id]]) for f in review.facts] == [
        ("Sam dislikes loud restaurants", ["from_assistant"])
    ]


def test_the_nearest_other_fact_is_named():
    _, desk = known("the dinner is on 14 March", "likes jazz", approval=True)
    review = desk.review()
    assert review.nearest(review.facts[0]) is None
    desk.apply(wish.add("the dinner is on 14 March upstairs"))
    review = desk.review()
    near, score = review.nearest(fact(desk, "the dinner is on 14 March"))
    assert (near.text, 0.3 < score < 1) == ("the dinner is on 14 March upstairs", True)


def test_the_words_that_carry_a_fact_are_found_in_its_sources():
    memory = make()
    memory.put(user("Hello there.\nfact: Ana is allergic to nuts"))
    memory.flush(all=True)
    desk = memory.facts.desk("facts")
    (source,) = desk.sources(desk.facts()[0])
    assert (source.seq, source.turn, source.role) == (1, 1, "user")
    assert [source.text[start:end] for start, end in source.spans] == ["Ana is allergic to nuts"]
    assert desk.source_turns(desk.facts()) == {("s", 1): 1}


# -- rewrites ------------------------------------------------------------------------------------


def shorter(facts):
    """Keep the first, merge the next two, lose the fourth, and make one up."""
    yield CondensedFact(facts[0], stands_for=(0,))
    yield CondensedFact("likes tea and coffee", stands_for=(1, 2))
    yield CondensedFact("owns a submarine", stands_for=())


def condensed():
    memory = make(extractor=SayingExtractor(shorter), max_facts=4)
    learn(memory, "fact: lives in Porto", "fact: likes tea", "fact: drinks coffee", "fact: parks behind the church")
    learn(memory, "fact: plays chess on Sundays")
    return memory, memory.facts.desk("facts")


def active(desk):
    return [f.text for f in desk.facts(("active",))]


def test_a_condensing_is_shown_as_what_it_kept_merged_lost_and_made_up():
    _, desk = condensed()
    (rewrite,) = desk.rewrites()
    assert ([line.text for line in rewrite.kept], [line.text for line in rewrite.vanished]) == (
        ["lives in Porto"],
        ["parks behind the church", "plays chess on Sundays"],
    )
    assert [([s.text for s in m.sources], m.into.text, m.into.unsupported) for m in rewrite.merged] == [
        (["likes tea", "drinks coffee"], "likes tea and coffee", False)
    ]
    assert [(line.text, line.unsupported) for line in rewrite.new] == [("owns a submarine", True)]
    assert (rewrite.before, rewrite.after, rewrite.refused) == (5, 3, False)


def test_what_vanished_is_restored_and_pinned():
    _, desk = condensed()
    (rewrite,) = desk.rewrites()
    desk.apply(wish.restore_vanished([rewrite.vanished[0].fact]))
    assert [(f.text, f.pinned) for f in desk.facts(("active",)) if f.pinned] == [("parks behind the church", True)]
    assert [line.restored for line in desk.rewrites()[0].vanished] == [True, False]


def test_the_words_in_a_rewrite_are_those_of_then():
    _, desk = condensed()
    desk.apply(wish.edit(fact(desk, "lives in Porto"), "lives in Lisbon"))
    assert [(line.text, line.fact.text) for line in desk.rewrites()[0].kept] == [("lives in Porto", "lives in Lisbon")]


def test_a_refused_rewrite_leaves_the_list_as_it_was_and_is_not_repeated_at_once():
    memory, desk = condensed()
    (rewrite,) = desk.rewrites()
    desk.apply(desk.refuse(rewrite))
    assert sorted(active(desk)) == [
        "drinks coffee",
        "likes tea",
        "lives in Porto",
        "parks behind the church",
        "plays chess on Sundays",
    ]
    assert desk.rewrites()[0].refused
    with pytest.raises(MessageError, match="change nothing"):
        desk.refuse(desk.rewrites()[0])
    memory.put(user("nothing new"))
    memory.flush(all=True)
    assert len(memory.events(kinds=["facts_condensed"])) == 1
    desk.undo()
    assert sorted(active(desk)) == ["likes tea and coffee", "lives in Porto", "owns a submarine"]


def test_refusing_a_rewrite_leaves_alone_what_a_person_rejected_since():
    _, desk = condensed()
    desk.apply(wish.reject([fact(desk, "parks behind the church")]))
    desk.apply(desk.refuse(desk.rewrites()[0]))
    assert fact(desk, "parks behind the church").state == "rejected"
    assert desk.rewrites()[0].refused


def test_a_log_without_condensing_has_no_rewrites():
    assert known("likes tea")[1].rewrites() == []


# -- the user's facts ----------------------------------------------------------------------------


def test_facts_of_the_user_are_curated_from_every_session_of_theirs(tmp_path):
    first = make(on_file(tmp_path), "one", user_id="ana", scope="user")
    learn(first, "fact: likes tea")
    second = make(on_file(tmp_path), "two", user_id="ana", scope="user")
    other = make(on_file(tmp_path), "three", user_id="bob", scope="user")
    learn(other, "fact: likes tea")
    learn(second, "fact: drinks coffee daily")
    one, two = first.facts.desk("facts"), second.facts.desk("facts")
    before = state(one)
    one.apply(wish.merge(one.facts(), "likes tea and coffee"))
    two.apply(wish.pin(two.facts(("active",))))
    assert [c.action for c in one.changes()] == ["pin", "merge"]
    assert [one.undo().action, two.undo().action, one.undo()] == ["pin", "merge", None]
    assert state(two) == before
    assert other.facts.desk("facts").changes() == []
    two.erase([fact(two, "likes tea")])
    assert [f.text for f in one.facts()] == ["drinks coffee daily"]
    assert [f.text for f in other.facts.desk("facts").facts()] == ["likes tea"]


def test_a_session_of_its_own_scope_does_not_undo_what_is_the_users(tmp_path):
    users = make(on_file(tmp_path), "one", user_id="ana", scope="user")
    own = make(on_file(tmp_path), "two", user_id="ana")
    users.facts.desk("facts").apply(wish.add("likes tea"))
    own.facts.desk("facts").apply(wish.add("likes jazz"))
    assert [c.number for c in users.facts.desk("facts").changes()] != [
        c.number for c in own.facts.desk("facts").changes()
    ]
    assert own.facts.desk("facts").undo().action == "add"
    assert own.facts.desk("facts").undo() is None
    assert [f.text for f in users.facts.desk("facts").facts()] == ["likes tea"]


def test_a_condensed_list_is_rebuilt_with_the_sources_it_handed_on():
    memory, desk = condensed()
    rebuilt = rebuild(memory.events(), lambda key: memory.log.texts([key]).get(key))
    assert [(f.text, f.sources) for f in rebuilt.facts] == [(f.text, f.sources) for f in desk.facts()]
    assert {f.text: f.sources for f in desk.facts(("active",))}["owns a submarine"] == (("s", 1), ("s", 2))


@pytest.mark.parametrize("put_away", ["proposed", "rejected"])
def test_an_agent_accepts_neither_its_own_proposal_nor_what_a_person_rejected(put_away):
    memory = Memory.from_defaults("s", memory_blocks=[FactExtractionMemoryBlock(name="Facts", approval=True)])
    memory.put(ChatMessage(role="user", content="I like figs."))
    memory.flush(all=True)
    desk = memory.facts.desk("Facts")
    [fact] = memory.facts.read("Facts", states=None)
    if put_away == "rejected":
        desk.apply(wish.reject([fact], "Wrong"))
        [fact] = memory.facts.read("Facts", states=None)
    change = wish.accept([fact]) if put_away == "proposed" else wish.restore([fact])
    with pytest.raises(ConfigError):
        desk.apply(change, actor="agent")
    assert [one.state for one in memory.facts.read("Facts", states=None)] == [put_away]
    desk.apply(change)
    assert [one.state for one in memory.facts.read("Facts", states=None)] == ["active"]
