"""Every sentence with numbers adds up: its parts to the whole it names, and one page's number to another's.

Sentences are read as a person reads them: their numbers are parsed from the words, and nothing is taken from the values
that they were made of but the whole that the page shows elsewhere.
"""

import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from coding_kit import MODEL, START, ClaudeCode
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from said_numbers import CHANGED, NUMBER, all_of, as_said, found, growth, whole
from session_script import STEPS, Script

from memory_core import Memory, StaticMemoryBlock
from memory_core.errors import MemoryInspectorError, NotFoundError
from memory_core.events import ContextBuilt, FlushPlanned, Ref
from memory_core.history.prompt import diff_prompts
from memory_core.messages import ChatMessage
from memory_core.planning import curation
from memory_core.planning.curation import ChangeSet, FactDraft
from memory_inspector.coding.coding_session import CodingSession
from memory_inspector.coding.listing import Listing, homes
from memory_inspector.figures import budget_lanes
from memory_inspector.files.facts_file import plan_import, read_facts_file
from memory_inspector.lab.linting import findings
from memory_inspector.lab.variants import VariantChange, variant_of
from memory_inspector.reading.fact_rows import FactFilter, ShownFact, in_view, nothing_found, opening, view_labels
from memory_inspector.wording import prompt_text, story
from memory_inspector.wording.block_text import GrantedInPrompt, Standing, card
from memory_inspector.wording.event_sentences.event_words import words_in_log
from ui.parts import effect
from ui.parts.facts_limit import limit_line

# -- random lives -----------------------------------------------------------------------------------


@dataclass
class Life:
    """What a session is made of, and what happens in it."""

    steps: list
    limit: int
    accounting: str
    order: str
    system: bool
    reserved: int
    share: float | None
    max_facts: int
    priorities: tuple
    written: list

    def lived(self):
        """Return the memory at the end of it."""
        settings = {"accounting": self.accounting, "truncation_order": self.order, "reserved_tokens": self.reserved}
        script = Script(**settings)
        memory = script.memory
        if self.system:
            memory.put(ChatMessage(role="system", content="Answer in one sentence only."))
        memory.blocks.configure("facts", prompt_share=self.share, max_facts=self.max_facts)
        for name, priority in zip(
            ("facts", "turns", "graph", "summary", "counter", "core"), self.priorities, strict=True
        ):
            memory.blocks.configure(name, priority=priority)
        new = [FactDraft(f"Boat {n} lies at pier {n * n}", **how) for n, how in enumerate(self.written)]
        memory.facts.desk("facts").apply(ChangeSet("import", tuple(new)))
        for step in self.steps:
            script.do(step)
        memory.configure(token_limit=self.limit)
        memory.build_context("note 3")
        return memory


lives = st.builds(
    Life,
    steps=STEPS,
    limit=st.integers(14, 45),
    accounting=st.sampled_from(["content", "billed", "reference"]),
    order=st.sampled_from(["largest_first", "smallest_first"]),
    system=st.booleans(),
    reserved=st.sampled_from([0, 0, 3]),
    share=st.sampled_from([None, 0.2, 0.5]),
    max_facts=st.integers(1, 4),
    priorities=st.tuples(*(st.integers(0, 3) for _ in range(6))),
    written=st.lists(
        st.sampled_from([{}, {}, {"state": "retired"}, {"state": "proposed"}, {"pinned": True}, {"state": "rejected"}])
        | st.integers(0, 99).map(lambda n: {"key": f"k{n}"}),
        min_size=1,
        max_size=9,
        unique_by=lambda how: how.get("key") or object(),
    ),
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "token_limit": st.integers(20, 120),
        "accounting": st.sampled_from(["content", "billed"]),
        "chat_history_token_ratio": st.sampled_from([0.2, 0.5, 0.9]),
        "truncation_order": st.sampled_from(["largest_first", "smallest_first"]),
        "reserved_tokens": st.sampled_from([0, 5]),
    },
)


