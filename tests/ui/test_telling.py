"""Every event becomes a sentence, in numbers that the event holds."""

import dataclasses
import typing
from dataclasses import replace

import pytest

from memory_core import events
from memory_core.events import (
    KINDS,
    BlockAdded,
    BlockEdited,
    BlockFailed,
    BlockRemoved,
    BlocksOrdered,
    BlockStateSaved,
    ConfigurationChanged,
    ContextBuilt,
    DeliveryDone,
    DeliveryFailed,
    DeliveryParked,
    DeliveryQueued,
    DeliveryRetried,
    DeliverySkipped,
    EntityAdded,
    EntityChanged,
    EntityErased,
    Event,
    FactAccepted,
    FactAdded,
    FactChanged,
    FactConfirmed,
    FactDecided,
    FactErased,
    FactHeldBack,
    FactLabelled,
    FactPinned,
    FactProposed,
    FactRejected,
    FactRestored,
    FactRetired,
    FactsCurated,
    FactsExtracted,
    FactsRead,
    FactSuperseded,
    GraphCurated,
    MemoryDeleted,
    MemorySearched,
    MemoryStoreChanged,
    MemoryWritten,
    MessageAdded,
    ModelCalled,
    NothingLearned,
    ProposalRefused,
    QueueReplaced,
    RecipeChosen,
    RelationAdded,
    RelationChanged,
    RelationConfirmed,
    RelationEnded,
    RelationErased,
    RelationsExtracted,
    ReplyEnded,
    ReplyStarted,
    Retrieved,
    SessionBranched,
    SessionClosed,
    SessionCreated,
    SessionImported,
    SessionRenamed,
    SessionReset,
    SummaryRewritten,
    UnknownEvent,
    VectorsRemoved,
    VectorsReplaced,
    VectorsStored,
)
from memory_core.planning import curation
from memory_core.planning.graph_rules import Action
from memory_core.recipes import RECIPES
from memory_inspector.wording.event_sentences import GRAPH_CURATED, Line, Words, describe, seconds
from memory_inspector.wording.settings import value_words

NUTS, PORTO, LISBON = "Ana is allergic to nuts", "Sam lives in Porto", "Sam lives in Lisbon"
WORDS = Words(
    facts={1: NUTS, 2: PORTO, 3: LISBON},
    turns={7: 2},
    previews={7: "Careful with dessert"},
    texts={
        "m": "Careful with dessert, Ana is allergic to nuts",
        "old": PORTO,
        "new": LISBON,
        "tool": "",
        "k": "users/ada/",
        "question": "Where do I live?",
    },
    relations={1: "Ana → lives in → Lisbon", 2: "Ana → lives in → Porto"},
    entities={1: "Ana", 2: "Lisbon", 3: "Porto"},
)
NEWER = describe(UnknownEvent("dreamed", {}), WORDS)


def blank(cls):
    """An event of a kind with a value of the right type in every field."""
    hints = typing.get_type_hints(cls, vars(events))
    return cls(**{given.name: value_of(hints[given.name]) for given in dataclasses.fields(cls)})


def value_of(hint):
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return typing.get_args(hint)[0]
    if origin is tuple:
        return ()
    if origin is dict:
        return {}
    if hint in (int, float, bool, str):
        return "x" if hint is str else hint()
    if type(None) in typing.get_args(hint):
        return None
    raise AssertionError(f"no example of {hint}")


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"unknown_event"}))
def test_every_kind_of_event_has_a_sentence_of_its_own(kind):
    line = describe(blank(KINDS[kind]), WORDS)
    assert describe.dispatch(KINDS[kind]) is not describe.dispatch(Event), (
        f"write a sentence for {kind} in memory_inspector/wording/event_sentences"
    )
    assert line.text
    assert line != NEWER
    assert "None" not in line.text
    assert not line.text.endswith(".")


