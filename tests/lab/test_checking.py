"""Probes in a CI server: a worsened configuration is noticed, an unchanged one never is; bisecting names the cause.

`MEMORY_INSPECTOR_LAB_CASES=25` bisects 25 planted settings and as many events, and checks what is unchanged 100 times.
"""

import json
import os
from contextlib import suppress
from xml.etree import ElementTree

import pytest
from engine_fakes import assistant, user
from fakes import FakeEmbedder

from memory_core import FactExtractionMemoryBlock, Memory, Services, StaticMemoryBlock
from memory_core.bundles.bundle import write_bundle
from memory_core.errors import ConfigError
from memory_core.planning import curation
from memory_inspector.commands.probe_commands import main
from memory_inspector.files.files import export_configuration
from memory_inspector.lab.bisecting import first_bad_turn, responsible_changes
from memory_inspector.lab.checking import check, check_variant, read_recorded, read_variant
from memory_inspector.lab.playing import Player
from memory_inspector.lab.probes import BlockTokens, InPrompt, evaluate, keep_probes, kept_probes, write_probes
from memory_inspector.lab.script import script_of
from memory_inspector.lab.variants import variant_of

pytestmark = pytest.mark.slow

CASES = int(os.environ.get("MEMORY_INSPECTOR_LAB_CASES", "5"))
FILLER = "We talked about the weather of the coming week and about nothing else at all."
WORDS = ("I am allergic to nuts.", "I live in Porto.", "My dog is called Bo.")


@pytest.fixture(scope="module")
def services():
    return Services(embedder=FakeEmbedder())


@pytest.fixture(scope="module")
def memory(services):
    """Three facts, then eleven turns of chatter; at the end one of the facts is asked for."""
    memory = made(services, 200)
    for words in (*WORDS, *(f"{FILLER} {number}" for number in range(11)), "What am I allergic to?"):
        memory.put(user(words))
        memory.build_context()
        memory.put(assistant("Noted."))
    return memory


def made(services, limit):
    """A memory of one text and facts."""
    return Memory.from_defaults(
        token_limit=limit,
        token_flush_size=40,
        memory_blocks=[
            StaticMemoryBlock(name="rules", static_content="Always be kind.", priority=0),
            FactExtractionMemoryBlock(name="facts", priority=1),
        ],
        services=services,
    )


PROBES = (
    InPrompt(phrase="I am allergic to nuts", from_turn=1),
    InPrompt(phrase="I live in Porto", from_turn=2),
    InPrompt(phrase="My dog is called Bo", from_turn=3),
    InPrompt(phrase=f"{FILLER} 8", from_turn=12, to_turn=13),
    BlockTokens(block="rules", at_least=3),
)


@pytest.fixture
def files(memory, tmp_path):
    """A bundle, its configuration and the probes, as files."""
    bundle, config, probes = tmp_path / "lived.zip", tmp_path / "config.json", tmp_path / "probes.json"
    bundle.write_bytes(write_bundle(memory.session.database, memory.session_id))
    config.write_text(export_configuration(memory), encoding="utf-8")
    probes.write_text(write_probes(PROBES), encoding="utf-8")
    return bundle, config, probes


def changed_file(config, tmp_path, change):
    value = json.loads(config.read_text(encoding="utf-8"))
    change(value)
    path = tmp_path / "worse.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_an_unchanged_configuration_always_passes(files, services):
    bundle, config, probes = files
    for _ in range(4 * CASES if CASES > 5 else 3):
        checked = check(bundle, config, probes, services=services)
        assert checked.passed, checked.table()
    assert check(bundle, None, probes, services=services).passed


def settings(**values):
    return lambda value: value["settings"].update(values)


def block(name, **values):
    def change(value):
        next(each for each in value["blocks"] if each["name"] == name)["settings"].update(values)

    return change


def without(*names):
    return lambda value: value.update(blocks=[each for each in value["blocks"] if each["name"] not in names])


def together(*changes):
    return lambda value: [change(value) for change in changes]


WORSE = [
    *(settings(token_limit=limit, token_flush_size=5) for limit in (20, 30, 40, 50, 60)),
    *(settings(token_limit=limit, chat_history_token_ratio=1.0, token_flush_size=20) for limit in (60, 80, 100, 120)),
    *(settings(queue_turns=1, chat_history_token_ratio=ratio) for ratio in (0.1, 0.5, 0.9)),
    *(settings(token_flush_size=size, chat_history_token_ratio=0.1) for size in (100, 150, 200)),
    settings(reply_reserve=380, context_window=400),
    settings(reply_reserve=330, context_window=400),
    without("facts"),
    without("rules"),
    without("facts", "rules"),
    block("facts", enabled=False),
    block("rules", enabled=False),
    block("facts", accept_short_term_memory=False),
    block("facts", deliver_on="session_end"),
    block("facts", max_facts=1),
    block("facts", max_facts=2),
    block("rules", priority=9, enabled=False),
    together(block("facts", enabled=False), block("rules", enabled=False)),
    together(block("facts", max_facts=1), settings(token_limit=300, token_flush_size=30)),
    together(settings(token_limit=90, token_flush_size=20), block("facts", priority=9)),
]
"""Thirty ways to make a configuration worse, each as what it does to the file."""


