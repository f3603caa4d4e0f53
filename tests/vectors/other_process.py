"""Another process that uses a Chroma folder: `python other_process.py FOLDER`.

Prints what it finds, holds the folder until its standard input ends, and prints what it finds then.
"""

import json
import sys

from vector_fakes import ListSource, queries, random_vectors

from memory_core.vectors.chroma import ChromaIndex


def answers(index):
    source = ListSource().add(*random_vectors(200))
    found = [index.search(source, query, limit=5) for query in queries(5)]
    return {"name": index.name, "found": [[[hit.number, round(hit.score, 4)] for hit in hits] for hits in found]}


if __name__ == "__main__":
    index = ChromaIndex(path=sys.argv[1])
    print(json.dumps(answers(index)), flush=True)
    sys.stdin.read()
    print(json.dumps(answers(index)), flush=True)
    index.close()