def test_everything_a_curator_can_do_has_words():
    lines = [
        describe(replace(blank(FactsCurated), action=action, undoes=None), WORDS).text
        for action in typing.get_args(curation.Action)
    ]
    assert [line for line in lines if not line[0].isupper()] == []


def test_everything_a_person_can_do_to_a_graph_has_words():
    assert set(GRAPH_CURATED) == set(typing.get_args(Action)) - {"undo"}


def test_a_kind_without_a_sentence_is_told_as_unknown():
    assert describe(UnknownEvent("dreamed", {"a": 1}), WORDS) == Line(
        "help", "An event of a newer version, shown without details"
    )


BUILT = ContextBuilt(
    pinned=(), queue=((1, 5),), queue_asked=561, queue_tokens=561, pinned_tokens=0,
    parts=(
        {"name": "Facts", "priority": 1, "asked": 126, "granted": 126, "refs": ["f1"]},
        {"name": "Earlier turns", "priority": 2, "asked": 335, "granted": 279, "refs": ["v7"]},
    ),
    cuts=(), asked=1234, total=1106, token_limit=1200, over_by=0, over_because=None, markup_tokens=0,
    overhead_tokens=0, billed=840, insert_method="system", truncation_order="largest_first",
    accounting="content", section=None, input=None,
)  # fmt: skip


def cut(part, tokens, refs=()):
    return {"part": part, "rule": "trimmed", "refs": list(refs), "tokens": tokens, "over_before": 34}


TURNS, FACTS, QUEUE = cut("Earlier turns", 56, ["v7"]), cut("Facts", 14, ["f1"]), cut("queue", 120, ["m3", "m5"])


def built(**changes):
    return dataclasses.replace(BUILT, **changes)


def retrieved(*candidates, threshold=0.31, degraded=None):
    return Retrieved("Earlier turns", "q", "minilm", "exact", 5, threshold, candidates, {}, degraded)


def added(**changes):
    return FactAdded(fact=1, block="Facts", content="c", tokens=7, category="person", sources=((1, 1),), **changes)


def decided(decision, fact, *, candidates=((2, 0.82), (1, 0.41)), decider="offline rules", rule="same_slot"):
    return FactDecided("Facts", "new", decision, fact, candidates, decider, rule, ((3, 3),))


def rewritten(**changes):
    given = {"covers": 20, "turn_covered": 10, "seqs": ((15, 20),), "tokens_before": 212, "tokens": 248, "lost": 0}
    return SummaryRewritten(block="Summary", revision=3, summariser="rules", max_tokens=300, **{**given, **changes})