def test_a_worsened_configuration_is_noticed(files, services, tmp_path):
    bundle, config, _ = files
    player, script = Player(services), read_recorded(bundle, services).script
    assert len(WORSE) == 30
    kept = [
        number
        for number, change in enumerate(WORSE)
        if check_variant(player, script, read_variant(changed_file(config, tmp_path, change)), PROBES).passed
    ]
    assert len(kept) <= 2, kept


def test_probes_are_kept_with_the_session_and_travel_in_its_bundle(memory, services, tmp_path):
    assert kept_probes(memory) == ()
    keep_probes(memory, PROBES)
    bundle = tmp_path / "lived.zip"
    bundle.write_bytes(write_bundle(memory.session.database, memory.session_id))
    assert [verdict.probe for verdict in check(bundle, services=services).verdicts] == list(PROBES)
    assert kept_probes(memory.branch(3)) == PROBES
    keep_probes(memory, ())
    assert memory.session.probes is None


def test_more_probes_than_a_session_keeps_are_refused_and_nothing_changes(memory):
    with pytest.raises(ConfigError, match="100 probes are the most"):
        keep_probes(memory, PROBES * 21)
    assert kept_probes(memory) == ()


# -- in a terminal -----------------------------------------------------------------------------------


def test_the_exit_status_says_whether_every_probe_held(files, tmp_path, capsys):
    bundle, config, probes = map(str, files)
    assert main(["check", bundle, "--config", config, "--probes", probes]) == 0
    assert "config.json: 5 of 5 probes held over 15 turns." in capsys.readouterr().out
    worse = changed_file(files[1], tmp_path, settings(token_limit=40, token_flush_size=20))
    junit = tmp_path / "out.xml"
    assert main(["check", bundle, "--config", str(worse), "--probes", probes, "--junit", str(junit)]) == 1
    suite = ElementTree.parse(junit).getroot()
    failed = [case.get("name") for case in suite if len(case)]
    assert (suite.get("tests"), suite.get("failures")) == ("5", str(len(failed)))
    assert failed[0] == "“I live in Porto” is in the prompt from turn 2 on"


