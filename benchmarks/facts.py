"""Precision and recall of the offline rules on conversations they were not written from.

    python benchmarks/facts.py [path of memory_bank_en.json]

The gold facts were labelled by hand. The rules were written while looking at the development users, and those
were labelled with the rules' output in view, so their precision flatters. The held-out users were labelled
before the rules were run on them, and what the rules make of them has never been read line by line. A gold
fact is a place (user, day, turn) and a few stems, never the words. A learned fact is right when a gold fact of
its message has all its stems in it; one whose message has no such gold fact is wrong. A gold fact is found
when some fact learned from its message holds its stems.
"""

import json
import os
import sys
from collections import defaultdict
from pathlib import Path

from memory_core.messages import ChatMessage
from memory_core.models.offline.fact_extraction import RuleExtractor
from memory_core.text import stems

_HERE = Path(__file__).resolve().parent
_SHARED = Path(os.environ.get("MEMORY_INSPECTOR_SHARED", _HERE.parent.parent / "shared"))
DEFAULT = _SHARED / "data" / "memorybank" / "memory_bank_en.json"
Place = tuple[str, str, int]


def read_conversations(path: Path) -> dict[str, dict[Place, str]]:
    """The user's words by place, for every user of a MemoryBank file."""
    conversations = {}
    for name, person in json.loads(path.read_text(encoding="utf-8")).items():
        user = name.strip()
        conversations[user] = {
            (user, day, turn): entry["query"]
            for day, entries in person["history"].items()
            for turn, entry in enumerate(entries)
        }
    return conversations


def read_gold(facts: list[dict]) -> dict[Place, list[frozenset[str]]]:
    """The key stems of each gold fact, by place."""
    gold = defaultdict(list)
    for fact in facts:
        gold[fact["user"], fact["day"], fact["turn"]].append(frozenset(fact["stems"]))
    return gold


def learned(conversation: dict[Place, str]) -> list[tuple[Place, str]]:
    """What the rules learn from one user's turns, with the place of each fact."""
    places = list(conversation)
    # The day of a turn is its time, by which "tomorrow" becomes a date.
    messages = [
        ChatMessage(role="user", content=conversation[place], additional_kwargs={"time": place[1]}) for place in places
    ]
    return [(places[fact.source], fact.text) for fact in RuleExtractor().extract(messages, known=()).facts]


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    conversations = read_conversations(path)
    groups = json.loads((_HERE / "facts_gold.json").read_text(encoding="utf-8"))
    print(
        f"{'':14}{'users':>6}{'turns':>7}{'gold':>6}{'learned':>9}{'right':>7}{'found':>7}{'precision':>11}{'recall':>8}"
    )
    for group, facts in groups.items():
        gold = read_gold(facts)
        users = sorted({place[0] for place in gold})
        facts_learned = [item for user in users for item in learned(conversations[user])]
        bags = [(place, frozenset(stems(text))) for place, text in facts_learned]
        right = sum(any(key <= bag for key in gold.get(place, ())) for place, bag in bags)
        found = sum(
            any(place == where and key <= bag for where, bag in bags) for place, keys in gold.items() for key in keys
        )
        turns = sum(len(conversations[user]) for user in users)
        print(
            f"{group.replace('_', ' '):14}{len(users):6}{turns:7}{len(facts):6}{len(bags):9}{right:7}{found:7}"
            f"{right / max(1, len(bags)):11.2f}{found / max(1, len(facts)):8.2f}"
        )


if __name__ == "__main__":
    main()
