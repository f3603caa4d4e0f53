#!/usr/bin/env bash
# Expect search(threshold=0.7) to return memories with a score of 0.7 or more.
# Get a score of 0.4: the threshold is held against the similarity of the vectors, the score is that
# plus a keyword score, halved as soon as any memory has one of the words.
# Hits whoever filters or compares scores: the same memory and question give 0.8 or 0.4, depending
# on what else is stored and on whether the store can search for words.
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
QUESTION = "where does ada live"
VECTORS = {"Ada lives in Rome": [0.8, 0.6], "Ada likes tea": [0.0, 1.0], QUESTION: [1.0, 0.0]}

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
    embed=lambda text, action: VECTORS[text],
    embed_batch=lambda texts, action: [VECTORS[text] for text in texts],
)
ids = {}
for text in ("Ada lives in Rome", "Ada likes tea"):
    ids[text] = memory.add(text, user_id="ada", infer=False)["results"][0]["id"]


def search():
    found = memory.search(QUESTION, filters={"user_id": "ada"}, threshold=0.7)["results"]
    return [(row["memory"], round(row["score"], 3)) for row in found]


print("mem0ai", version("mem0ai"), "- threshold=0.7")
print("documented: the docstring of Memory.search calls threshold the minimum score of a memory")
alone = search()
print("  no word search:            ", alone)
assert alone == [("Ada lives in Rome", 0.8)], alone

# Answers as a store with a search for words does: one weak hit, in the other memory.
hit = SimpleNamespace(id=ids["Ada likes tea"], score=0.5)
memory.vector_store.keyword_search = lambda query, top_k=5, filters=None: [hit]
beside = search()
print("  a word hit in another one: ", beside)
assert beside == [("Ada lives in Rome", 0.4)], beside
print("seen: a score below the threshold, halved by another memory")
memory.vector_store.client.close()
PY