def check_effect(before, after):
    """Check the sentences on a change: those of a settings drawer, of a fix, and of a single fact."""
    old, new = before.context.plan, after.context.plan
    # 1. The settings drawer.
    line = effect.size_line(before, after)
    total, limit = found("Next prompt: # of # token", line)
    so_far, its_limit = found(r"\(so far # of #\)", line) or (total, limit)
    assert (total, limit, so_far, its_limit) == (new.total, new.token_limit, old.total, old.token_limit)
    assert (growth(line) or 0) == total - so_far, line
    # What is left out stands there, or its part stands with both sizes: nothing is lost without a word.
    left_out = line.partition("Left out: ")[2]
    smaller = {part.strip() for part, was, now in CHANGED.findall(as_said(line)) if whole(was) > whole(now)}
    unsaid = sum(cut.tokens for cut in new.cuts if {"queue": "Queue"}.get(cut.part, cut.part) in smaller)
    assert sum(all_of(r" #[,.]", left_out)) + unsaid == new.asked - new.total, line
    assert ("Nothing is left out" in line) == (new.asked == new.total), line
    # 2. A fix, or a change of a block.
    sentence = effect.effect_sentence(before.context, after.context)
    sizes = found("Next prompt: # → # tokens", sentence) or 2 * found("Next prompt: # tokens", sentence)
    assert sizes == [old.total, new.total]
    assert (growth(sentence.partition(" tokens,")[2]) or 0) == new.total - old.total, sentence
    if free := found(r"(?:→ |, )# free", sentence):
        assert free[0] + new.total == new.token_limit
    # 3. A fact: a single part that changes needs no word of its own.
    sentence = effect.foreseen(before, after)
    signed = re.search(rf"Next prompt ([+−]){NUMBER} tokens?", sentence)
    change = whole(signed[2]) * (1 if signed[1] == "+" else -1) if signed else 0
    assert change == new.total - old.total, sentence
    assert growth(sentence) in (None, change), sentence
    if growth(sentence) is None and "more" not in sentence.replace("nothing more", ""):
        assert len([part for part in sizes_of(new) if sizes_of(new)[part] != sizes_of(old).get(part)]) <= 1


def sizes_of(plan):
    blocks = {part.name: part.granted for part in plan.granted}
    return {**blocks, "queue": plan.queue_granted, "rest": plan.total - plan.queue_granted - sum(blocks.values())}


def check_context(prompt):
    """Check the Context page: its first sentence, the cuts, the table, the bill, and the parts below."""
    built, line = prompt.built, prompt_text.headline(prompt)
    total, limit = found("# of # tokens sent", line)
    rows = prompt_text.number_rows(prompt)
    for column in ("Requested", "Sent", "Cut"):
        assert sum(row[column] for row in rows[:-1]) == rows[-1][column], (column, rows)
    assert (rows[-1]["Sent"], limit) == (total, built.token_limit)
    if asked := found("Parts asked for #, # over the limit", line):
        assert asked[0] - limit == asked[1]
        assert sum(all_of("(?:and|so|,) (?:were |was )?# (?:was cut |were cut )?from", line)) == asked[0] - total, line
    elif free := found("# tokens? (?:was|were) free", line):
        assert free[0] + total == limit
    bill = prompt_text.bill_rows(prompt)
    for column in ("Counted", "Billed"):
        assert sum(row[column] or 0 for row in bill[:-2]) == bill[-2][column], bill
    beside = prompt_text.billed_beside(prompt)
    assert (found("^# billed", beside)[0] if beside else total) == bill[-2]["Billed"]
    assert sum(whole(prompt_text.amount(part).partition(" of ")[0]) for part in prompt.parts) + prompt.around == total
    removed = [found("# too many; # removed", prompt_text.cut_lines(cut)[2])[1] for cut in prompt.cuts]
    assert sum(removed) == rows[-1]["Cut"]


