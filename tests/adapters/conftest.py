"""What drives a framework that the suite does not install belongs to `make adapters`, which installs all of them."""

import os

collect_ignore = (
    []
    if os.environ.get("MEMORY_INSPECTOR_ADAPTERS")
    else [
        "test_agno_memories.py",
        "test_examples.py",
        "test_google_adk_memory.py",
        "test_langchain_agent.py",
        "test_langgraph_agent.py",
        "test_mem0.py",
        "test_openai_agents_session.py",
        "test_planted_losses.py",
        "test_pydantic_ai_memory.py",
    ]
)
