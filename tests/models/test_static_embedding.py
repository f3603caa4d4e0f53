"""The static embedder on its real vectors, and without them."""

import hashlib
import importlib.machinery
import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from memory_core.errors import EmbedderError
from memory_core.models import static_embedding
from memory_core.models.protocols import Embedder
from memory_core.models.static_embedding import WordLlamaEmbedder

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 14) and importlib.util.find_spec("wordllama") is None,
    reason="wordllama has no wheel for this Python",
)


@pytest.fixture(scope="module")
def static():
    return WordLlamaEmbedder()


def test_it_says_what_it_is(static):
    assert (static.id, static.dimensions, static.offline) == ("wordllama-l2-supercat:256", 256, True)
    assert isinstance(static, Embedder)


def test_vectors_have_length_one_and_one_row_per_text(static):
    rows = static.embed(["Hello", "Ana is allergic to nuts", "🎂 café", "a\ud800b", "日本語", "<unk> <s>"])
    assert (rows.shape, rows.dtype) == ((6, 256), np.float32)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(6), abs=1e-5)
    assert static.embed([]).shape == (0, 256)


@pytest.mark.parametrize("text", ["", "   \n"])
def test_a_text_without_a_word_gets_the_first_unit_vector(static, text):
    assert static.embed([text, "x"])[0].tolist() == [1.0] + [0.0] * 255


def test_sentences_that_share_their_sense_are_closer_than_others(static):
    same, other, far = static.embed(["I adopted a puppy", "We have a new dog", "The train leaves at nine"])
    assert same @ other > same @ far + 0.2


def test_the_vectors_are_those_of_the_package_s_own_code(static):
    """Computed once with its own `WordLlama.embed(norm=True)`."""
    row = static.embed(["The weather is lovely today."])[0]
    assert row[:4] == pytest.approx([0.014354, 0.008348, -0.085336, 0.098428], abs=1e-5)


def test_a_vector_depends_on_its_own_text_alone_to_the_last_bit(static):
    texts = [f"Message {'very ' * (i % 40)}long number {i}" for i in range(70)]
    alone = np.concatenate([WordLlamaEmbedder().embed([text]) for text in texts[::10]])
    assert (static.embed(texts)[::10] == alone).all()


def test_a_very_long_text_is_embedded_whole(static):
    start = "nothing of note happened on that day " * 2_900
    plain, with_end, question = static.embed([start, start + "Ana is allergic to nuts " * 600, "Ana's allergy to nuts"])
    assert len(start.split()) > 20_000
    assert with_end @ question > plain @ question + 0.1


def test_nothing_of_the_package_is_run():
    code = (
        "import logging, sys\n"
        "from memory_core.models.static_embedding import WordLlamaEmbedder\n"
        "WordLlamaEmbedder().embed(['Hello'])\n"
        "print('wordllama' in sys.modules, 'requests' in sys.modules, logging.getLogger().handlers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False []\n"


def test_a_missing_package_is_said_with_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EmbedderError, match=r'need the package wordllama. Install it with: pip install "memory-insp'):
        static_embedding._load_table()


def test_a_package_without_its_files_is_said(monkeypatch, tmp_path):
    spec = importlib.machinery.ModuleSpec("wordllama", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(EmbedderError, match=r"holds no weights/l2_supercat_256.safetensors. Install wordllama 0.4"):
        static_embedding._load_table()


@pytest.mark.parametrize("file", ["WEIGHTS", "TOKENIZER"])
def test_another_file_in_place_of_a_known_one_is_refused(monkeypatch, file):
    monkeypatch.setattr(static_embedding, f"{file}_SHA256", hashlib.sha256(b"other").hexdigest())
    with pytest.raises(EmbedderError, match="is not the known file"):
        static_embedding._load_table()