def check_chat(memory, record):
    """Check the budget card and the story of a prompt's turn, and its line below the reply."""
    built, history = record.event, memory.log.history()
    lanes = budget_lanes.lanes_of(memory.session.status(), built, history.kinds(record.position))
    sentence = budget_lanes.describe(lanes)
    total, limit = found("^Sent # of # tokens", sentence)
    parts = sentence.partition(" tokens: ")[2].partition(";")[0].split(", ")
    amounts = [re.search(rf" {NUMBER}(?: of {NUMBER})?$", part).groups() for part in parts]
    assert sum(whole(granted) for granted, _ in amounts) == total == built.total, sentence
    assert sum(whole(asked or granted) for granted, asked in amounts) == built.asked, sentence
    free, over = found("; # free", sentence), found("; # over the limit", sentence)
    assert total == limit - free[0] if free else total == limit + over[0]
    cut = found("# cut[.,]", sentence)
    assert (cut[0] if cut else 0) == built.asked - total
    # The story of the turn has the cuts of its last prompt, and the flushes and the facts of the whole turn.
    events = [r for r in memory.events(turn=record.turn, kinds=story.STORY_KINDS) if r.position <= record.position]
    lines = dict.fromkeys(("cut", "learned"), "")
    for passage in story.passages(events, words_in_log(memory, events)):
        lines[passage.stage] = " ".join([lines.get(passage.stage, ""), *(line.text for line in passage.lines)])
    gone = all_of(r"(?<!was )\b# tokens?\b(?! over)", lines["cut"].partition("Above")[0])
    assert sum(gone[: len(built.cuts)]) == built.asked - total, lines["cut"]
    short = story.summaries(events)[record.turn].in_short(record.turn)
    size, its_limit = found(r"· # of # tokens?", short)
    assert (size, its_limit, (found("cut # token", short) or [0])[0]) == (total, limit, built.asked - total)
    flushed = [r.event for r in events if isinstance(r.event, FlushPlanned)]
    assert (found("flushed # message", short) or [0])[0] == sum(flush.messages for flush in flushed)
    learned = all_of("Learned # (?:fact|relation)", lines["learned"])
    assert sum(all_of("(?:learned|and) # (?:fact|relation)", short)) == sum(learned), (short, lines["learned"])


def check_facts(memory):
    """Check the Facts page: its first line, its views, the line on the limit, and the way to what a search misses."""
    desk = memory.facts.desk("facts")
    facts = desk.facts()
    waits = {fact.id for fact in desk.review().facts}
    rows = [ShownFact(fact, waits=fact.id in waits) for fact in facts]
    labels = {view: found(" #$", label)[0] for view, label in view_labels(rows, 0).items()}
    active = [fact for fact in facts if fact.state == "active"]
    line = opening(rows)
    assert (found("^# active fact", line) or [0])[0] == len(active) == labels["active"], line
    assert (found(", # token", line) or [0])[0] == sum(fact.tokens for fact in active), line
    assert (found("# to review", line) or [0])[0] == labels["review"]
    assert labels["active"] + labels["retired"] + sum(fact.state == "proposed" for fact in facts) == len(facts)
    if limit := limit_line("facts", desk.limit_effect()):
        assert sum(all_of(": # facts", limit) + all_of("and # of a program", limit)) == len(active), limit
        assert not (people := found("# of them were", limit)) or people[0] < len(active)
        if surplus := found("merges or drops # of the # that", limit):
            assert surplus[0] <= surplus[1] <= len(active)
    away = nothing_found(rows, FactFilter(words="no such words"), "active", now=0)
    assert not all_of("# under", away)
    elsewhere = found(" # under Retired", nothing_found(rows, FactFilter(), "active", now=0))
    assert (elsewhere or [0])[0] == len(in_view(rows, "retired"))


def check_changes(memory, built):
    """Check the changes from one prompt to the next, as on Context and in the Lab."""
    for before, after in pairwise(map(memory.log.prompt, built)):
        changes = diff_prompts(before, after)
        assert sum(one.after - one.before for one in changes) == after.built.total - before.built.total


def check_blocks(memory, built):
    """Check the cards of the Blocks page, and that a turn with a cut is the queue's or a block's."""
    last, usage = built[-1].event, memory.log.usage()
    parts = {part["name"]: part for part in last.parts}
    sizes, cut_in = 0, 0
    for attached in memory.blocks:
        part = parts.get(attached.name)
        shown = Standing(attached.name, attached.kind, attached.record.type, memory.blocks.settings(attached.name))
        in_prompt = part and GrantedInPrompt(part["asked"], part["granted"], last.token_limit)
        drawn = card(shown, in_prompt, usage.of(attached.name), memory.blocks.holding(attached.name))
        sizes += (found("^#", drawn.size) or [0])[0]
        times = found("cut in # of # prompts?", drawn.lines) or [0, 1]
        assert times[0] <= times[1]
        cut_in += times[0]
    around = last.total - sum(part["granted"] for part in last.parts)
    assert sizes + around == last.total, sizes
    # A card counts from the last full reset, and a block that was removed has none.
    reset = max((r.position for r in memory.log.history().records if r.event.empties_session), default=0)
    counted = [record.event for record in built if record.position > reset]
    if len(usage.blocks) == len({part["name"] for record in built for part in record.event.parts}):
        assert cut_in == sum(len({cut["part"] for cut in event.cuts} - {"queue"}) for event in counted)


