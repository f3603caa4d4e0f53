"""An OpenAI-compatible endpoint: its address, its key, and its client's errors translated into `ModelError`s.

Nothing here shows the key: neither `repr`, nor an error, nor a pickle (an unpickled endpoint
reads its key from the environment again).
"""

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from memory_core.errors import (
    ConfigError,
    ModelAnswerError,
    ModelError,
    ModelKeyError,
    ModelRateLimitError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnreachableError,
)
from memory_core.text import shortened

OFFICIAL_URL = "https://api.openai.com/v1"
NO_KEY = "none"
"""Key sent to servers that need none: the client refuses an empty one."""
REASON_CHARACTERS = 300
"""Maximum characters of the endpoint's text quoted in an error."""
_HIDDEN = "[key]"


class Endpoint:
    """Model endpoint: address, API key, time limit (seconds) and number of retries.

    Arguments that are None or empty are read from `OPENAI_BASE_URL` and `OPENAI_API_KEY`, but the environment's key and
    headers go to the environment's address only: any other address gets the key passed with it, or none.

    Raises:
        ConfigError: the client is not installed, the address is not an HTTP address, or the key has characters that no
            HTTP header can carry.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_seconds: float = 60,
        max_retries: int = 1,
    ) -> None:
        # Looked up instead of imported: the client takes long to load, and may not be needed yet.
        if find_spec("openai") is None:
            raise ConfigError("The openai client is not installed. Run: pip install 'memory-inspector[openai]'")
        if not timeout_seconds > 0:
            raise ConfigError(f"must be above 0: {timeout_seconds=}")
        if max_retries < 0:
            raise ConfigError(f"must be at least 0: {max_retries=}")
        self.base_url = _checked_url(base_url) if base_url else environment_url()
        self.timeout_seconds = timeout_seconds
        self.max_retries = max_retries
        self.of_environment = not base_url or _same_address(self.base_url)
        """True if the address is that of the environment; no other address gets the environment's key and headers."""
        self._key = _checked_key(api_key or (os.environ.get("OPENAI_API_KEY") if self.of_environment else None))
        self._lock = threading.Lock()
        self._client: Any = None

    @property
    def host(self) -> str:
        """Host and port, as in `localhost:1234`."""
        return self.address.split("://", 1)[1].split("/", 1)[0]

    @property
    def address(self) -> str:
        """The base URL without user, password or query, fit for a screen."""
        parts = urlsplit(self.base_url)
        # A user name and password in the address are secrets as well.
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")

    @property
    def has_key(self) -> bool:
        return self._key is not None

    def client(self) -> Any:
        """Return the `openai.OpenAI` of this endpoint, made once; it may be shared between threads."""
        with self._lock:
            if self._client is None:
                import openai

                # The client looks into httpx as soon as there is such a module, and another thread (the vector index's,
                # say) may have begun to load it at any moment: importing it waits until that is done.
                with suppress(ImportError):  # the client may not need it
                    import httpx  # noqa: F401
                # Left out explicitly: the client would send the environment's headers to any address.
                omitted: Any = dict.fromkeys(self._foreign_headers(), openai.Omit())
                self._client = openai.OpenAI(
                    api_key=self._key or NO_KEY,
                    base_url=self.base_url,
                    timeout=self.timeout_seconds,
                    max_retries=self.max_retries,
                    default_headers=omitted,
                )
            return self._client

    def _foreign_headers(self) -> list[str]:
        """Return names of headers that the client takes from the environment and that another address must not get."""
        if self.of_environment:
            return []
        lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines()
        custom = [line.partition(":")[0].strip() for line in lines if ":" in line]
        return ["OpenAI-Organization", "OpenAI-Project", *custom]

    def once(self, timeout_seconds: float) -> "Endpoint":
        """Return an endpoint with the same address and key, this time limit and no retries."""
        return Endpoint(self.base_url, self._key, timeout_seconds=timeout_seconds, max_retries=0)

    def close(self) -> None:
        """Close the connections; the next call reopens them."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def hide_key(self, text: str) -> str:
        """Redact the API key from `text`."""
        return text.replace(self._key, _HIDDEN) if self._key else text

    def __repr__(self) -> str:
        return f"Endpoint({self.address!r})"

    def __copy__(self) -> "Endpoint":
        return self

    def __deepcopy__(self, memo: Mapping[int, Any]) -> "Endpoint":
        return self

    def __getstate__(self) -> dict[str, Any]:
        # Without the key, so that no pickle on disk or between processes holds it.
        return {"base_url": self.base_url, "timeout_seconds": self.timeout_seconds, "max_retries": self.max_retries}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Endpoint.__init__(self, **state)


def environment_url() -> str:
    """Return the address in `OPENAI_BASE_URL`, else that of OpenAI.

    Raises:
        ConfigError: the address is not an HTTP address.
    """
    return _checked_url(os.environ.get("OPENAI_BASE_URL") or OFFICIAL_URL)


def _same_address(url: str) -> bool:
    try:
        return url.rstrip("/") == environment_url().rstrip("/")
    except ConfigError:  # the environment's address is not usable
        return False


def transport_errors(name: str = "HTTPError") -> tuple[type[Exception], ...]:
    """Return httpx errors that `openai` before version 3 lets through once a stream has begun; empty without httpx."""
    httpx = sys.modules.get("httpx")
    return (getattr(httpx, name),) if httpx is not None else ()


def model_error(error: Exception, endpoint: Endpoint, *, model: str, started: bool = False) -> ModelError:
    """Translate an error of `endpoint` into a `ModelError`; raise it `from error`.

    `started`: part of the answer had arrived. The key is removed from `error` and its causes, because an endpoint may
    repeat the key in its refusal.
    """
    import openai

    # Before anything reads its text, which may be logged or shown.
    _scrub(error, endpoint)
    if isinstance(error, ModelError):
        return error
    # Timeouts first: they are connection errors too in the client's hierarchy.
    if isinstance(error, (openai.APITimeoutError, *transport_errors("TimeoutException"))):
        tries = endpoint.max_retries + 1
        tried = f" (tried {tries} times)" if tries > 1 and not started else ""
        return ModelTimeoutError(f"The model did not answer within {endpoint.timeout_seconds:g} s{tried}.")
    if isinstance(error, (openai.APIConnectionError, *transport_errors())):
        return _connection_error(error, endpoint, started)
    if isinstance(error, openai.APIStatusError):
        return _status_error(error, endpoint, model)
    if not isinstance(error, openai.APIError) or isinstance(error, openai.APIResponseValidationError):
        return ModelAnswerError(  # what reading a malformed answer raises: ValueError, AttributeError, TypeError
            f"{endpoint.address} answered with something else than the API would. Check that the address is that of an "
            "OpenAI-compatible API; most end in /v1."
        )
    reason = _reason(error)
    return ModelUnreachableError(f"{endpoint.host} broke off the answer: {reason}. Try again.")


def _connection_error(error: Exception, endpoint: Endpoint, started: bool) -> ModelError:
    # The client wraps the error of its transport, and only that one says what happened.
    cause = f"{error.__cause__!r}".lower()
    if "certificate" in cause:
        return ModelUnreachableError(
            f"The certificate of {endpoint.host} is not accepted. Install its authority, or change the address."
        )
    if started or "disconnected" in cause or "remoteprotocol" in cause or "readerror" in cause:
        return ModelUnreachableError(
            f"{endpoint.host} closed the connection before the answer was complete. Try again."
        )
    what_to_do = (
        "Check the network connection."
        if endpoint.address == OFFICIAL_URL
        else "Start the server or change the address."
    )
    return ModelUnreachableError(f"Nothing answers at {endpoint.address}. {what_to_do}")


def _status_error(error: Any, endpoint: Endpoint, model: str) -> ModelError:
    status = error.status_code
    host = endpoint.host
    reason = _reason(error)
    low = f"{reason} {error.code or ''}".lower()
    if status == 401:
        if not endpoint.has_key:
            where = "Set OPENAI_API_KEY." if endpoint.of_environment else "Give one with its address."
            return ModelKeyError(f"{host} asks for a key. {where}")
        return ModelKeyError(f"The key was refused by {host}. Check the key.")
    if status == 403:
        return ModelKeyError(f'{host} does not allow this key to use "{model}". Check the key and its rights.')
    # An exhausted plan has the same status as too many requests, but waiting does not help.
    if status == 429:
        if "quota" in low or "billing" in low:
            return ModelRateLimitError(f"No quota is left at {host}. Check the plan and its limits.")
        return ModelRateLimitError(f"{host} takes no more requests for now. Wait a minute and try again.")
    if status >= 500:
        return ModelUnreachableError(f"{host} failed (status {status}). Try again later.")
    # Endpoints report a long prompt with status 400 in words of their own.
    if status == 413 or "context_length" in low or "context length" in low or "too long" in low:
        return ModelRequestError(
            f'The request is too long for "{model}". Lower the token limit or choose another model.'
        )
    # Both an unknown model and a wrong path are 404.
    if status == 404:
        if "model" in low:
            return ModelRequestError(f'{host} does not know the model "{model}". Choose another model.')
        return ModelRequestError(f"{endpoint.address} is not the address of an API. Check it; most end in /v1.")
    return ModelRequestError(f"{host} refused the request (status {status}): {reason}")


def _reason(error: Exception) -> str:
    """Return the endpoint's error text, on one line and truncated."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    return shortened(" ".join(str(message or error).split()), REASON_CHARACTERS)


