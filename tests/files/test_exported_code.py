"""Code that is written for other programs: it compiles, runs, and calls nothing but our own classes."""

import ast

import pytest
from engine_fakes import Counter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_core import ConfigError
from memory_core.blocks import BUILT_IN
from memory_core.config import MemoryConfig
from memory_inspector.files.configuration import StoredBlock, write_python
from memory_inspector.files.llamaindex_python import write_llamaindex_python

NAMES = st.text(max_size=12) | st.sampled_from(["/tmp/x.so", "a\nimport os", 'x"""', "#", "\\", "\x00", "\u2028", "\r"])
TYPES = st.sampled_from(
    [
        *BUILT_IN,
        "ctypes.CDLL",
        "os.system",
        "class.x",
        "None.True",
        "my_package.import",
        "a.b\nimport os",
        "x\x00.y",
        "",
    ]
)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | NAMES | st.lists(NAMES, max_size=2)
SETTINGS = st.dictionaries(
    st.sampled_from(
        ["priority", "max_facts", "fact_extraction_prompt_template", "fact_condense_prompt_template", "description",
         "similarity_top_k", "max_tokens", "scope", "enabled", "top_k", "show", "categories", "limit"]
    ) | NAMES, VALUES, max_size=4,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(NAMES, TYPES, SETTINGS, st.none() | NAMES), max_size=4, unique_by=lambda each: each[0]),
    st.booleans(),
)
def test_code_for_any_blocks_compiles_runs_and_calls_nothing_but_ours(given, for_llamaindex):
    blocks = [StoredBlock(name=name, type=kind, settings=values, text=text) for name, kind, values, text in given]
    try:
        write = write_llamaindex_python if for_llamaindex else write_python
        code = write(MemoryConfig(), blocks)
    except ConfigError:
        assert for_llamaindex  # the other writes a comment
        return
    tree = ast.parse(code)
    modules = {str(each.module).partition(".")[0] for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}
    assert modules <= {"memory_core", "llama_index", "tiktoken", "collections"}
    assert not [each for each in ast.walk(tree) if isinstance(each, ast.Import)]
    if not for_llamaindex:
        calls = [each.func for each in ast.walk(tree) if isinstance(each, ast.Call)]
        names = {each.id for each in calls if isinstance(each, ast.Name)}
        assert names <= {kind.__name__ for kind in BUILT_IN.values()}
    exec(compile(code, "exported.py", "exec"), {})


def test_a_class_of_this_program_is_written_with_its_import():
    block = StoredBlock(name="own", type=f"{Counter.__module__}.{Counter.__qualname__}", settings={})
    assert f"from {Counter.__module__} import Counter" in write_python(MemoryConfig(), [block])


def test_prompts_that_need_a_model_are_a_comment_beside_the_block():
    block = StoredBlock(
        name="b", type="facts", settings={"fact_extraction_prompt_template": "List facts.", "max_facts": 9}
    )
    code = write_python(MemoryConfig(), [block])
    assert "# With llm=... for the block 'b', also: fact_extraction_prompt_template='List facts.'" in code
    made = {}
    exec(code, made)
    assert made["memory"].blocks.settings("b")["max_facts"] == 9
