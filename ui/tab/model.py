"""The chat model that answers in this browser, and the extractor that learns.

In order of precedence: what was pasted in the sidebar (this browser session only), Streamlit's secrets, the environment
(`OPENAI_...`), the offline responder.
"""

from dataclasses import dataclass

import streamlit as st

from memory_core import Services
from memory_core.models.offline.responder import OfflineResponder
from memory_core.models.openai_client import DEFAULT_MODEL, OpenAIChat
from memory_core.models.protocols import ChatModel
from ui.tab.people import obstacle
from ui.tab.services import engine

KEY, ADDRESS, NAME = "model__key", "model__address", "model__name"
"""Widget keys of the sidebar's fields; only in this browser session, never in the URL or the database."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model in use and the source of the choice."""

    model: ChatModel
    source: str
    pasted: bool = False
    """True if key or address were entered in this browser; the model must not be used for others."""

    @property
    def offline(self) -> bool:
        return self.model.offline


def chosen_model() -> Chosen:
    """The model of this browser session. Raises `ConfigError` if its address is invalid."""
    key = str(st.session_state.get(KEY) or "").strip()
    address = str(st.session_state.get(ADDRESS) or "").strip()
    name = str(st.session_state.get(NAME) or "").strip()
    # A viewer may not have the server ask an address of theirs, also where it was entered in a higher role; the key was
    # meant for that address and goes to no other. A local model needs no key, only an address.
    if (key or address) and not (address and obstacle()):
        return Chosen(_client(key, address, name), "Entered here, for this browser session.", pasted=True)
    secrets = _secrets()
    if secrets.get("OPENAI_API_KEY") or secrets.get("OPENAI_BASE_URL"):
        client = _client(
            secrets.get("OPENAI_API_KEY", ""), secrets.get("OPENAI_BASE_URL", ""), secrets.get("OPENAI_MODEL", "")
        )
        return Chosen(client, "From Streamlit's secrets.")
    chat = OpenAIChat.from_environment()
    if chat is not None:
        return Chosen(chat, "From the environment.")
    return Chosen(OfflineResponder(), "No key is set.")


def key_line(chosen: Chosen) -> str:
    """Describe which key is sent where: `The key entered here goes to api.openai.com.`"""
    assert isinstance(chosen.model, OpenAIChat)
    endpoint = chosen.model.endpoint
    if not endpoint.has_key:
        return f"No key is sent to {endpoint.host}."
    # The address alone may be typed: where it is that of the environment, the server's own key is sent to it.
    typed = chosen.pasted and str(st.session_state.get(KEY) or "").strip()
    return f"The key {'entered here' if typed else 'of the server'} goes to {endpoint.host}."


def services_for(chosen: Chosen) -> Services:
    """The server's services, learning with the chosen model."""
    if chosen.offline:
        return engine().services
    services = engine().services.with_chat(chosen.model)
    # Tried in one tab only: later processes must not wait for this model to learn.
    services.records_learners = False
    return services


def _client(key: str, address: str, name: str) -> OpenAIChat:
    return OpenAIChat(name or DEFAULT_MODEL, api_key=key or None, base_url=address or None)


def _secrets() -> dict[str, str]:
    """Values of the three supported names; empty if there is no secrets file."""
    from streamlit.errors import StreamlitSecretNotFoundError

    try:
        return {name: str(st.secrets[name]) for name in _SECRETS if name in st.secrets}
    except StreamlitSecretNotFoundError:
        return {}


_SECRETS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")
