#!/usr/bin/env bash
# Expect expired memories to make no difference to a search: they are kept, but hidden.
# Get no result although a living memory matches: search takes the 80 nearest of all memories (four
# times top_k, at least 60), then drops the expired ones. get_all finds the living one.
# Hits whoever gives short-lived memories a date ("parked at ..."): after 80 days of them the agent
# knows nothing of the topic. A larger top_k helps, and so does deleting what has expired.
# Seen with mem0ai 2.2.1 (Qdrant on a local path) on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check mem0ai==2.2.1 qdrant-client==1.20.0

export MEM0_TELEMETRY=False MEM0_DIR="$work/mem0"
"$work/venv/bin/python" -W ignore - "$work" 2>"$work/log" <<'PY' || { cat "$work/log" >&2; exit 1; }
import sys
from importlib.metadata import version
from types import SimpleNamespace

from mem0 import Memory

work = sys.argv[1]
LIVING = "Ada has a parking permit for zone 4."
ADA = {"user_id": "ada"}


def vector(text, action=None):
    return [0.9, 0.4] if text == LIVING else [1.0, 0.0]


# The model is never asked (infer=False); the vectors are made up, so that nothing is downloaded.
model = {"provider": "openai", "config": {"api_key": "unused"}}
store = {"path": f"{work}/qdrant", "embedding_model_dims": 2, "collection_name": "memories"}
memory = Memory.from_config(
    {
        "llm": model,
        "embedder": model,
        "vector_store": {"provider": "qdrant", "config": store},
        "history_db_path": f"{work}/history.db",
    }
)
memory.embedding_model = SimpleNamespace(
    embed=vector, embed_batch=lambda texts, action: [vector(text) for text in texts]
)


def search(**options):
    rows = memory.search("Where can Ada park?", filters=ADA, **options)["results"]
    return [row["memory"] for row in rows]


def park(days):
    for day in days:
        text = f"Ada parked in row {day} today."
        memory.add(text, user_id="ada", infer=False, expiration_date="2026-01-31")


print("mem0ai", version("mem0ai"))
print("documented: the docstring of Memory.add says that expired memories are hidden from search")
print("            and get_all unless show_expired is set, and of search that top_k is the limit")
memory.add(LIVING, user_id="ada", infer=False)
park(range(79))
print("  search, 79 expired:           ", search())
assert search() == [LIVING]
park(range(79, 80))
print("  search, 80 expired:           ", search())
assert search() == []
print("  search(top_k=21), 80 expired: ", search(top_k=21))
assert search(top_k=21) == [LIVING]
listed = [row["memory"] for row in memory.get_all(filters=ADA)["results"]]
print("  get_all, 80 expired:          ", listed)
assert listed == [LIVING]
print("seen: memories that are hidden still take the places of those that are not")
memory.vector_store.client.close()
PY
