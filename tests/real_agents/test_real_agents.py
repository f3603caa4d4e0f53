"""The real coding agents against a scripted model, through the recording proxy: what it held is what the product shows.

Not part of CI: `make real` runs it. `MEMORY_INSPECTOR_REAL_AGENTS` is `npm`, which installs the pinned versions in a
temporary folder, or a folder of ready installations (see `programs`).
"""

import datetime
import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from proxy_kit import Attached
from shared_data import missing_agents

from memory_core import Database, Memory, MemoryInspectorError, list_sessions
from memory_core.history.contexts import is_context
from memory_core.messages import MessageRole, ToolCallPart
from memory_inspector.coding.listing import Listing, home_of_file
from memory_inspector.coding.session_answers import follow_in
from memory_inspector.recorder.recording_proxy import UPSTREAM
from tests.real_agents.programs import PROGRAMS, RULES, Program, installed
from tests.real_agents.scripted_model import SUMMARY, TASK, Call, ScriptedModel

if missing_agents():
    pytest.skip(missing_agents(), allow_module_level=True)
pytestmark = pytest.mark.real

RULE = "Please never touch the lockfile."
TURNS = (
    ("first", f"{RULE} RUN:echo_marble THINK"),
    ("next", "Which colour is the harbour? SUB:x"),
    ("compact", "Then raise the drawbridge. BIG:198000"),
    ("next", "And now open the portcullis. RUN:echo_granite"),
    ("next", "Finally the roof."),
)
PHRASES = (
    RULE, "Which colour is the harbour?", "Then raise the drawbridge.", "And now open the portcullis.",
    "Finally the roof.", "marble", "granite", RULES, "Done: the tool has answered.", SUMMARY,
    "Understood, this is answer", "The moon is a cheese.",
)  # fmt: skip
"""Twelve phrases: of the user, of tools, of a file of instructions, of answers and the summary, and one of nobody."""


@dataclass
class Ran:
    """A program's calls, as they were sent and as they were recorded."""

    program: Program
    home: Path
    calls: list[Call]
    memories: dict[str, Memory]
    row: dict[str, str] = field(default_factory=dict)

    @property
    def main(self) -> Memory:
        """The session of the conversation: the one with most calls."""
        return max(self.memories.values(), key=lambda memory: len(memory.events(kinds=["model_called"])))

    @property
    def last(self) -> Call:
        """The last call of the conversation on the wire."""
        # Cline goes on only in a terminal, so its first turn is all.
        words = "Finally the roof." if self.program.next else RULE
        return next(call for call in reversed(self.calls) if words in " ".join(call.texts) and _is_main(call))


def _is_main(call: Call) -> bool:
    """Return whether a call is the conversation's own: with tools, and for neither memories nor a summary."""
    tools = call.body.get("tools") or any("tools" in each for each in call.body.get("input") or ())
    return bool(tools) and SUMMARY not in call.answer and "memory extraction" not in " ".join(call.texts)


def _shown(memories) -> str:
    parts = [part for memory in memories for each in memory.get_all() for part in each.parts]
    return _plain(
        " ".join(part.arguments if isinstance(part, ToolCallPart) else getattr(part, "text", "") for part in parts)
    )


def _plain(text: str) -> str:
    """A text without what JSON escapes, as some results of tools are objects."""
    return " ".join(json.dumps(text, ensure_ascii=False).replace("\\n", " ").replace("\\", "").replace('"', "").split())


@pytest.fixture(scope="module")
def table():
    """The rows of the last table, printed at the end."""
    rows: list[dict[str, str]] = []
    yield rows
    names = list(rows[0]) if rows else []
    lines = [names, ["---"] * len(names), *([row.get(name, "") for name in names] for row in rows)]
    print(f"\n\nRun of {datetime.date.today()}:\n")
    print("\n".join(f"| {' | '.join(line)} |" for line in lines))


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda program: program.name)
def ran(request, tmp_path_factory, table):
    program = request.param
    folder = tmp_path_factory.mktemp(program.name)
    below = installed(tmp_path_factory.getbasetemp() / "installed", program)
    with ExitStack() as stack:
        model = ScriptedModel()
        stack.callback(model.close)
        stack.enter_context(pytest.MonkeyPatch.context()).setenv(UPSTREAM, f"{model.url}/v1")
        database = Database.open(f"sqlite:///{folder / 'wire.db'}")
        stack.callback(database.close)
        attached = stack.enter_context(Attached(database))
        url = attached.url().removesuffix("/v1")
        program.settle(folder / "home", below, url)
        for kind, words in TURNS:
            if arguments := getattr(program, kind) or program.next:
                program.run(arguments, folder / "home", below, url, words)
        attached.settle()
        names = sorted(each.session_id for each in list_sessions(database))
        memories = {name: Memory.open(name, database, services=attached.services) for name in names}
        done = Ran(program, folder / "home", model.calls, memories)
        done.row |= {"program": program.name, "version": program.version, "calls": str(len(model.calls))}
        table.append(done.row)
        yield done