SENTENCES = [
    (SessionCreated("Dinner", "sam"), "Started the session “Dinner”"),
    (SessionCreated("", None), "Started the session"),
    (SessionRenamed("Dinner", "Lunch"), "Renamed the session from “Dinner” to “Lunch”"),
    (SessionClosed(), "Closed the session: everything left the queue"),
    (SessionReset(None, 22, 6, 1), "Forgot everything: 22 messages, 6 facts, 1 stored turn"),
    (SessionReset("active", 2, 0, 0), "Forgot the queue: 2 messages, 0 facts, 0 stored turns"),
    (SessionImported("chat.jsonl", 1_400, 3), "Imported 1,400 messages from chat.jsonl, 3 skipped"),
    (SessionBranched("s1", 8), "Branched from another session at the end of turn 8"),
    (
        SessionBranched("s1", 8, missing=3),
        "Branched from another session at the end of turn 8, 3 items erased since then",
    ),
    (
        ConfigurationChanged({"token_limit": 1200}, {"token_limit": 1240}, "app"),
        "Changed the token limit from 1,200 to 1,240",
    ),
    (
        ConfigurationChanged({}, {"chat_history_token_ratio": 0.6, "token_flush_size": 120}, "constructor"),
        "Set the history share to 60 % and the flush size to 120",
    ),
    (
        ConfigurationChanged({}, {}, "app", {"token_limit": 900}),
        "Kept the stored settings and ignored those passed by the program: the token limit to 900",
    ),
    (
        MessageAdded(3, "id", "user", 44, 44, "o200k", "m"),
        "The user said “Careful with dessert, Ana is allergic t…”, 44 tokens",
    ),
    (
        MessageAdded(3, "id", "assistant", 1, 1, "o200k", "gone"),
        "The assistant said something that has been erased since, 1 token",
    ),
    (MessageAdded(3, "id", "assistant", 9, 9, "o200k", "tool"), "The assistant said something without text, 9 tokens"),
    (
        MessageAdded(1, "id", "system", 9, 9, "o200k", "old", pinned=True),
        "The system message is “Sam lives in Porto”, 9 tokens, pinned: it never leaves the queue",
    ),
    (QueueReplaced(((1, 3),), 90), "Replaced the queue: 3 messages, 90 tokens, were removed"),
    (
        DeliveryQueued(1, "Facts", "flush", ((7, 10),), 171),
        "Handed 4 messages, 171 tokens, to Facts: they left the queue",
    ),
    (DeliveryDone((1,), "Facts", 1, 0.042), "Facts updated in 0.04 s (1 delivery)"),
    (DeliveryDone((1, 2), "Facts", 3, 21.4), "Facts updated at try 3 in 21 s (2 deliveries)"),
    (
        DeliveryFailed((1,), "Facts", 1, "The model returned no list.", 8.0),
        "Facts could not be updated, and will be tried again: The model returned no list",
    ),
    (DeliveryFailed((1,), "Facts", 5, "No list.", 0.0), "Facts could not be updated: No list"),
    (DeliveryParked((1,), "Facts", 5, "No list."), "Facts could not be updated, given up after 5 tries: No list"),
    (DeliveryRetried((1, 2), "Facts"), "Asked Facts to try 2 deliveries again"),
    (DeliverySkipped((1,), "Facts"), "Gave up 1 delivery to Facts: the messages stay in the archive"),
    (
        FactsExtracted("Facts", "rules", ((1, 4),), 5, 3, 2, held_back=1),
        "Facts read 4 messages and found 5 facts, 3 new, 2 known, 1 held back as rejected before",
    ),
    (
        FactsExtracted("Facts", "rules", ((1, 1),), 2, 1, 0, recalled=1),
        "Facts read 1 message and found 2 facts, 1 new, 0 known, 1 only repeated from memory",
    ),
    (
        decided("add", None, decider="gpt-4o-mini", rule="model"),
        f"Took “{LISBON}” as new, by gpt-4o-mini; compared with 2 facts, nearest 0.82",
    ),
    (
        decided("update", 2),
        f"Took “{LISBON}” as an update of “{PORTO}”, by rules: another value of the same attribute; "
        "compared with 2 facts, nearest 0.82",
    ),
    (
        decided("delete", 2, decider="gpt-4o-mini", rule="model"),
        f"Took “{LISBON}” as the end of “{PORTO}”, by gpt-4o-mini; compared with 2 facts, nearest 0.82",
    ),
    (
        decided("none", 2, candidates=((2, 0.97),)),
        f"Found nothing new in “{LISBON}” beside “{PORTO}”, by rules: another value of the same attribute; "
        "compared with 1 fact, nearest 0.97",
    ),
    (
        decided("add", None, candidates=(), rule="new"),
        f"Took “{LISBON}” as new, by rules: no known fact relates to it; no fact to compare with",
    ),
    (
        decided("update", 3),
        f"Took “{LISBON}” as an update of a known fact, by rules: another value of the same attribute; "
        "compared with 2 facts, nearest 0.82",
    ),
    (
        decided("none", None, rule="repeated"),
        f"Found nothing new in “{LISBON}” beside another found fact, by rules: it was found twice at once; "
        "compared with 2 facts, nearest 0.82",
    ),
    (FactLabelled(1, "Facts", "health", ("food", "Ana")), f"Put “{NUTS}” under health, topics food and Ana"),
    (FactLabelled(1, "Facts", "health", ()), f"Put “{NUTS}” under health"),
    (
        RelationsExtracted("Relations", "rules", ((1, 3),), 5, 3, 1, 1, 2),
        "Relations read 3 messages and found 5 relations, 3 new, 1 known, 1 ended, 2 left out",
    ),
    (EntityAdded(1, "Relations", "h", "person"), "Learned of “Ana” (person) in Relations"),
    (EntityAdded(9, "Relations", "h", "person", (), "written"), "Added “an erased name” (person) in Relations"),
    (EntityChanged(3, "Relations", {}, {"state": "merged", "merged_into": 2}), "Merged “Porto” into “Lisbon”"),
    (EntityChanged(3, "Relations", {}, {"state": "retired"}), "Removed “Porto” from Relations"),
    (EntityChanged(3, "Relations", {}, {"state": "active"}), "Restored “Porto” in Relations"),
    (EntityChanged(3, "Relations", {"name": "old"}, {"name": "new"}), f"Renamed “{PORTO}” to “{LISBON}”"),
    (
        EntityChanged(3, "Relations", {"type": "other"}, {"type": "place"}),
        "Changed what “Porto” is: other, now place",
    ),
    (EntityChanged(3, "Relations", {}, {"aliases": ("new",)}), "“Porto” is also called “Sam lives in Lisbon”"),
    (EntityErased(3, "Relations"), "Deleted an entity of Relations for good"),
    (RelationAdded(1, "Relations", 1, "p", 2, ((3, 3),)), "Learned “Ana → lives in → Lisbon”"),
    (RelationAdded(9, "Relations", 1, "p", 2, (), "written"), "Added “an erased relation”"),
    (RelationConfirmed(1, "Relations", ((4, 4),)), "Already known: “Ana → lives in → Lisbon”"),
    (
        RelationEnded(1, "Relations", 2),
        "Ended “Ana → lives in → Lisbon”: “Ana → lives in → Porto” took its place",
    ),
    (RelationEnded(1, "Relations", None), "Ended “Ana → lives in → Lisbon”"),
    (RelationChanged(2, "Relations", {}, {"state": "retired"}), "Removed “Ana → lives in → Porto” from Relations"),
    (RelationChanged(2, "Relations", {}, {"state": "active"}), "“Ana → lives in → Porto” holds again"),
    (
        RelationChanged(2, "Relations", {"object": 2, "predicate": "old"}, {"object": 3, "predicate": "new"}),
        f"Changed “Ana → lives in → Porto”: before, it was called “{PORTO}” and it ended at “Lisbon”",
    ),
    (RelationErased(2, "Relations"), "Deleted a relation of Relations for good"),
    (
        GraphCurated("Relations", "merge", ((1, 1, 2), (2, 1, 2)), ((1, 1, 2),)),
        "Merged: 2 entities and 1 relation of Relations",
    ),
    (GraphCurated("Relations", "undo", (), ((1, 2, 3),), 1), "Undid a change of 1 relation of Relations"),
    (GraphCurated("Relations", "undo", (), ((1, 3, 4),), 1, 3, True), "Redid a change of 1 relation of Relations"),
    (rewritten(), "Took 6 messages into Summary: 212 → 248 tokens"),
    (
        rewritten(lost=2, shortened=13),
        "Took 6 messages into Summary: 212 → 248 tokens; 2 names, numbers or dates lost; "
        "13 tokens left out to stay within 300",
    ),
    (rewritten(seqs=(), lost=1), "Rewrote Summary: 212 → 248 tokens; 1 name, number or date lost"),
    (
        rewritten(covers=0, turn_covered=0, seqs=(), tokens=0),
        "Emptied Summary: messages that it was written from were forgotten",
    ),
    (
        ProposalRefused("Facts", "fact", "the same fact again", 38),
        "Left out 38 facts proposed for Facts: the same fact again",
    ),
    (
        RecipeChosen("summary", "window", ("Instructions",), ("Summary",), ("Facts", "Earlier turns")),
        f"Switched to {RECIPES['summary'].title} from {RECIPES['window'].title}: "
        "kept Instructions, added Summary, removed Facts and Earlier turns",
    ),
    (RecipeChosen("window", None, (), (), ()), f"Switched to {RECIPES['window'].title}"),
    (added(), f"Learned “{NUTS}”"),
    (added(origin="written"), f"Added “{NUTS}”"),
    (added(origin="condensed"), f"Condensed facts to “{NUTS}”"),
    (added(conflicts_with=(2,)), f"Learned “{NUTS}”. It contradicts “{PORTO}”"),
    (FactConfirmed(1, "Facts", 0.94, ((3, 3),)), f"Already known: “{NUTS}” (0.94 alike)"),
    (FactChanged(2, "Facts", "old", "new", 7), f"Changed “{PORTO}” to “{LISBON}”"),
    (FactChanged(2, "Facts", "gone", "new", 7), f"Changed “an erased fact” to “{LISBON}”"),
    (FactsRead("Facts", "k", None, (1, 2), 2), "Facts was asked under users/ada/: 2 facts"),
    (FactsRead("Facts", None, "question", (2,), 1), "Facts was asked for “Where do I live?”: 1 fact"),
    (FactsRead("Facts", None, None, (), 0), "Facts was asked for everything, and found nothing"),
    (FactSuperseded(2, "Facts", 3), f"Replaced “{PORTO}” by “{LISBON}”"),
    (FactSuperseded(2, "Facts", None), f"Superseded “{PORTO}” without a replacement"),
    (FactRetired(2, "Facts", "outdated"), f"Retired “{PORTO}”: outdated"),
    (FactRetired(2, "Facts", ""), f"Retired “{PORTO}”"),
    (FactRestored(2, "Facts"), f"Restored “{PORTO}”"),
    (FactPinned(1, "Facts", True), f"Pinned “{NUTS}”"),
    (FactPinned(1, "Facts", False), f"Unpinned “{NUTS}”"),
    (FactRejected(2, "Facts", "wrong"), f"Rejected “{PORTO}”: wrong"),
    (added(state="proposed"), f"Proposed “{NUTS}”, to be reviewed"),
    (FactAccepted(2, "Facts"), f"Accepted “{PORTO}”"),
    (FactProposed(2, "Facts"), f"Put “{PORTO}” back to be reviewed"),
    (
        FactHeldBack("Facts", "new", 2, 0.95, ((3, 3),)),
        f"Held back “{LISBON}”: 0.95 like “{PORTO}”, which was rejected",
    ),
    (FactsCurated("Facts", "retire", "outdated", ((1, 1, 2), (2, 1, 2))), "Retired 2 facts of Facts: outdated"),
    (FactsCurated("Facts", "retire", "", ((1, 2, 3),), undoes=9), "Undid a change of 1 fact of Facts"),
    (FactsCurated("Facts", "pin", "", ((1, 3, 4),), undoes=9, again=True), "Redid a change of 1 fact of Facts"),
    (FactErased(2, "Facts", undone=True), "Took back a fact that had been added to Facts"),
    (
        VectorsRemoved("Earlier turns", (7, 9)),
        "Deleted 2 stored turns of Earlier turns: the messages stay",
    ),
    (FactErased(2, "Facts"), "Deleted a fact of Facts for good"),
    (VectorsStored("Earlier turns", "minilm", ((7, ((1, 2),), 40),)), "Stored 1 turn in Earlier turns"),
    (
        VectorsStored("Earlier turns", "", ((7, ((1, 2),), 40),)),
        "Stored 1 turn in Earlier turns for keyword search only: the embedding model failed",
    ),
    (
        VectorsReplaced("Earlier turns", "minilm:384", (7, 9)),
        "Embedded 2 stored turns of Earlier turns again with minilm:384",
    ),
    (retrieved((7, 0.5, 0.4, 0.62, "granted")), "Recalled 1 earlier turn, best 0.62"),
    (
        retrieved((7, 0.3, None, 0.28, "below_threshold")),
        "Recalled nothing: what fits best (0.28) is below the threshold 0.31",
    ),
    (
        retrieved((7, 0.3, None, 0.3099, "below_threshold")),
        "Recalled nothing: what fits best (0.3099) is below the threshold 0.3100",
    ),
    (retrieved((7, 0.9, None, 0.9, "in_queue")), "Recalled nothing: what fits best (0.90) is still in the queue"),
    (
        replace(retrieved((7, 0.9, None, 0.9, "no_room")), top_k=None, token_budget=12),
        "Recalled nothing: what fits best (0.90) is left out for lack of room in 12 tokens",
    ),
    (
        replace(retrieved((7, 0.5, 0.4, 0.62, "granted")), top_k=None, gates={"granted": 60}),
        "Recalled 60 earlier turns, best 0.62",
    ),
    (retrieved(), "Recalled nothing from Earlier turns: no stored turn fits"),
    (built(), "Built the prompt: 1,106 of 1,200 tokens, 94 free"),
    (built(cuts=(TURNS,)), "Cut 56 of 335 tokens from Earlier turns: priority 2 goes first"),
    (
        built(cuts=(TURNS, FACTS)),
        "Cut 56 of 335 tokens from Earlier turns and 14 of 126 from Facts: the largest priority number goes first",
    ),
    (
        built(cuts=({**FACTS, "rule": "over_share"},)),
        "Cut 14 of 126 tokens from Facts: above the block's share",
    ),
    (
        built(cuts=({**FACTS, "rule": "over_share"}, TURNS)),
        "Cut 14 of 126 tokens from Facts and 56 of 335 from Earlier turns: priority 2 goes first",
    ),
    (
        built(cuts=(QUEUE,)),
        "Left 2 oldest turns, 120 tokens, out of the prompt: what is never cut is over the limit",
    ),
    (
        built(cuts=(TURNS, QUEUE)),
        "Cut 56 of 335 tokens from Earlier turns: priority 2 goes first. "
        "Left 2 oldest turns, 120 tokens, out as well",
    ),
    (
        built(total=1312, over_by=112, over_because="Instructions and the queue"),
        "Built the prompt: 1,312 of 1,200 tokens, 0 free. "
        "Sent 1,312 of 1,200: 112 over. Instructions and the queue cannot be cut",
    ),
    (
        ModelCalled("extract", "gpt-4o-mini", 1204, 88, 0.84, 0.0002, "Facts"),
        "Asked gpt-4o-mini to find facts: 1,204 tokens in, 88 tokens out, 0.8 s",
    ),
    (
        NothingLearned("Facts", "offline rules", (("question", ((1, 2),), None, ""), ("known", ((4, 4),), 7, ""))),
        "Facts learned nothing from 3 messages: 2 questions, 1 known already",
    ),
    (
        NothingLearned("Facts", "gpt-4o-mini", (("known", ((1, 1),), 7, ""), ("known", ((3, 4),), 9, ""),
                                                ("model_found_none", ((2, 2),), None, "h"))),
        "Facts learned nothing from 4 messages: 3 known already, "
        "1 in which the model found nothing",
    ),
    (ModelCalled("reply", "offline", None, None, 0.01, None), "Asked offline to reply: 0.01 s"),
    (
        ModelCalled("reply", "gpt-4o-mini", None, None, 60.0, None, error="It did not answer within 60 s."),
        "Asked gpt-4o-mini to reply, and it failed: It did not answer within 60 s",
    ),
    (BlockAdded("Facts", "facts", {"priority": 1}), "Added the block Facts, priority 1"),
    (BlockAdded("Instructions", "static", {"priority": 0}), "Added the block Instructions, never cut"),
    (BlockRemoved("Facts"), "Removed the block Facts"),
    (BlocksOrdered(("Facts", "Notes", "Earlier turns")), "Ordered the blocks: Facts, Notes and Earlier turns"),
    (BlockEdited("Facts", 1, None, None, {"priority": 2, "enabled": False}),
     "Changed Facts: the priority to 2 and use in prompts to off"),
    (
        BlockEdited("Human", 1, None, None, {"read_only": False, "limit": None, "description": "About the user."}),
        "Changed Human: read only for the agent to off, the maximum number of characters to no limit and the "
        "description to About the user.",
    ),
    (BlockEdited("Instructions", 1, None, "h"), "Wrote the text of Instructions, version 1"),
    (BlockEdited("Instructions", 2, "g", "h"), "Edited the text of Instructions, version 2"),
    (
        BlockEdited("Instructions", 4, "g", "h", restored=2),
        "Restored version 2 of the text of Instructions, as version 4",
    ),
    (
        BlockEdited("Instructions", 2, "h", "h", ignored="x"),
        "Kept the stored text of Instructions and ignored the text passed by the program",
    ),
    (BlockStateSaved("Notes", "h"), "Saved what Notes learned"),
    (BlockStateSaved("Notes", "h", ("client",)), "Saved what Notes learned, but it cannot keep client"),
    (BlockFailed("Notes", "It timed out."), "Notes could not be read: It timed out"),
    (ReplyStarted("r", 3, "gpt-4o-mini"), "Began a reply with gpt-4o-mini"),
    (ReplyEnded("r", "done"), "The reply is complete"),
    (ReplyEnded("r", "stopped"), "The reply was stopped"),
    (ReplyEnded("r", "failed", "The key was refused."), "The reply failed: The key was refused"),
]  # fmt: skip


