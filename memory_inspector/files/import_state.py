"""Import a conversation with its memory state, without replaying it.

Queue and archive are taken over; memory blocks become static blocks with all their versions.
"""

import uuid

from memory_core.blocks import StaticMemoryBlock
from memory_core.config import MemoryConfig
from memory_core.curation.settings import add_block
from memory_core.engine.queue import fill
from memory_core.engine.reconcile import create_or_join
from memory_core.engine.session import Session
from memory_core.events import SessionImported
from memory_core.memory import Memory
from memory_core.recipes import RECIPES
from memory_core.services import Services
from memory_core.store.database import Database
from memory_inspector.files.mirroring import mirror
from memory_inspector.files.openai_format import Conversation


def import_with_state(
    conversation: Conversation, database: Database, *, services: Services, source: str, learn: bool = True
) -> Memory:
    """Create a session in the state of a conversation's store.

    Learning blocks come from its recipe (see `recipe_for`) and start empty; with `learn` the archive is queued for
    them, like any flushed messages. `source`: description of the origin.

    Raises:
        MessageError: A message cannot be stored.
        ConfigError: A block cannot be made.
        StoreError: The database cannot be reached.
    """
    session = Session(database, uuid.uuid4().hex[:12], services=services)
    made = RECIPES[recipe_for(conversation)].made()
    begun = SessionImported(source=source, messages=len(conversation.messages), skipped=len(conversation.skipped))
    config = {**made.settings, "token_limit": token_limit(conversation)}
    # 1. An empty session with the recipe's settings, and the limit under which the store worked.
    create_or_join(session, title=conversation.title, user_id=None, config=config, blocks=[], begun=begun)
    # 2. The store's queue, archive and texts. Mirroring delivers nothing to blocks.
    mirror(session, conversation.messages, archived=conversation.archived, blocks=conversation.blocks)
    # 3. The recipe's learning blocks only: fixed texts come from the store.
    with session.changing() as w:
        for block in made.blocks:
            if not isinstance(block, StaticMemoryBlock):
                add_block(session, w, block, "user")
        if learn:
            for attached in session.blocks:
                fill(session, w, attached)
    return Memory(session)


def recipe_for(conversation: Conversation) -> str:
    """Return the key of the closest recipe: `self_editing` if the store has memory blocks, otherwise `blocks`."""
    return "self_editing" if conversation.blocks else "blocks"


def token_limit(conversation: Conversation) -> int:
    """Return the store's token limit, or the default."""
    return conversation.token_limit or MemoryConfig().token_limit
