#!/usr/bin/env bash
# Expect a summary that an agent wrote to stay apart from what the user said.
# Get a HumanMessage from SummarizationMiddleware. Its mark (lc_source) is lost on the way through
# OpenAI's shape, and the prompt of the next summary shows the former one as type="human".
# Hits whoever learns facts from what users say: a guess of the assistant that got into a summary
# is the user's own statement one summary later, and in every exported history.
# Seen with langchain 1.5.2 and langchain-core 1.8.3 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check langchain==1.5.2 langchain-core==1.8.3

LANGSMITH_TRACING=false "$work/venv/bin/python" -W ignore - <<'PY'
from importlib.metadata import version

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    convert_to_messages,
    convert_to_openai_messages,
    get_notification_metadata,
)

GUESS = "The assistant supposes that Ada moved to Oslo."
prompts = []


class Summariser(GenericFakeChatModel):
    def _generate(self, messages, *args, **kwargs):
        prompts.append(messages[0].content)
        return super()._generate(messages, *args, **kwargs)


summariser = Summariser(messages=iter([AIMessage(GUESS), AIMessage("Ada asks about herself.")]))
summaries = SummarizationMiddleware(summariser, trigger=("messages", 4), keep=("messages", 2))
answers = GenericFakeChatModel(messages=iter([AIMessage("Not much."), AIMessage("Still not.")]))
agent = create_agent(answers, [], middleware=[summaries])

print("langchain", version("langchain"), "- langchain-core", version("langchain-core"))
print("documented: langchain_core.messages.notification gives lc_source to human messages that the")
print("            user did not type, so that readers can tell them apart")
said = [
    HumanMessage("I am Ada."),
    AIMessage("Hello Ada, how is Oslo?"),
    HumanMessage("I never spoke of Oslo."),
    AIMessage("Noted."),
    HumanMessage("What do you know of me?"),
]
history = agent.invoke({"messages": said})["messages"]
summary = history[0]
print(f"  stored:       {type(summary).__name__}, {summary.additional_kwargs}")
assert isinstance(summary, HumanMessage) and GUESS in summary.content
assert get_notification_metadata(summary) == {"source": "summarization"}

exported = convert_to_openai_messages(history)
print(f"  exported:     {exported[0]}")
assert exported[0] == {"role": "user", "content": summary.content}
assert get_notification_metadata(convert_to_messages(exported)[0]) is None

agent.invoke({"messages": [*history, HumanMessage("And now?")]})
again = [line for line in prompts[1].splitlines() if line.startswith("<message ")][0]
print(f"  next summary: {again}")
assert again.startswith('<message type="human">Here is a summary')
assert GUESS in prompts[1] and "lc_source" not in prompts[1]
print("seen: what the model wrote comes back as what the human said")
PY