@pytest.mark.parametrize(("event", "text"), SENTENCES, ids=[text[:40] for _, text in SENTENCES])
def test_an_event_says_what_happened_how_much_and_by_which_rule(event, text):
    assert describe(event, WORDS).text == text


@pytest.mark.parametrize(
    ("event", "unit", "text"),
    [
        (VectorsStored("Earlier turns", "m", ((7, ((1, 1),), 9), (8, ((2, 2),), 9))), None,
         "Stored 2 messages in Earlier turns"),
        (VectorsStored("Earlier turns", "m", ((7, ((1, 1),), 9),)), "turn", "Stored 1 turn in Earlier turns"),
        (VectorsStored("Earlier turns", "m", ((7, ((1, 2),), 9),)), "message", "Stored 1 turn in Earlier turns"),
        (VectorsStored("Earlier turns", "m", ((7, ((1, 9),), 9),)), "batch", "Stored 1 batch in Earlier turns"),
        (VectorsRemoved("Earlier turns", (7, 9)), "message",
         "Deleted 2 stored messages of Earlier turns: the messages stay"),
        (VectorsReplaced("Earlier turns", "m:3", (7, 9)), "batch",
         "Embedded 2 stored batches of Earlier turns again with m:3"),
        (retrieved((7, 0.5, 0.4, 0.62, "granted")), "message", "Recalled 1 earlier message, best 0.62"),
        (retrieved(), "message", "Recalled nothing from Earlier turns: no stored message fits"),
        (SessionReset(None, 22, 6, 9), "message", "Forgot everything: 22 messages, 6 facts, 9 stored messages"),
    ],
)  # fmt: skip
def test_what_a_block_stores_as_one_is_called_by_its_name(event, unit, text):
    assert describe(event, replace(WORDS, units={"Earlier turns": unit} if unit else {})).text == text