def check_traces(memory):
    """Check that nothing is said of turn 0, which is before the first turn."""
    for target in ["f1", *(f"m{message.seq}" for message in memory.session.messages()[:3])]:
        with suppress(NotFoundError):  # it was erased
            trace = memory.trace(Ref(target))
            stages = (stage.text for track in trace.tracks for stage in track.stages)
            assert not re.search(r"turn 0\b", " ".join([trace.origin, trace.sentence, *stages]))


def check_life(life, changes):
    memory = life.lived()
    shown = {"when_over": "return"}
    before = memory.preview.next_prompt(shown)
    try:
        check_effect(before, memory.preview.next_prompt({**changes, **shown}))
    except MemoryInspectorError:  # a flush size above the limit
        assert "token_limit" in changes
    desk = memory.facts.desk("facts") if any(block.name == "facts" for block in memory.blocks) else None
    if desk is not None:
        for change in (curation.add("I moor at the old pier"), *(curation.retire([f], "no") for f in _one(desk))):
            check_effect(before, memory.preview.next_prompt(shown, facts={"facts": desk.after(change)}))
        check_facts(memory)
    built = [r for r in memory.log.history().records if isinstance(r.event, ContextBuilt)]
    check_context(memory.log.prompt(built[-1]))
    check_chat(memory, built[-1])
    check_changes(memory, built[-4:])
    check_blocks(memory, built)
    check_traces(memory)


def _one(desk):
    return desk.facts(("active",))[:1]


WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""A life is short, and making it shorter takes minutes."""


FULL = Life(
    steps=["note", "reply", "add facts", "note", "relate", "note", "add facts", "note", "context", "note", "note"],
    limit=60,
    accounting="billed",
    order="largest_first",
    system=True,
    reserved=3,
    share=0.2,
    max_facts=2,
    priorities=(1, 2, 2, 3, 3, 4),
    written=[{}, {"pinned": True}, {"key": "k"}, {"state": "retired"}, {"state": "proposed"}, {}],
)
"""A life in which much is cut, and by several rules."""


@settings(max_examples=25, phases=WITHOUT_SHRINKING)
@given(lives, CHANGES)
@example(FULL, {"token_limit": 40})
@example(FULL, {"accounting": "content"})
@example(replace(FULL, limit=20), {})
@example(replace(FULL, accounting="content"), {"token_limit": 34, "reserved_tokens": 0})
def test_the_numbers_of_a_session_add_up(life, changes):
    check_life(life, changes)


@pytest.mark.slow
@settings(max_examples=5 * settings.default.max_examples, phases=WITHOUT_SHRINKING)
@given(lives, CHANGES)
def test_the_numbers_of_five_hundred_sessions_add_up(life, changes):
    check_life(life, changes)


# -- files, bounds, and other programs' sessions ------------------------------------------------------

FACTS = st.lists(st.sampled_from(["Ana likes jazz", "ana  likes jazz", "Rui rows", "Old pier", ""]), min_size=1)


@given(FACTS)
def test_the_lines_of_a_file_of_facts_add_up(texts):
    desk = Script().memory.facts.desk("facts")
    desk.apply(ChangeSet("import", (FactDraft("Old pier"),)))
    plan = plan_import(read_facts_file(json.dumps(texts), filename="f.json"), desk.facts())
    line = plan.sentence
    importable, total = found("# of # can be imported", line) or 2 * found("# facts? can be imported", line)
    away = [found(words, line) or [0] for words in ("# (?:is|are) there already", "# repeats? ", "# more lines? ha")]
    first = int(line.startswith("f.json"))
    assert importable + first + sum(number for (number,) in away) == total == len(texts), line


BOUNDS = st.fixed_dictionaries(
    {
        "Facts.max_facts": st.integers(1, 200),
        "Facts.prompt_share": st.sampled_from([None, 0.1, 0.3, 0.6]),
        "token_limit": st.integers(700, 9_000),
        "chat_history_token_ratio": st.just(0.8),
    }
)


@given(BOUNDS)
def test_a_bound_says_what_caps_it(tried):
    check_bound(tried)


def check_bound(tried):
    """Check the numbers of the warning that facts may fill the prompt; return it."""
    base = variant_of(Memory.from_recipe("blocks"))
    report = findings(base.with_changes("tried", [VariantChange(name, None, value) for name, value in tried.items()]))
    line = next((finding.sentence for finding in report if finding.rule == "facts_fill"), "")
    if line:
        (takes,), (room,), (most, each) = (
            found("may take # tokens", line),
            found("leaves #", line),
            found("# × #", line),
        )
        assert found("would be #", line) == ([most * each] if takes < most * each else None), line
        assert room < takes <= most * each, line
    return line


def test_a_share_that_caps_a_bound_is_named():
    tried = {"token_limit": 900, "chat_history_token_ratio": 0.8}
    assert "270 tokens (its share of the prompt; 50 × 12 would be 600)" in check_bound(tried)
    assert "(50 × 12)" in check_bound({**tried, "Facts.prompt_share": None})


@given(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans(), st.randoms())
def test_the_list_of_coding_sessions_and_the_opened_one_agree(answers, subagents, spent, forked, chance):
    """A fork's copies count with its origin, which the opened fork says."""
    one, two = ({"sessionId": name} for name in ("one", "two"))
    with TemporaryDirectory() as folder:
        path = Path(folder, "-boats", "one.jsonl")
        session = ClaudeCode().user("Build it.", **one)
        for number in range(answers):
            session.answer(prompt=chance.randint(10, 9_000), output=chance.randint(1, 900), id=f"m{number}", **one)
        for number in range(subagents):
            agent = ClaudeCode(START + timedelta(minutes=number), side=True).user("Look.", **one)
            agent.answer(prompt=chance.randint(10, 900), id=f"a{number}", **one).subagent(path, f"a{number}")
        if spent:
            session.spent(0.5, **{MODEL: (12_000, 30)})
        session.write(path)
        if forked:
            fork = ClaudeCode(START + timedelta(hours=1)).queue("Paint it.")
            fork.lines += [{**line, **two} for line in session.lines]
            fork.user("Paint it.", **two).answer(prompt=77, id="own", **two).write(path.with_name("two.jsonl"))
        for overview in Listing(homes(Path(folder), Path(folder, "none"))).look(60):
            opened = CodingSession(overview.path, overview.reader)
            opened.follow()
            usage, cost = opened.usage_and_cost()
            assert overview.tokens + overview.copied == sum(used.tokens for used in usage.values())
            assert overview.copied or overview.cost == (cost and pytest.approx(cost))


def test_a_block_that_is_named_as_what_is_no_block_has_a_line_of_its_own():
    memory = Memory.from_defaults(
        "s",
        token_limit=70,
        tokenizer_fn=str.split,
        memory_blocks=[
            StaticMemoryBlock(name=name, static_content="Be brief. " * 5, priority=place)
            for place, name in enumerate(("Queue", "Markup", "System messages"))
        ],
    )
    for role, said in (("user", "one two three " * 4), ("assistant", "four five six " * 2), ("user", "go on now " * 2)):
        memory.put(ChatMessage(role=role, content=said))
    before, after = memory.preview.next_prompt(), memory.preview.next_prompt({"token_limit": 30})
    check_effect(before, after)
    line = effect.effect_sentence(before.context, after.context)
    # The block Queue is as it was: what changes under this name is the queue, by what it loses.
    sizes = {part.strip(): (whole(was), whole(now)) for part, was, now in CHANGED.findall(as_said(line))}
    assert sizes["Queue"] == (before.context.plan.queue_granted, after.context.plan.queue_granted), line
    assert sizes["System messages"][1] == 0, line
