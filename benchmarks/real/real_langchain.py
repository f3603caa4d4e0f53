"""The conversations through an agent with LangChain's summarisation. Run where langchain and langchain-openai are."""

import os

os.environ |= {"OPENAI_API_KEY": "x", "LANGSMITH_TRACING": "false"}

from conversations import FORECAST, Conversation
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import get_notification_metadata
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from results import Known, line, main

ROLES = {"human": "user", "ai": "assistant", "tool": "tool"}


@tool
def forecast(place: str) -> str:
    """The weather of a place."""
    return FORECAST


def run(conversation: Conversation, url: str) -> Known:
    """Sum up all but the newest turn, which `keep` and `trigger` are set to."""
    model = ChatOpenAI(model="m", base_url=url)
    summing = SummarizationMiddleware(model, trigger=("messages", 3), keep=("messages", 1))
    agent = create_agent(model, [forecast], middleware=[summing])
    messages: list[object] = []
    for turn in conversation.turns:
        asked = [*messages, {"role": "user", "content": turn[0]["content"]}]
        messages = agent.invoke({"messages": asked})["messages"]
    summaries = [message for message in messages if get_notification_metadata(message)]
    return {
        "summary": [message.text.partition("\n\n")[2] for message in summaries],
        "after the summary": [
            line(ROLES[message.type], message.text) for message in messages if message not in summaries
        ],
    }


if __name__ == "__main__":
    main(run, "langchain", "langchain-core")
