"""The conversations through Mem0, turn by turn, as its documentation has it. Run in an environment that has mem0ai."""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": mkdtemp(prefix="mem0-"), "OPENAI_API_KEY": "x"}

from conversations import Conversation
from mem0 import Memory
from mem0.exceptions import LLMError
from results import Known, main
from scripted_model import DIMENSIONS


def run(conversation: Conversation, url: str) -> Known:
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        model = {"provider": "openai", "config": {"openai_base_url": url}}
        store = {"path": str(Path(folder) / "qdrant"), "embedding_model_dims": DIMENSIONS}
        memory = Memory.from_config(
            {
                "llm": model,
                "embedder": model,
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": str(Path(folder) / "history.db"),
            }
        )
        for turn in conversation.turns:
            with suppress(LLMError):  # as an agent that answers all the same
                memory.add(list(turn), user_id="ada")
        known = memory.get_all(filters={"user_id": "ada"}, top_k=100)["results"]
        memory.close()
    return {"memories": sorted(entry["memory"] for entry in known)}


if __name__ == "__main__":
    main(run, "mem0ai")
