"""Base classes of learners: fixed rules or a chat model, with the attributes that each kind declares."""

from memory_core.models.base import ChatModel


class RuleBased:
    """Works by fixed rules, without a language model."""

    @property
    def name(self) -> str:
        return "offline rules"

    @property
    def offline(self) -> bool:
        return True


class ModelBased:
    """Works with a chat model."""

    def __init__(self, chat: ChatModel) -> None:
        self.chat = chat

    @property
    def name(self) -> str:
        return self.chat.name

    @property
    def offline(self) -> bool:
        return self.chat.offline
