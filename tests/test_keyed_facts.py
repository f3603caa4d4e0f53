"""Facts with a program's key and metadata: versions, undo, the past, copies, files, search, erasing."""

import json

import pytest
from engine_fakes import HashEmbedder, NoteExtractor, assistant, note, on_file, open_memory, user
from hypothesis import given
from hypothesis import strategies as st

from memory_core import ConfigError, FactExtractionMemoryBlock, MessageError, Services
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.memory import Memory
from memory_core.planning import curation as wish
from memory_core.planning.fact_merging import metadata_text
from memory_inspector.checks.simulation import rebuild
from memory_inspector.files.facts_file import facts_to_csv, facts_to_json, plan_import, read_facts_file

PALETTE = {"theme": "dark", "sizes": [12, 1.5, None, True], "who": {"name": "Ada Ünal"}}


@pytest.fixture
def memory(tmp_path):
    blocks = [FactExtractionMemoryBlock(name="facts")]
    services = Services(embedder=HashEmbedder())
    return open_memory("s", database_uri=on_file(tmp_path), memory_blocks=blocks, services=services)


def keep(memory, key, text, metadata):
    return memory.facts.desk("facts").put({key: wish.FactDraft(text, metadata=metadata)})


def told(facts):
    return [(fact.text, fact.key, dict(fact.metadata), fact.state) for fact in facts]


def past(memory, position):
    with memory.session.database.read() as connection:
        words = dict(connection.exec_driver_sql("SELECT hash, data FROM mi_content").all())
    return rebuild(memory.events(), words.get, position, session_id="s").facts


def test_a_key_is_put_again_with_a_version_and_each_can_be_undone(memory):
    keep(memory, "users/ada/look", "dark", PALETTE)
    first = memory.events()[-1].position
    keep(memory, "users/ada/look", "light", {"theme": "light"})
    keep(memory, "users/ada/look", "light", {"theme": "light", "n": 1})
    [fact] = memory.facts.read("facts")
    history = memory.facts.history(fact)
    assert [(each.text, dict(each.metadata), each.actor) for each in history] == [
        ("dark", PALETTE, "agent"),
        ("light", {"theme": "light"}, "agent"),
        ("light", {"theme": "light", "n": 1}, "agent"),
    ]
    assert told(past(memory, first)) == [("dark", "users/ada/look", PALETTE, "active")]
    assert told(past(memory, None)) == told([fact])
    desk = memory.facts.desk("facts")
    numbers = [change.number for change in desk.changes()]
    desk.undo(numbers[0])
    assert told(desk.facts()) == [("light", "users/ada/look", {"theme": "light"}, "active")]
    desk.undo(numbers[1])
    assert told(desk.facts()) == [("dark", "users/ada/look", PALETTE, "active")]
    desk.undo(numbers[2])
    assert desk.facts() == []


def test_what_has_a_key_may_say_what_another_says_but_a_key_is_given_once(memory):
    desk = memory.facts.desk("facts")
    keep(memory, "a", "same", {})
    keep(memory, "b", "same", {})
    desk.apply(wish.add("Same"))
    with pytest.raises(MessageError, match='the key "a" already'):
        desk.apply(wish.add("other", key="a"))
    desk.apply(wish.retire(desk.facts()[:1]))
    keep(memory, "a", "again", {})
    with pytest.raises(MessageError, match='the key "a" already'):
        desk.apply(wish.restore(desk.facts()[:1]))
    assert [fact.key for fact in desk.facts(("active",))] == ["b", None, "a"]


def test_branches_and_bundles_carry_keys_metadata_and_their_versions(memory):
    memory.put(user("hello"))
    keep(memory, "k", "dark", PALETTE)
    keep(memory, "k", "light", {})
    [fact] = memory.facts.read("facts")
    history = [(each.text, dict(each.metadata)) for each in memory.facts.history(fact)]
    branch = memory.branch(1)
    bundle = read_bundle(write_bundle(memory.session.database, "s"), "s.zip")
    imported = import_bundle(memory.session.database, bundle)
    for copy in (branch, Memory.open(imported, memory.session.database, services=memory.session.services)):
        [copied] = copy.facts.read("facts")
        assert told([copied]) == told([fact])
        assert [(each.text, dict(each.metadata)) for each in copy.facts.history(copied)] == history


def test_a_fact_that_is_erased_leaves_neither_words_nor_key_nor_metadata(memory):
    keep(memory, "secret/marzipan", "likes marzipan", {"eats": "marzipan"})
    keep(memory, "secret/marzipan", "loves marzipan", {"eats": "more marzipan"})
    keep(memory, "other", "tea", {"eats": "tea"})
    desk = memory.facts.desk("facts")
    desk.erase(desk.facts()[:1])
    with memory.session.database.read() as connection:
        dump = [str(row) for table in ("mi_content", "mi_event", "mi_fact", "mi_fact_revision")
                for row in connection.exec_driver_sql(f"SELECT * FROM {table}")]  # fmt: skip
    assert not [row for row in dump if "marzipan" in row]
    assert told(desk.facts()) == [("tea", "other", {"eats": "tea"}, "active")]
    assert [fact.text for fact in past(memory, None)] == ["tea"]


