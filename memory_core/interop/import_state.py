"""A conversation of another store as a session in the state it has there, instead of being played.

Its queue is the queue, its archive the archive, its memory blocks are static blocks with every version they had.
"""

import uuid

from memory_core.attach.mirroring import mirror
from memory_core.blocks import StaticMemoryBlock
from memory_core.config import MemoryConfig
from memory_core.curation.settings import add_block
from memory_core.engine.queue import fill
from memory_core.engine.reconcile import create_or_join
from memory_core.engine.session import Session
from memory_core.events import SessionImported
from memory_core.interop.openai_format import Conversation
from memory_core.memory import Memory
from memory_core.recipes import RECIPES
from memory_core.services import Services
from memory_core.store.database import Database


def import_standing(
    conversation: Conversation, database: Database, *, services: Services, source: str, learn: bool = True
) -> Memory:
    """Create a session in the state of a conversation's store.

    The blocks that learn are those of its recipe (see `recipe_for`), and empty; with `learn` they are due the
    archive, as all that leaves a queue is. `source`: where it comes from, in words.

    Raises:
        MessageError: a message cannot be stored.
        ConfigError: a block cannot be made.
        StoreError: the database cannot be reached.
    """
    session = Session(database, uuid.uuid4().hex[:12], services=services)
    made = RECIPES[recipe_for(conversation)].made()
    begun = SessionImported(source=source, messages=len(conversation.messages), skipped=len(conversation.skipped))
    config = {**made.settings, "token_limit": token_limit(conversation)}
    create_or_join(session, title=conversation.title, user_id=None, config=config, blocks=[], begun=begun)
    mirror(session, conversation.messages, archived=conversation.archived, blocks=conversation.blocks)
    with session.changing() as w:
        for block in made.blocks:
            if not isinstance(block, StaticMemoryBlock):
                add_block(session, w, block, "user")
        if learn:
            for attached in session.blocks:
                fill(session, w, attached)
    return Memory(session)


def recipe_for(conversation: Conversation) -> str:
    """Key of the recipe that a conversation's store is nearest to: self-editing where it has blocks of its own."""
    return "self_editing" if conversation.blocks else "blocks"


def token_limit(conversation: Conversation) -> int:
    """Token limit of a session that stands as the store does: the store's, or the default."""
    return conversation.token_limit or MemoryConfig().token_limit
