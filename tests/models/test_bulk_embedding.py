"""Many texts at once on the local model: in batches of like length, on several threads."""

import threading

import numpy as np
import pytest

from memory_core.models import embedding
from memory_core.models.embedding import MiniLMEmbedder

TEXTS = [f"Message {'very ' * (i * 7 % 60)}long number {i}" for i in range(60)]


def pieces_of(*lengths):
    return [(number, [1] * length) for number, length in enumerate(lengths)]


def lengths_of(batches):
    return [[len(ids) for _, ids in batch] for batch in batches]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ((), []),
        ((256, 256, 256), [[256, 256], [256]]),
        ((3, 200, 2, 190), [[200, 190], [3, 2]]),
        ((600,), [[600]]),
        ((300, 200, 250), [[300], [250, 200]]),
        ((2,) * 40, [[2] * 32, [2] * 8]),
    ],
)
def test_a_batch_is_of_like_lengths_and_small_with_its_padding(lengths, expected):
    found = lengths_of(embedding._batches(pieces_of(*lengths)))
    assert found == [sorted(batch, reverse=True) for batch in expected]


def test_every_piece_is_in_one_batch():
    pieces = pieces_of(*(1 + (i * 37) % 256 for i in range(300)))
    batches = embedding._batches(pieces)
    assert sorted(piece[0] for batch in batches for piece in batch) == list(range(300))
    assert all(len(batch) * len(batch[0][1]) <= 512 for batch in batches)


@pytest.mark.slow
def test_which_thread_embeds_a_text_changes_no_vector(monkeypatch):
    rows = MiniLMEmbedder().embed(TEXTS)
    monkeypatch.setattr(embedding, "_run_all", lambda model, batches: map(model.run, texts_of(batches)))
    assert (MiniLMEmbedder().embed(TEXTS) == rows).all()


def texts_of(batches):
    return [[ids for _, ids in batch] for batch in batches]


@pytest.mark.slow
def test_a_question_is_embedded_by_who_asks_and_waits_for_no_other(monkeypatch):
    seen = []
    run = embedding._MiniLM.run

    def noted(self, batch):
        seen.append(threading.current_thread())
        return run(self, batch)

    monkeypatch.setattr(embedding._MiniLM, "run", noted)
    MiniLMEmbedder().embed(["Where do I live?"])
    assert seen == [threading.current_thread()]
    MiniLMEmbedder().embed(TEXTS)
    assert threading.current_thread() not in seen[1:]


def test_an_error_in_one_batch_is_raised(monkeypatch):
    def fails(self, batch):
        raise ValueError("no memory")

    monkeypatch.setattr(embedding._MiniLM, "run", fails)
    with pytest.raises(ValueError, match="no memory"):
        MiniLMEmbedder().embed(TEXTS)


def test_rows_stand_in_the_order_of_the_texts():
    rows = MiniLMEmbedder().embed(TEXTS[:12])
    alone = np.concatenate([MiniLMEmbedder().embed([text]) for text in TEXTS[:12]])
    assert rows == pytest.approx(alone, abs=1e-4)
