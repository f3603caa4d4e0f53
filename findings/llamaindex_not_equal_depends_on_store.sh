#!/usr/bin/env bash
# Expect one MetadataFilters to choose the same memories in whatever store it is given to.
# Get two answers to city != "Rome": SimpleVectorStore finds memories without a city too,
# QdrantVectorStore only those with another city. NIN differs likewise, the condition NOT agrees.
# Hits whoever keeps "everything but ..." out of a prompt: memories without the key appear or
# vanish when a prototype in memory moves to a server, and no error says so.
# Seen with llama-index-core 0.14.25 and its Qdrant store 0.10.4 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check \
    llama-index-core==0.14.25 llama-index-vector-stores-qdrant==0.10.4 qdrant-client==1.20.0

"$work/venv/bin/python" -W ignore - <<'PY'
from importlib.metadata import version

from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
    VectorStoreQuery,
)
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

MEMORIES = [
    ("lives in Rome", {"city": "Rome"}),
    ("works in Oslo", {"city": "Oslo"}),
    ("likes tea", {"topic": "drinks"}),
]
IDS = {f"00000000-0000-0000-0000-00000000000{n}": text for n, (text, _) in enumerate(MEMORIES)}


def filled(store):
    store.add(
        [
            TextNode(id_=node, text=text, metadata=metadata, embedding=[1.0, 0.0])
            for node, (text, metadata) in zip(IDS, MEMORIES)
        ]
    )
    return store


def chosen(store, operator, value, condition):
    city = MetadataFilter(key="city", value=value, operator=operator)
    filters = MetadataFilters(filters=[city], condition=condition)
    query = VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=9, filters=filters)
    return sorted(IDS[node] for node in store.query(query).ids)


simple = filled(SimpleVectorStore())
client = QdrantClient(":memory:")
qdrant = filled(QdrantVectorStore(client=client, collection_name="memories"))

for package in ("llama-index-core", "llama-index-vector-stores-qdrant", "qdrant-client"):
    print(package, version(package))
print("documented: FilterOperator explains NE as not equal and NIN as not in the array, and leaves")
print("            a missing key open; filters are passed to any store")
both, one = ["likes tea", "works in Oslo"], ["works in Oslo"]
for words, operator, value, condition, in_simple, in_qdrant in (
    ("city != Rome", FilterOperator.NE, "Rome", FilterCondition.AND, both, one),
    ("city not in [Rome]", FilterOperator.NIN, ["Rome"], FilterCondition.AND, both, one),
    ("not (city == Rome)", FilterOperator.EQ, "Rome", FilterCondition.NOT, both, both),
):
    seen = [chosen(store, operator, value, condition) for store in (simple, qdrant)]
    print(f"  {words:20} simple: {seen[0]}  qdrant: {seen[1]}")
    assert seen == [in_simple, in_qdrant], (words, seen)
print("seen: a memory without the key is unequal in one store, and nowhere in the other")
client.close()
PY