def test_messages_alone_are_played_under_the_given_configuration(files, tmp_path, capsys):
    messages = tmp_path / "messages.json"
    messages.write_text(json.dumps([{"role": "user", "content": words} for words in WORDS]), encoding="utf-8")
    assert main(["check", str(messages), "--config", str(files[1]), "--probes", str(files[2])]) == 1
    assert "No prompt was made from turn 12 on" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "missing.zip"], "missing.zip cannot be read"),
        (["check", "{bundle}"], "There is no probe to check"),
        (["check", "{bundle}", "--probes", "{empty}"], "empty.json has none"),
        (["check", "{config}", "--probes", "{probes}"], "config.json is a configuration"),
        (["check", "{bundle}", "--config", "{probes}", "--probes", "{probes}"], "probes.json"),
        (["check", "{half}", "--probes", "{probes}"], "half.zip"),
        (["check", "{newer}", "--probes", "{probes}"], "newer.json"),
        (["check", "{silent}", "--config", "{config}", "--probes", "{probes}"], "silent.json has no message of a user"),
        (["check", "{talk}", "--probes", "{probes}"], "talk.json holds only messages"),
        (["check", "{bundle}", "--config", "{unknown}", "--probes", "{probes}"], "unknown.json"),
        (["bisect", "{bundle}", "--probes", "{probes}", "--number", "9"], "there is no number 9"),
        (["bisect", "{bundle}", "--probes", "{probes}", "--good", "{config}"], "Give both --good and --bad"),
        (["bisect", "{talk}", "--probes", "{probes}"], "talk.json is no session bundle"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_status_2(files, tmp_path, capsys, arguments, said):
    bundle, config, probes = files
    made = {"half": tmp_path / "half.zip", "newer": tmp_path / "newer.json", "unknown": tmp_path / "unknown.json"}
    made |= {name: tmp_path / f"{name}.json" for name in ("silent", "talk", "empty")}
    made["empty"].write_text(write_probes(()), encoding="utf-8")
    made["half"].write_bytes(bundle.read_bytes()[: bundle.stat().st_size // 2])
    value = json.loads(config.read_text(encoding="utf-8"))
    made["newer"].write_text(json.dumps(value | {"version": 99}), encoding="utf-8")
    made["unknown"].write_text(json.dumps(value | {"settings": {"colour": 1}}), encoding="utf-8")
    made["silent"].write_text('[{"role": "assistant", "content": "Hello."}]', encoding="utf-8")
    made["talk"].write_text('[{"role": "user", "content": "Hello."}]', encoding="utf-8")
    names = {"bundle": bundle, "config": config, "probes": probes, **made}
    assert main([argument.format(**names) for argument in arguments]) == 2
    told = capsys.readouterr().err
    assert told.startswith("memory-inspector: ")
    assert told.count("\n") == 1
    assert said in told


def test_bisecting_in_a_terminal_prints_the_setting(files, tmp_path, capsys):
    bundle, config, probes = files
    worse = changed_file(
        config,
        tmp_path,
        together(settings(reply_reserve=10), block("facts", enabled=False)),
    )
    assert main(["bisect", str(bundle), "--probes", str(probes), "--good", str(config), "--bad", str(worse)]) == 0
    assert capsys.readouterr().out.startswith("facts.enabled True → False\n")


# -- bisecting ---------------------------------------------------------------------------------------

HARMLESS = {
    "reply_reserve": 10, "delivery_timeout": 9.0, "delivery_attempts": 4, "image_token_size_estimate": 300,
    "audio_token_size_estimate": 300, "video_token_size_estimate": 300, "document_token_size_estimate": 300,
}  # fmt: skip


WORSE_KNOBS = (
    {"facts.enabled": False}, {"facts.accept_short_term_memory": False}, {"facts.deliver_on": "session_end"},
    {"facts.max_facts": 1}, {"token_limit": 25},
)  # fmt: skip


@pytest.mark.parametrize("planted", range(CASES))
def test_the_one_setting_responsible_is_found_among_others(memory, services, planted):
    worse, place = WORSE_KNOBS[planted % 5], planted // 5
    harmless = [*HARMLESS.items(), ("facts.description", "More."), ("rules.priority", 3)][place:]
    knobs = dict([*harmless[: 2 * place], *worse.items(), *harmless[2 * place :]])
    good = variant_of(memory, "good").changed("good", token_flush_size=20)
    cause = responsible_changes(Player(services), script_of(memory), good, good.changed("bad", **knobs), PROBES[0])
    assert [change.setting for change in cause.changes] == list(worse)
    assert not cause.verdict.held
    assert cause.plays <= 12


def test_two_settings_that_only_together_do_it_are_named_together(memory, services):
    good = variant_of(memory, "good")
    bad = good.changed("bad", **{"facts.priority": 4, "token_limit": 25, "token_flush_size": 20, "reply_reserve": 5})
    probe = InPrompt(phrase="allergic to nuts", from_turn=1)
    player, script = Player(services), script_of(memory)
    cause = responsible_changes(player, script, good, bad, probe)
    named = list(cause.changes)
    assert not evaluate(player.play(script, good.with_changes("least", named)).memory, [probe])[0].held
    for change in named:  # none of them can be left out
        fewer = [each for each in named if each != change]
        with suppress(ConfigError):
            assert evaluate(player.play(script, good.with_changes("fewer", fewer)).memory, [probe])[0].held


def test_nothing_to_bisect_is_said(memory, services):
    good = variant_of(memory, "good")
    player, script = Player(services), script_of(memory)
    with pytest.raises(ConfigError, match="holds under same, too"):
        responsible_changes(player, script, good, good.changed("same", reply_reserve=5), PROBES[0])
    with pytest.raises(ConfigError, match="does not hold under good either"):
        responsible_changes(player, script, good, good, InPrompt(phrase="boat", from_turn=1))


def dinner(services, turns=24):
    """A memory before each of its turns, and in the end; the nuts are said in the first, and a fact from then on."""
    memory = made(services, 250)
    memory.configure(queue_turns=2)
    for words in (WORDS[0], *(f"{FILLER} {number}" for number in range(turns - 1))):
        yield memory
        memory.put(user(words))
        memory.build_context()
        memory.put(assistant("Noted."))
    yield memory


@pytest.mark.parametrize("planted", range(CASES))
def test_the_planted_event_is_the_first_bad_one(services, planted):
    turn = 6 + 3 * planted % 17
    for done, memory in enumerate(dinner(services)):
        if done != turn - 1:
            continue
        if planted % 3 == 0:
            desk = memory.facts.desk("facts")
            desk.apply(curation.retire([fact for fact in desk.facts(("active",)) if "nut" in fact.text]))
        elif planted % 3 == 1:
            memory.blocks.configure("facts", enabled=False)
        else:
            memory.blocks.remove("facts")
    found = first_bad_turn(memory, InPrompt(phrase="allergic to nuts", from_turn=1))
    assert found.turn == turn
    assert found.looks <= 7
    assert (found.event.kind, found.event.actor) == (
        ("fact_retired", "block_edited", "block_removed")[planted % 3],
        "user",
    )


def test_a_probe_that_never_changes_is_not_bisected(services):
    *_, memory = dinner(services, turns=4)
    with pytest.raises(ConfigError, match="too: there is nothing to find"):
        first_bad_turn(memory, InPrompt(phrase="allergic to nuts", from_turn=1))
    with pytest.raises(ConfigError, match="does not hold in turn 1 yet"):
        first_bad_turn(memory, BlockTokens(block="ghost", at_least=1))
