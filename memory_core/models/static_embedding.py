"""Static embeddings: a text's vector is the mean of its tokens' vectors. No neural layers: thousands per second.

The vectors are WordLlama's (l2_supercat, 256 dimensions, MIT), from the package `wordllama`, of which only two data
files are read, each checked against a known SHA-256. None of its code is run: importing it would set up logging for
the whole process, and its loader looks for the tokenizer in the wrong folder and would then download it.
"""

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_core.errors import EmbedderError
from memory_core.models.embedding import LocalEmbedder, known_file, unit_rows
from memory_core.process import once

DIMENSIONS = 256
PACKAGE = "wordllama 0.4.0.post1"
WEIGHTS, WEIGHTS_SHA256 = (
    "weights/l2_supercat_256.safetensors",
    "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
)
TOKENIZER, TOKENIZER_SHA256 = (
    "tokenizers/l2_supercat_tokenizer_config.json",
    "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
)


class WordLlamaEmbedder(LocalEmbedder):
    """WordLlama (English), 256 dimensions: an embedder for fast ingestion.

    It ignores word order. Of messages that were asked for in other words, it found half in first place, and
    all-MiniLM-L6-v2 three quarters. A text is embedded whole, however long; a text without a word (empty,
    or only blanks) gets the first unit vector.
    """

    id = f"wordllama-l2-supercat:{DIMENSIONS}"
    dimensions = DIMENSIONS

    def _embedded(self, texts: Sequence[str]) -> NDArray[np.float32]:
        means = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, text in zip(means, texts, strict=True):
            if text.strip():
                row[:] = _loaded_table().mean(text)
        return unit_rows(means)


@dataclass(frozen=True, slots=True)
class _Table:
    """A vector for each token, and the tokenizer; safe to share between threads."""

    vectors: NDArray[np.float32]
    tokenizer: Any

    def mean(self, text: str) -> NDArray[np.float64]:
        """Return the mean of a text's token vectors; the text contains words."""
        whole = text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate is not UTF-8
        ids = self.tokenizer.encode(whole, add_special_tokens=False).ids
        # Summed in double precision, so that long texts lose no digits.
        mean: NDArray[np.float64] = self.vectors[ids].mean(axis=0, dtype=np.float64)
        return mean


@once
def _loaded_table() -> _Table:
    return _load_table()


def _load_table() -> _Table:
    """Read and check both files. Takes about a tenth of a second."""
    try:
        import tokenizers
    except ImportError as error:
        raise EmbedderError(f"static embeddings need the package tokenizers: install it ({error})") from error
    vectors = _tensor(known_file(_read(WEIGHTS), WEIGHTS_SHA256, f"{WEIGHTS} of {PACKAGE}"))
    words = known_file(_read(TOKENIZER), TOKENIZER_SHA256, f"{TOKENIZER} of {PACKAGE}")
    tokenizer = tokenizers.Tokenizer.from_str(words.decode("utf-8"))
    # Whatever the file says, a text is embedded whole.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return _Table(vectors, tokenizer)


def _read(name: str) -> bytes:
    """Return a file of the package `wordllama`, which is located but not imported."""
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderError(
            "Static embeddings need the package wordllama. "
            'Install it with: pip install "memory-inspector[fast]", or choose another embedding model.'
        )
    # Found by its folder, without running the package's code.
    try:
        return Path(spec.submodule_search_locations[0], name).read_bytes()
    except OSError as error:
        raise EmbedderError(f"The package wordllama holds no {name}. Install {PACKAGE} again.") from error


def _tensor(data: bytes) -> NDArray[np.float32]:
    """Return the only tensor of a safetensors file: the length of a JSON header, that header, and the numbers."""
    size = int.from_bytes(data[:8], "little")
    # Unpacking fails if there is another tensor; `__metadata__` is no tensor.
    ((_, tensor),) = ((name, value) for name, value in json.loads(data[8 : 8 + size]).items() if name[0] != "_")
    # Offsets count from the end of the header, whose length takes 8 bytes.
    start, end = (8 + size + place for place in tensor["data_offsets"])
    # The weights are half precision on disk, little-endian in every safetensors file.
    return np.frombuffer(data[start:end], dtype="<f2").reshape(tensor["shape"]).astype(np.float32)
