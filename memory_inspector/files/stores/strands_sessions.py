"""Sessions of Strands Agents in a folder: a conversation for each agent, a file for each message."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_core.bundles.archive import MAX_FILES
from memory_core.errors import MessageError
from memory_core.limits import MAX_FILE_BYTES, Budget
from memory_inspector.files.json_values import read_json
from memory_inspector.files.mirroring import MirroredBlock, TextVersion
from memory_inspector.files.stored import StoredConversation
from memory_inspector.files.stores.framework_states import Read, read_each

_NUMBER = re.compile(r"message_(\d+)\.json")


def sessions_of_strands(folder: Path) -> tuple[StoredConversation, ...]:
    """Return the conversations of a session's folder, or of a folder of sessions; none for other folders.

    Raises:
        FormatError: It holds too many or too large files.
        OSError: The folder cannot be read.
    """
    sessions = [folder] if (folder / "session.json").is_file() else sorted(folder.glob("session_*/"))
    budget = Budget(folder.name, items=MAX_FILES, bytes=MAX_FILE_BYTES)
    conversations = []
    for session in sessions:
        agents = [*_agents(session)] if (session / "session.json").is_file() else []
        name = session.name.removeprefix("session_")
        titles = {
            agent: name if len(agents) == 1 else f"{name} ({agent.name.removeprefix('agent_')})" for agent in agents
        }
        conversations += [_conversation(titles[agent], agent, budget) for agent in agents]
    return tuple(conversation for conversation in conversations if conversation.messages)


def _agents(session: Path) -> Iterator[Path]:
    for agent in sorted(session.glob("agents/agent_*/")):
        if not agent.is_symlink():
            yield agent


def _conversation(title: str, agent: Path, budget: Budget) -> StoredConversation:
    numbered = ((_NUMBER.fullmatch(file.name), file) for file in (agent / "messages").glob("message_*.json"))
    files = sorted((int(match[1]), match[0], file) for match, file in numbered if match)
    messages: list[Read] = []
    ends = [0]
    for _, name, file in files:
        stored = _object(file, budget)
        if stored is None:
            messages.append(MessageError(f"{name} is damaged, or no message"))
        else:
            # What a guardrail put in the place of a message is what the agent goes on with.
            redacted = stored.get("redact_message")
            messages += read_each([{**stored, "message": redacted} if isinstance(redacted, dict) else stored])
        ends.append(len(messages))
    about = _object(agent / "agent.json", budget) or {}
    state = about.get("conversation_manager_state")
    state = state if isinstance(state, dict) else {}
    removed = state.get("removed_message_count")
    summary = read_each([state["summary_message"]]) if isinstance(state.get("summary_message"), dict) else []
    texts = [TextVersion(read.content) for read in summary if not isinstance(read, MessageError) and read.content]
    return StoredConversation(
        title,
        tuple(messages),
        frozenset(range(ends[max(0, min(removed, len(files)))] if isinstance(removed, int) else 0)),
        blocks=(MirroredBlock("Summary", tuple(texts)),) if texts else (),
    )


def _object(file: Path, budget: Budget) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if there is none, also where it is a link or no ordinary file."""
    if file.is_symlink() or not file.is_file():
        return None
    budget.take(items=1, bytes=file.stat().st_size)
    value = read_json(file.read_bytes())
    return value if isinstance(value, dict) else None
