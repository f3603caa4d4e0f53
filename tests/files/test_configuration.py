import json

import pytest
from engine_fakes import Counter, open_memory
from fakes import FakeEmbedder

from memory_core import (
    FactExtractionMemoryBlock,
    FormatError,
    Memory,
    Services,
    StaticMemoryBlock,
    TextPart,
    VectorMemoryBlock,
)
from memory_core.blocks import plugins
from memory_inspector.files.configuration import read_configuration
from memory_inspector.files.files import export_configuration, export_python

TEXT = 'Be kind.\n"Quoted" \\ and \'\'\' """ 🎈 {braces}'


def made(**settings):
    return Memory.from_defaults(
        token_limit=1200,
        chat_history_token_ratio=0.6,
        insert_method="user",
        user_id="sam",
        memory_blocks=[
            StaticMemoryBlock(name="Core info", static_content=TEXT, priority=0),
            StaticMemoryBlock(name="Parts", static_content=(TextPart(text="a"), TextPart(text="b")), enabled=False),
            FactExtractionMemoryBlock(name="Facts", priority=1, scope="user", max_facts=20),
            VectorMemoryBlock(name="Earlier", priority=2, similarity_threshold=0.3, similarity_top_k=7),
        ],
        services=Services(embedder=FakeEmbedder()),
        **settings,
    )


def shown(memory):
    return memory.session.config, [(a.name, a.record.type, a.record.settings, a.state) for a in memory.blocks]


def refused(data, name="c.json"):
    with pytest.raises(FormatError) as error:
        read_configuration(data if isinstance(data, str) else json.dumps(data), name)
    return str(error.value)


def test_a_configuration_makes_the_same_memory_again():
    memory = made()
    memory.blocks.edit("Core info", "Edited.")
    memory.blocks.configure("Earlier", similarity_top_k=3)
    read = read_configuration(export_configuration(memory), "c.json")
    again = Memory.from_defaults(user_id="ana", memory_blocks=[*read.blocks], **read.settings)
    assert shown(again) == shown(memory)
    assert (read.skipped, read.of_user) == ((), ("Facts",))
    assert export_configuration(again) == export_configuration(memory)


def test_python_to_paste_makes_the_same_memory_again():
    memory = made()
    written = export_python(memory)
    names = {}
    exec(compile(written, "pasted.py", "exec"), names)
    assert shown(names["memory"]) == shown(memory)
    assert names["memory"].session.user_id == "sam"
    assert written.startswith(
        "from memory_core import FactExtractionMemoryBlock, Memory, StaticMemoryBlock, VectorMemoryBlock\n\n"
        "memory = Memory.from_defaults(\n    user_id='sam',\n    token_limit=1200,\n"
    )


def test_only_what_differs_from_the_defaults_is_spelled_out():
    memory = Memory.from_defaults(memory_blocks=[FactExtractionMemoryBlock(name="Facts")])
    assert export_python(memory) == (
        "from memory_core import FactExtractionMemoryBlock, Memory\n\n"
        "memory = Memory.from_defaults(\n"
        "    memory_blocks=[\n"
        "        FactExtractionMemoryBlock(\n"
        "            name='Facts',\n"
        "        ),\n"
        "    ],\n"
        ")\n"
    )


def test_nothing_learned_and_nobody_is_in_a_configuration():
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="Facts")], user_id="private-sam")
    memory.facts.desk("Facts")
    written = export_configuration(memory)
    assert "private-sam" not in written
    assert set(json.loads(written)) == {"format", "version", "settings", "blocks"}


def test_a_custom_block_is_only_made_of_a_class_that_is_offered(monkeypatch):
    memory = open_memory(memory_blocks=[Counter(), StaticMemoryBlock(name="core", static_content="x")])
    written = export_configuration(memory)
    read = read_configuration(written, "c.json")
    assert [block.name for block in read.blocks] == ["core"]
    assert read.skipped == ('The block "counter" is left out: no package here offers engine_fakes.Counter.',)
    offer = plugins.Plugin("counter", "", "engine_fakes:Counter", Counter)
    monkeypatch.setattr(plugins, "plugins", lambda: (offer,))
    assert [type(block) for block in read_configuration(written, "c.json").blocks] == [Counter, StaticMemoryBlock]
    assert "from engine_fakes import Counter" in export_python(memory)


def test_a_class_name_that_is_code_is_not_written_into_python():
    memory = open_memory(memory_blocks=[Counter()])
    with memory.session.database.write() as connection:
        connection.exec_driver_sql("UPDATE mi_block SET type = 'os.system(\"rm\")\nimport evil.x'")
    memory.session.refresh()
    written = export_python(memory)
    assert "import evil" not in written.replace("# ", "")
    compile(written, "pasted.py", "exec")


GOOD = {"format": "memory-inspector-configuration", "version": 1, "settings": {}, "blocks": []}


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("{", "c.json is not a configuration: it is not valid JSON."),
        ([], "c.json is not a configuration of Memory Inspector."),
        ({**GOOD, "version": 9}, "c.json was written by a newer Memory Inspector."),
        ({**GOOD, "settings": {"token_limit": 0}}, "c.json is an impossible configuration: token_limit must be"),
        ({**GOOD, "settings": {"no_such": 1}}, "c.json is an impossible configuration: there is no setting"),
        ({**GOOD, "settings": []}, "c.json is not a configuration (settings: "),
        ({**GOOD, "extra": 1}, "c.json is not a configuration (extra: "),
        (
            {**GOOD, "blocks": [{"name": "a", "type": "facts", "settings": {"priority": -1}}]},
            "c.json is an impossible configuration: priority must be",
        ),
        (
            {**GOOD, "blocks": [{"name": "a", "type": "static", "settings": {}, "text": ""}] * 2},
            "c.json is an impossible configuration: two blocks have one name",
        ),
        (
            {**GOOD, "blocks": [{"name": "<b>", "type": "static", "settings": {}, "text": ""}]},
            "c.json is an impossible configuration: a block cannot be called",
        ),
    ],
)
def test_a_wrong_configuration_is_one_sentence(file, said):
    sentence = refused(file)
    assert sentence.startswith(said)
    assert sentence.endswith("Nothing was imported.")
