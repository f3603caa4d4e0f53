"""The operations benchmark: what it reads, what it counts, and what the offline rules reach on its own scenarios."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import operations
from operations import Score, bound, held, judge, share, unmarked
from operations_data import Operation, Scenario, Target, generate, read
from recall_data import DataError


def test_the_same_seed_gives_the_same_scenarios():
    assert generate(12, 5) == generate(12, 5)
    assert generate(12, 5) != generate(12, 6)


def test_every_statement_of_a_scenario_stands_in_its_conversation():
    for scenario in generate(20, 3):
        for target in scenario.targets:
            assert all(scenario.messages[op.place] == ("user", op.quote) for op in target.operations)


def test_a_value_is_held_by_its_words_and_not_beside_the_new_one():
    assert share("Senior Data Analyst", "The user is a senior data analyst") == 1
    assert held("Lisbon", ["The user lives in Lisbon"], 0.6)
    assert not held("Lisbon", ["The user moved from Lisbon to Porto"], 0.8, without="Porto")


@pytest.mark.parametrize(
    ("line", "stale"),
    [
        ("I live in Lisbon.", True),
        ("I live in Lisbon. (until 3 May; now Porto)", False),
        ("I live in Porto.", False),
    ],
)
def test_a_former_value_is_stale_unless_its_line_says_so(line, stale):
    assert unmarked("I live in Lisbon.", f"Earlier:\n{line}") is stale


def test_the_bounds_are_the_bounds():
    scenario = generate(1, 1)[0]
    scores = {}
    for name in operations.BOUNDS:
        scores[name] = Score()
        judge(scenario.targets[0], bound(name, scenario), scores[name])
    assert scores["oracle"].hits["current value known"] == 1
    assert scores["keep nothing"].hits.total() == 0
    assert scores["keep everything"].hits["stale in the prompt"] == 1


@pytest.mark.slow
def test_the_rules_know_the_current_value_of_our_own_scenarios(tmp_path, capsys):
    file = tmp_path / "scores.json"
    arguments = ["--generate", "15", "--seed", "7", "--recipes", "consolidating", "--json", str(file)]
    operations.main(arguments)
    first = capsys.readouterr()
    kept = json.loads(file.read_text())["rows"]["consolidating"].values()
    total = Score.total(kept)
    assert total.hits["current value known"] == total.cases["current value known"] == 15
    assert total.hits["old value still active"] == 0
    assert total.hits["tentative applied"] == 0
    operations.main(arguments)  # goes on from the file, so nothing is measured again
    again = capsys.readouterr()
    assert (again.out, again.err) == (first.out, "")


def test_a_line_that_is_no_scenario_is_named(tmp_path):
    file = tmp_path / "broken.jsonl"
    file.write_text('{"conversations": [], "operations": [], "scenario": "x"}\n{"oops": 1}\n')
    with pytest.raises(DataError, match="line 2"):
        read(file)


def test_operations_of_a_target_are_put_in_the_order_of_the_conversation(tmp_path):
    said = ["I live in Porto now.", "I live in Lisbon."]
    dialogue = [{"role": "user", "content": text} for text in reversed(said)]
    entry = {"validity": "confirmed", "target": {"target_id": "home", "target_name": "home town"}}
    data = {
        "conversations": [{"dialogue": dialogue}],
        "operations": [
            {
                **entry,
                "type": "update",
                "old_value": "Lisbon",
                "new_value": "Porto",
                "evidence_spans": [{"quote": said[0]}],
            },
            {
                **entry,
                "type": "remember",
                "old_value": None,
                "new_value": "Lisbon",
                "evidence_spans": [{"quote": said[1]}],
            },
        ],
    }
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps(data) + "\n")
    operations_read = (
        Operation("remember", True, "", "Lisbon", said[1], 0),
        Operation("update", True, "Lisbon", "Porto", said[0], 1),
    )
    messages = (("user", said[1]), ("user", said[0]))
    assert read(file) == [Scenario("one/1", messages, (Target("home town", operations_read),))]