def test_a_search_is_narrowed_by_the_beginning_of_keys_and_by_metadata(memory):
    for key, text, metadata in (
        ("users/ada/1", "likes tea", {"n": 1, "address": {"city": "Faro"}, "tags": ["hot", "green"]}),
        ("users/ada/2", "likes cold tea", {"n": 2}),
        ("users/ben/1", "likes tea too", {"n": 3}),
    ):
        keep(memory, key, text, metadata)

    def found(**filters):
        hits = memory.facts.search("tea", filters={name.replace("__", "."): how for name, how in filters.items()})
        return sorted(hit.fact.key for hit in hits)

    assert found(key={"prefix": "users/ada/"}) == ["users/ada/1", "users/ada/2"]
    assert found(key="users/ben/1") == ["users/ben/1"]
    assert found(metadata__n={"gte": 2}) == ["users/ada/2", "users/ben/1"]
    assert found(metadata__address__city="faro", key={"prefix": "users/"}) == ["users/ada/1"]
    assert found(metadata__tags="green") == ["users/ada/1"]
    assert found(metadata__n__deeper=1) == []
    with pytest.raises(ConfigError, match="metadata"):
        memory.facts.search("tea", filters={"meta": 1})


@pytest.mark.parametrize("written", [facts_to_json, facts_to_csv])
def test_a_file_takes_keys_and_metadata_out_and_in(memory, written):
    keep(memory, "=k", "dark", PALETTE)
    facts = memory.facts.read("facts")
    file = read_facts_file(written(facts, {}), filename="facts")
    plan = plan_import(file, [])
    assert [(new.text, new.key, dict(new.metadata)) for new in plan.change.steps] == [("dark", "=k", PALETTE)]
    assert plan_import(file, facts).change is None


def test_what_is_put_again_unchanged_is_confirmed_and_none_retires():
    memory = open_memory("s", memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    assert keep(memory, "k", "dark", PALETTE).sentence == "Put a fact under a key."
    assert keep(memory, "k", "dark", PALETTE) is None
    assert memory.events()[-1].kind == "fact_confirmed"
    desk = memory.facts.desk("facts")
    assert memory.facts.keyed("facts", ["k", "other"]).keys() == {"k"}
    assert desk.put({"k": None, "other": None}) is not None
    assert desk.put({"k": None}) is None
    assert memory.facts.keyed("facts", ["k"]) == {}
    assert [fact.state for fact in desk.facts()] == ["retired"]


@pytest.mark.parametrize(
    ("text", "metadata", "edited", "then"),
    [
        ("likes tea", {"text": "likes tea", "n": 1}, "likes coffee", {"text": "likes coffee", "n": 1}),
        ("likes tea", {"said": [{"as": "likes  tea"}, "tea"]}, "tea!", {"said": [{"as": "tea!"}, "tea"]}),
        ('{"a": "ü", "b": 1}', {"b": 1, "a": "ü"}, '{"a": "u"}', {"a": "u"}),
        ("dark", PALETTE, "light", {**PALETTE, "theme": "light"}),
        ("both words", {"a": "both", "b": "words"}, "others", {"a": "both", "b": "words"}),
    ],
)
def test_who_rewords_a_fact_rewords_what_the_program_reads(text, metadata, edited, then):
    memory = open_memory("s", memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    keep(memory, "k", text, metadata)
    desk = memory.facts.desk("facts")
    desk.apply(wish.edit(desk.facts()[0], edited))
    assert told(desk.facts()) == [(edited, "k", then, "active")]


def test_what_a_program_reads_as_json_stays_json():
    memory = open_memory("s", memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    keep(memory, "k", '{"n": 1}', {"n": 1})
    with pytest.raises(MessageError, match="JSON object"):
        wish.edit(memory.facts.read("facts")[0], "likes tea")


def test_condensing_leaves_what_a_program_keeps_alone():
    memory = open_memory("s", memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), max_facts=3,
                                                                       deliver_on="turn")])  # fmt: skip
    for number in range(5):
        keep(memory, f"k{number}", f"kept {number}", {"n": number})
    for number in range(6):
        memory.put_messages([note(number), assistant("noted")], end_turn=True)
    assert memory.events(kinds=["facts_condensed"])
    kept = [fact.key for fact in memory.facts.read("facts") if fact.key]
    assert kept == ["k0", "k1", "k2", "k3", "k4"]
    assert len(memory.facts.read("facts")) <= 5 + 3


def test_merging_facts_into_other_words_rewords_what_the_program_reads():
    memory = open_memory("s", memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    keep(memory, "a", "likes tea", {"text": "likes tea"})
    keep(memory, "b", "likes hot tea", {"text": "likes hot tea"})
    desk = memory.facts.desk("facts")
    desk.apply(wish.merge(desk.facts(), "likes green tea"))
    assert told(desk.facts(("active",))) == [("likes green tea", "a", {"text": "likes green tea"}, "active")]


def test_a_file_with_metadata_that_is_none_says_which_line():
    file = read_facts_file('text,key,metadata\ntea,a,{}\njazz,b,"[1"\nrain,c,"[1]"\n', filename="f.csv")
    assert [(each.place, each.what) for each in file.problems] == [
        (3, "metadata must be a JSON object"),
        (4, "metadata must be a JSON object"),
    ]


def deep(levels):
    return [deep(levels - 1)] if levels else 1


@pytest.mark.parametrize(
    "metadata", [{1: "a"}, {"a": deep(101)}, {"a": (1, 2)}, {"a": float("nan")}, {"a": {1, 2}}, [1]]
)
def test_what_is_no_json_object_is_refused_and_nothing_is_stored(memory, metadata):
    with pytest.raises(MessageError, match=r"JSON object|nested|a number"):
        keep(memory, "k", "words", metadata)
    assert memory.facts.read("facts", states=None) == []


@pytest.mark.parametrize("key", ["", "nul\x00", "half\ud800"])
def test_a_key_that_no_database_stores_is_refused(memory, key):
    with pytest.raises(MessageError, match="key"):
        memory.facts.desk("facts").apply(wish.add("words", key=key))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(), json_values, max_size=3))
def test_every_json_object_is_stored_as_it_is(metadata):
    assert json.loads(metadata_text(metadata)) == metadata