def test_every_text_of_the_wire_is_in_what_the_product_shows(ran):
    shown = _shown(ran.memories.values())
    texts = {text.strip() for call in ran.calls for text in [*call.texts, call.answer]}
    missing = [text for text in texts if text and _plain(text) not in shown]
    ran.row["texts of the wire"] = f"{len(texts) - len(missing)} of {len(texts)}"
    assert not missing


def test_tokens_are_those_of_the_wire(ran):
    called = [record.event for memory in ran.memories.values() for record in memory.events(kinds=["model_called"])]
    counts = sorted((each.input_tokens, each.cached_tokens, each.output_tokens) for each in called)
    ran.row["tokens"] = f"{sum(each[0] for each in counts):,} in, {sum(each[1] for each in counts):,} cached"
    assert counts == sorted(call.tokens for call in ran.calls)


def test_an_answer_stands_once(ran):
    answers = {call.answer for call in ran.calls if call.answer.startswith("Understood, this is answer")}
    for memory in ran.memories.values():  # a subagent may begin with what its parent said
        spoken = [each.content for each in memory.get_all() if each.role is MessageRole.ASSISTANT]
        assert {answer: spoken.count(answer) for answer in answers if spoken.count(answer) > 1} == {}


def test_subagents_and_other_calls_are_not_in_the_conversation(ran):
    words = [each.content or "" for each in ran.main.get_all() if each.role is MessageRole.USER]
    ran.row["sessions"] = str(len(ran.memories))
    assert not any(text.rstrip().endswith(TASK) for text in words)
    assert not any("title generator" in (each.content or "") for each in ran.main.get_all())
    purposes = {record.event.purpose for record in ran.main.events(kinds=["model_called"])}
    assert purposes <= {"reply", "summarise"}


def test_the_last_prompt_is_the_one_on_the_wire(ran):
    contexts = [each for each in ran.main.log.history().records if is_context(each.event)]
    prompt = _plain(" ".join(each.content or "" for each in ran.main.log.prompt(contexts[-1]).messages))
    assert [text for text in ran.last.texts if _plain(text.strip()) not in prompt] == []


def test_what_a_compaction_left_out_has_left_the_queue(ran):
    gone = RULE not in " ".join(ran.last.texts)
    flushed = [record.event.trigger for record in ran.main.events(kinds=["flush_planned"])]
    active = [each.content or "" for each in ran.main.get_all(status="active")]
    ran.row["compaction"] = f"{len(ran.main.get_all(status='archived'))} messages left" if flushed else "none left out"
    assert any(RULE in text for text in active) != gone
    assert set(flushed) <= {"compacted"}


def test_the_verdicts_of_why_are_those_of_the_wire(ran):
    paths = sorted(ran.home.glob(ran.program.sessions), key=lambda path: path.stat().st_size)
    try:
        listing = Listing([home_of_file(paths[-1])])
        listing.look(30)
        verdicts = {phrase: follow_in(listing.find(), phrase).values()["in_last_prompt"] for phrase in PHRASES}
    except MemoryInspectorError as error:
        ran.row["`why`"] = "not read"
        pytest.skip(f"{ran.program.name}: {error}")
    sent = _plain(" ".join(ran.last.texts))
    wrong = [phrase for phrase, said in verdicts.items() if said != (_plain(phrase) in sent)]
    ran.row["`why`"] = f"{len(PHRASES) - len(wrong)} of {len(PHRASES)} verdicts"
    assert set(wrong) <= set(ran.program.unwritten)