def test_a_models_own_words_on_what_it_skipped_are_details_of_the_sentence():
    event = NothingLearned("Facts", "gpt-4o-mini", (("model_found_none", ((2, 2),), None, "h"),))
    assert describe(event, replace(WORDS, texts={"h": "only a greeting"})).details == ("only a greeting",)
    assert describe(event, replace(WORDS, texts={})).details == ("erased words",)
    assert event.bookkeeping
    known = NothingLearned("Facts", "offline rules", (("known", ((4, 4),), 7, ""),))
    assert describe(known, replace(WORDS, facts={7: "Ana is allergic to nuts"})).details == ("Ana is allergic to nuts",)


def test_losses_are_told_in_the_colour_of_a_loss():
    assert describe(built(cuts=(FACTS,)), WORDS) == Line(
        "content_cut", "Cut 14 of 126 tokens from Facts: priority 1 goes first", "loss"
    )


def test_of_many_recalled_turns_a_handful_is_named():
    many = replace(retrieved(*((number, 0.5, None, 0.5, "granted") for number in range(50))), gates={"granted": 60})
    more = describe(many, WORDS).more
    assert len(more) == 13
    assert more[-1] == "and 48 more"


def test_a_triggers_or_a_purposes_new_word_is_shown_as_it_is():
    assert describe(ModelCalled("dream", "m", None, None, 1.0, None), WORDS).text == "Asked m to dream: 1.0 s"
    assert describe(DeliveryQueued(1, "Facts", "hourly", ((1, 1),), 9), WORDS).text.endswith("to Facts: hourly")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("chat_history_token_ratio", 0.58, "58 %"),
        ("similarity_threshold", 0.31, "0.31"),
        ("enabled", True, "on"),
        ("context_window", None, "the default"),
        ("token_limit", 30_000, "30,000"),
        ("truncation_order", "smallest_first", "the smallest priority number"),
        ("scope", "user", "the user"),
        ("insert_method", "user", "the user message"),
        ("similarity_top_k", None, "as many as fit"),
        ("unit", "turn", "a user message with its replies"),
        ("layout", "lines", "compact lines"),
        ("deliver_on", "turn", "after each turn"),
        ("greeting", "hello", "hello"),
        ("postprocessed_by", [], "none"),
    ],
)
def test_a_settings_value_is_written_for_people(name, value, words):
    assert value_words(name, value) == words