def _scrub(error: BaseException | None, endpoint: Endpoint) -> None:
    """Remove the key from the texts of an exception and of its causes."""
    # Chains of causes can be circular.
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.args = tuple(_scrubbed(part, endpoint) for part in error.args)
        # The client keeps the response in attributes as well; `doc` is the text of a JSON error.
        for name in ("message", "body", "doc"):
            if hasattr(error, name):
                setattr(error, name, _scrubbed(getattr(error, name), endpoint))
        error = error.__cause__ or error.__context__


def _scrubbed(value: Any, endpoint: Endpoint) -> Any:
    if isinstance(value, str):
        return endpoint.hide_key(value)
    if isinstance(value, dict):
        return {_scrubbed(name, endpoint): _scrubbed(item, endpoint) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(item, endpoint) for item in value]
    return value


def _checked_url(url: str) -> str:
    url = url.strip()
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is no number
        usable = False
    if not usable:
        # Without the part before the @, as it may hold a password.
        shown = url.rpartition("@")[2][:80]
        raise ConfigError(f'the address of the model must start with http:// or https://, not "{shown}"')
    return url


def _checked_key(key: str | None) -> str | None:
    key = (key or "").strip()
    # Such a key fails deep in the HTTP client with an error that quotes it.
    if not all("!" <= character <= "~" for character in key):
        raise ConfigError("the key holds a blank or a character that is not ASCII: copy it again")
    return key or None
