"""A LangGraph graph on a store whose items are facts: notes of one thread are found in another, searches recorded.

pip install 'memory-inspector[langgraph]' langgraph langchain-openai
OPENAI_API_KEY=... python langgraph_store.py    # OPENAI_BASE_URL and OPENAI_MODEL name another endpoint and model
"""

import os
import uuid

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.base import BaseStore

from memory_inspector.adapters.langgraph import InspectedStore

NAMESPACE = ("users", "ana")
model = ChatOpenAI(model=os.environ.get("OPENAI_MODEL", "gpt-4o-mini"))


def remember(state: MessagesState, *, store: BaseStore) -> None:
    """Keep what the user says about herself, as the model words it."""
    task = "Repeat what the message says about its author as one short sentence, or answer NONE:\n"
    note = model.invoke(task + state["messages"][-1].text).text.strip()
    if note != "NONE":
        store.put(NAMESPACE, str(uuid.uuid4()), {"text": note})


def answer(state: MessagesState, *, store: BaseStore) -> dict[str, list]:
    """Answer with the notes that fit the question."""
    notes = [item.value["text"] for item in store.search(NAMESPACE, query=state["messages"][-1].text, limit=3)]
    system = "You help to plan a dinner. Answer in one sentence. About the user:\n" + "\n".join(notes)
    return {"messages": [model.invoke([("system", system), *state["messages"]])]}


store = InspectedStore(database_uri="sqlite:///agent.db", session_id="langgraph", fields=["text"])
builder = StateGraph(MessagesState)
builder.add_node(remember)
builder.add_node(answer)
builder.add_edge(START, "remember")
builder.add_edge("remember", "answer")
builder.add_edge("answer", END)
graph = builder.compile(store=store)

for message in ("Hello! I am allergic to nuts.", "Can I try the pesto that Rui brings?"):  # two threads
    result = graph.invoke({"messages": [("user", message)]})
    print(f"> {message}\n{result['messages'][-1].text}\n")

memory = store.memory  # the engine's own object, with everything that the app shows
for record in memory.events(kinds=["facts_read"]):
    [question] = memory.log.texts([record.event.query]).values()
    print(f"{record.event.found} found for: {question}")
print("Facts:", [fact.text for fact in memory.facts.read("items")])
memory.close()
print("Open it in the app: memory-inspector --database agent.db")