@pytest.mark.parametrize(("duration", "words"), [(0.0421, "0.04 s"), (0.84, "0.8 s"), (21.4, "21 s")])
def test_a_duration_has_as_many_places_as_tell_anything(duration, words):
    assert seconds(duration) == words


SPAN = ("a:b", 1)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (MemoryWritten(*SPAN, "notes", "update", (("r1", "old", 4),), 1),
         "Updated 1 record in notes: “Sam lives in Porto”"),
        (MemoryWritten(*SPAN, None, "upsert", (("r1", None, 0),), 1),
         "Wrote 1 record r1 in (unattributed), content not captured"),
        (MemoryWritten(*SPAN, "notes", "create", (), 3, "it failed with timeout"),
         "Could not write 3 records into notes: it failed with timeout"),
        (MemorySearched(*SPAN, "notes", "new", (("r1", "old", 4, 0.5),), 1, 0.5),
         "Searched notes for “Sam lives in Lisbon”: 1 record found, best 0.50"),
        (MemorySearched(*SPAN, "notes", None, (), 4, None), "Searched notes: 4 records found, content not captured"),
        (MemorySearched(*SPAN, "notes", "new", (), 0, None), "Searched notes for “Sam lives in Lisbon”: found nothing"),
        (MemorySearched(*SPAN, "notes", "new", (), None, None),
         "Searched notes for “Sam lives in Lisbon”: how much was found is not reported"),
        (MemoryDeleted(*SPAN, "notes", ("r1", "r2"), 2), "Deleted records r1 and r2 of notes"),
        (MemoryDeleted(*SPAN, "notes", (), None), "Deleted every record of notes"),
        (MemoryStoreChanged(*SPAN, "notes", "deleted"), "Deleted the store notes with its records"),
        (ModelCalled("reply", "m", 11, None, 1.0, None, captured=False),
         "Asked m to reply: 11 tokens in, 1.0 s, content not captured"),
    ],
)  # fmt: skip
def test_what_an_attached_agent_did_is_told_as_its_spans_have_it(event, told):
    assert describe(event, WORDS).text == told
