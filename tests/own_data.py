"""Conversations and stores of our own, in the forms of the real ones, for tests that run without those.

Everything in here was made up for this project. `write(folder)` writes the files that `data_file` hands out.
"""

import itertools
import json
import sqlite3
from contextlib import closing

# -- two people, over a year: names, dates, changes of mind, three scripts ------------------------------

ASKING, ANSWERING = "Imke", "Tomas"

TALK = """
Hi Tomas! I have moved. I live in Ghent now, near the old docks.
Good to hear from you! Was that in March? I thought the flat was ready on the 3rd.
It was ready on 14 March 2025. My new address is Dok Noord 7.
Then I owe you a plant. Do you have light on the balcony?
Lots of it. I am allergic to hazelnuts though, so no hazel bush please.
Noted, no hazel. A fig, then. Figs like docks.
My sister Ilse comes on Friday. She is a nurse in Bruges.
Say hello to her. Is she still afraid of ferries?
Terribly. She takes the train at 18:42 and changes in Kortrijk.
I still repair violins, by the way. A cello came in on Tuesday.
How much is a new bridge for a violin? Mine has a crack.
Between 60 and 95 euros, with the fitting. Bring it before noon.
I work as a surveyor for the port authority since 1 April.
So you measure the quays? That explains the boots.
Every quay from Darsen to Rodenhuize, 31 kilometres of it.
Bring me a map when you are through.
What was the name of your workshop again? I need it for the parcel.
Klankhout, in the Sint-Jansstraat. Number 12, not 21.
I told Ilse 21. She will laugh.
Everybody goes to 21 first. It is a bakery.
I do not like coffee any more. I drink green tea in the mornings.
Since when? You used to live on espresso.
Since the doctor in Aalst told me so, on 6 May.
Then I buy the Sencha from the shop at the station.
My bicycle was stolen. It was a red Gazelle with a dented bell.
I am sorry. Did you report it? The police keep a list.
Yes, the number of the report is 2025-4471.
Write the frame number under it, they forget to ask.
Γεια σου, τι κάνεις; Μαθαίνω ελληνικά.
Καλά είμαι! Από πότε μαθαίνεις;
Από τον Ιούνιο. Η δασκάλα μου λέγεται Ελένη.
Μπράβο, συνέχισε έτσι.
My Greek class is every Monday at 19:30 in the library.
Then Mondays are out for quartet practice.
Wednesdays are better. I play the second violin.
I wrote it down: Wednesdays, second violin, in the workshop.
来月、京都へ行きます。
いいですね。何日に出発しますか。
十月九日に出発します。兄のケンジに会います。
お兄さんによろしく伝えてください。
I bought a blue bicycle yesterday, a Koga, for 640 euros.
A good choice. Insure it this time.
I no longer live in Ghent. I live in Antwerp since 2 September.
Already? You had only just hung the lamps.
The port moved my desk. My new address is Cadixstraat 40.
The violin is ready. It was 85 euros in the end.
Can I pay it on Wednesday? I forgot my wallet in Antwerp.
Of course. The bow is rehaired as well.
I am not allergic to hazelnuts after all, the test said almonds.
So hazelnuts are fine and almonds are not?
Exactly. I am allergic to almonds.
Then no marzipan for you in December.
My dog is called Pixel. He is a grey whippet, two years old.
A whippet on the quays! Does he chase gulls?
He is afraid of gulls. He sleeps under my drawing table.
We have that in common.
Ilse has a new job in Leuven. She starts on 1 November.
At the university hospital? That is a long way from Bruges.
Yes, in cardiology. She moves on the 28th.
I can lend her the van, it is free that week.
Where is the concert? I have only the date, 13 December.
In the chapel of the Elzenveld, at 20:00. Doors at 19:15.
I sold the blue bicycle. I walk with Pixel now.
Four legs and four strings. What more do you need?
My mother turns seventy on 22 January. She wants a boat trip.
On the Scheldt in January? Take blankets.
""".strip().splitlines()

_NAMES = ("Anneke", "Bram", "Cato", "Dirk", "Elif", "Farid", "Greet", "Hugo", "Ines", "Joris", "Katrien", "Lars")
_PLACES = ("Ostend", "Lier", "Namur", "Mons", "Tienen", "Dinant", "Veurne", "Genk", "Ypres", "Spa")
_THINGS = ("tide gauge", "theodolite", "survey boat", "drone", "level", "echo sounder", "field book", "buoy", "chart")
_STRINGS = ("viola", "cello", "lute", "fiddle", "double bass", "guitar", "mandolin")


def weeks():
    """A year of weeks of which the two tell each other, four lines a week."""
    said = []
    for week in range(1, 61):
        name, other = _NAMES[week % 12], _NAMES[(week * 5 + 3) % 12]
        place, thing, strings = _PLACES[week % 10], _THINGS[week % 9], _STRINGS[week % 7]
        said += [
            f"In week {week} I measured in {place} with {name}. We left the {thing} in locker {week * 7 % 90}.",
            f"And I had a {strings} on the bench that {other} brought from {place}. It took {week % 5 + 2} days.",
            f"{name} asked what {week * 3} metres of gut cost. Do you know it for a {strings}?",
            f"About {week * 4 + 11} euros. {other} pays less, as a member since {1990 + week % 30}.",
        ]
    return said


def lines():
    """Everything that the two said, in order: the talk, with a week after every four lines of it."""
    said, later = [], weeks()
    for start in range(0, len(TALK), 4):
        said += [*TALK[start : start + 4], *later[start : start + 4]]
    return said + later[start + 4 :]


def conversation():
    """The talk in sessions of twenty lines with speakers, as datasets of two people's talk have it."""
    sessions = {}
    everything = lines()
    for number, start in enumerate(range(0, len(everything), 20), 1):
        sessions[f"session_{number}_date_time"] = f"7:05 pm on {number} May, 2025"
        sessions[f"session_{number}"] = [
            {"speaker": (ASKING, ANSWERING)[place % 2], "dia_id": f"D{number}:{place + 1}", "text": text}
            for place, text in enumerate(everything[start : start + 20])
        ]
    return {"speaker_a": ASKING, "speaker_b": ANSWERING, **sessions}


# -- people and their assistant --------------------------------------------------------------------------

PEOPLE = {
    "Imke": [
        "Good morning. What can you do for me?",
        "I live in Ghent.",
        "My sister is called Ilse and she lives in Bruges.",
        "I am allergic to almonds.",
        "What should I cook tonight?",
        "I work as a surveyor.",
        "I like green tea.",
        "My dog is called Pixel.",
        "Can you remind me of the dentist?",
        "I play the violin.",
    ],
    "Kenji": [
        "Hello there, it is raining here again.",
        "I work as a baker.",
        "How long does dough rest in winter?",
        "I live in Kyoto.",
        "My wife is called Aiko.",
        "I am learning Dutch.",
        "I like long trains and short meetings.",
        "Which train goes to Nara before nine?",
        "I have two daughters.",
        "I hate being late.",
    ],
    "Eleni": [
        "Is it too early to plan the summer?",
        "I teach Greek.",
        "I live in Patras.",
        "My favourite island is Ikaria.",
        "What do students forget first?",
        "I am vegetarian.",
        "My brother is called Petros.",
        "I like swimming at six in the morning.",
        "Do ferries run on Mondays?",
        "I want to visit Antwerp in October.",
    ],
}


def people():
    """Of each person days of questions and answers: ten of the table above, and what follows from the talk."""
    later, found = weeks(), {}
    for number, (name, first) in enumerate(PEOPLE.items()):
        said = [(text, f"I see, {name}. Anything else?") for text in first]
        own = later[number * 80 : number * 80 + 80]
        said += zip(own[::2], own[1::2], strict=True)
        days = [said[start : start + 5] for start in range(0, len(said), 5)]
        history = {
            f"2025-05-{day:02}": [{"query": query, "response": answer} for query, answer in entries]
            for day, entries in enumerate(days, 1)
        }
        found[name] = {"history": history}
    return found


def scenarios():
    """A hundred and twenty quotes of conversations that nobody of the above had."""
    who = (
        "The glassblower",
        "Our bassoonist",
        "My locksmith",
        "Their beekeeper",
        "A cartographer",
        "The ventriloquist",
    )
    did = ("forgave", "outwitted", "photographed", "sculpted")
    whom = ("seven flamingos", "the unicorn", "a walrus", "nine trombones", "the sphinx")
    for first, second, third in itertools.product(who, did, whom):
        yield {"operations": [{"trigger_span": {"quote": f"{first} {second} {third} beneath Kilimanjaro"}}]}


# -- an agent with tools ---------------------------------------------------------------------------------


def call(id, name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


def result(id, name, value):
    return {"role": "tool", "tool_call_id": id, "name": name, "content": json.dumps(value)}


def trajectory(number, rounds):
    """A customer rents bicycles; in each round the agent looks, asks the price, and answers."""
    messages = [
        {
            "role": "system",
            "content": "You rent bicycles at the quay of Ghent.\n"
            + "Ask for the day before you book. Never rent out a bicycle that is due for repair. " * 6,
        }
    ]
    checked = "brakes checked, lamps checked " * 20
    for place in range(rounds):
        day, bike = f"2025-07-{(number + place) % 28 + 1:02}", f"K{number:02}-{place:02}"
        look, price = f"call_{number}_{place}_a", f"call_{number}_{place}_b"
        name = _NAMES[(number + place) % 12]
        pasted = "The rules say: lock it, lend it to nobody, bring it back dry. " * 80 if place % 4 == 3 else ""
        messages += [
            {"role": "user", "content": f"This is {name}. I need a bicycle on {day}, and a child's seat. {pasted}"},
            call(look, "find_bicycles", day=day, seats=1),
            result(look, "find_bicycles", {"free": [bike, f"{bike}-spare"], "note": checked}),
            call(price, "price_of", bicycle=bike, days=place + 1),
            result(price, "price_of", {"euros": 14 * (place + 1), "deposit": 50}),
            {"role": "assistant", "content": f"{bike} is free on {day}. It costs {14 * (place + 1)} euros, {name}."},
        ]
    return [*messages, {"role": "user", "content": "Thank you, that is all."}]


# -- stores of other libraries -----------------------------------------------------------------------------

ITEMS = [
    {"role": "user", "content": "I am allergic to almonds. Which tide?"},
    *(
        {
            "type": "function_call",
            "id": f"fc_{place}",
            "call_id": f"call_{place}",
            "name": "tide",
            "arguments": json.dumps({"place": place}),
        }
        for place in ("Antwerp", "Ostend")
    ),
    {"type": "function_call_output", "call_id": "call_Antwerp", "output": "High in Antwerp"},
    {"type": "function_call_output", "call_id": "call_Ostend", "output": "Low in Ostend"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "High, then low.", "annotations": [], "logprobs": []}],
    },
    {"role": "user", "content": "明日は？"},
]


def agents_session():
    rows = [("conv1", item) for item in ITEMS] + [("conv2", item) for item in ITEMS[:1]]
    return (
        "CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP, updated_at TIMESTAMP);"
        "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, "
        "message_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);"
        "INSERT INTO agent_sessions (session_id) VALUES ('conv1'), ('conv2');",
        "INSERT INTO agent_messages (session_id, message_data) VALUES (?, ?)",
        [(session, json.dumps(item)) for session, item in rows],
    )


LANGCHAIN = [
    {"type": "human", "data": {"content": "hello", "type": "human"}},
    {"type": "ai", "data": {"content": "hi", "type": "ai", "tool_calls": []}},
]


def langchain_history():
    return (
        "CREATE TABLE message_store (id INTEGER PRIMARY KEY, session_id TEXT, message TEXT);",
        "INSERT INTO message_store (session_id, message) VALUES ('s1', ?)",
        [(json.dumps(message),) for message in LANGCHAIN],
    )


def mem0_history():
    table = "CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT);"
    first, then = "Lives in Ghent near the docks", "Lives in Antwerp"
    rows = [
        ("h1", "a", None, first, "ADD"),
        ("h2", "b", None, "Drinks green tea", "ADD"),
        ("h3", "a", first, then, "UPDATE"),
        ("h4", "c", None, "Πηγαίνει σε μάθημα ελληνικών", "ADD"),
    ]
    return table, "INSERT INTO history VALUES (?, ?, ?, ?, ?)", rows


def agno():
    call = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": '{"place": "Ostend"}'}}
    runs = {
        "monday": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "My name is Imke and I live in Ghent. Tide?"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "Low in Ostend"},
            {"role": "assistant", "content": "Low, Imke."},
        ],
        "tuesday": [{"role": "user", "content": "Who am I?"}, {"role": "assistant", "content": "Imke."}],
    }
    tables = (
        "CREATE TABLE agno_sessions (session_id TEXT PRIMARY KEY, session_type TEXT NOT NULL, agent_id TEXT, "
        "user_id TEXT, session_data JSON, created_at BIGINT, updated_at BIGINT);"
        "CREATE TABLE agno_memories (memory_id TEXT PRIMARY KEY, memory JSON, user_id TEXT, topics JSON, "
        "created_at BIGINT, updated_at BIGINT);"
        "CREATE TABLE agno_runs (run_id TEXT PRIMARY KEY, session_id TEXT NOT NULL, run_type TEXT NOT NULL, "
        "user_id TEXT, parent_run_id TEXT, status TEXT, run_index BIGINT, run_data JSON NOT NULL, created_at BIGINT);"
        "INSERT INTO agno_sessions VALUES ('monday', 'agent', 'a', 'imke', '{}', 1, 1), "
        "('tuesday', 'agent', 'a', 'imke', '{}', 2, 2);"
        """INSERT INTO agno_memories VALUES ('m1', '"Imke lives in Ghent"', 'imke', '["home"]', 1, 1);"""
    )
    rows = [
        (name, name, json.dumps({"run_id": name, "session_id": name, "messages": messages}))
        for name, messages in runs.items()
    ]
    return tables, "INSERT INTO agno_runs VALUES (?, ?, 'agent', 'imke', NULL, 'COMPLETED', 0, ?, 1)", rows


def langgraph():
    import msgpack  # of the extra `stores`, which not every environment of `make` has

    def message(kind, name, **fields):
        return msgpack.ExtType(
            5, msgpack.packb([f"langchain_core.messages.{kind}", name, {"type": kind, **fields}, "model_validate_json"])
        )

    calls = [{"id": "c1", "name": "tide", "args": {"place": "Ostend"}}]
    said = [
        message("human", "HumanMessage", id="1", content="I am allergic to almonds. Tide?"),
        message("ai", "AIMessage", id="2", content="", tool_calls=calls),
        message("tool", "ToolMessage", id="3", content="Low in Ostend", tool_call_id="c1"),
        message("ai", "AIMessage", id="4", content="Low."),
    ]
    state = msgpack.packb({"v": 4, "ts": "2026-11-22T14:01:26+00:00", "id": "x", "channel_values": {"messages": said}})
    table = (
        "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_checkpoint_id TEXT, "
        "type TEXT, checkpoint BLOB, metadata BLOB);"
    )
    return table, "INSERT INTO checkpoints VALUES ('t1', '', '1', NULL, 'msgpack', ?, NULL)", [(state,)]


def agent_file():
    """An agent file with a call, its result, nine blocks and nine tools."""
    about = {
        "id": "block-0",
        "label": "about_user",
        "value": ("Imke measures quays. " * 12)[:241],
        "limit": 20_000,
        "read_only": False,
    }
    names = ("scratchpad", "tone", "tides", "quays", "people", "boats", "plans", "doubts")
    others = [{**about, "id": f"block-{n}", "label": name, "value": "-"} for n, name in enumerate(names, 1)]
    call = {"id": "c1", "function": {"name": "send_message", "arguments": '{"message": "Welcome back."}'}}
    text = [{"type": "text", "text": "You are Loop. You measure quays."}]
    messages = [
        {"id": "message-0", "role": "system", "content": text},
        {"id": "message-1", "role": "assistant", "content": [], "tool_calls": [call]},
        {"id": "message-2", "role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "OK"}]},
    ]
    agent = {
        "name": "Loop",
        "system": "You are Loop. You measure quays.",
        "block_ids": [block["id"] for block in (about, *others)],
        "messages": messages,
        "in_context_message_ids": [each["id"] for each in messages],
        "llm_config": {"model": "scripted", "context_window": 90_000},
    }
    return {"agents": [agent], "blocks": [about, *others], "tools": [{"name": f"tool_{n}"} for n in range(9)]}


DATABASES = {
    "oa_session.db": agents_session,
    "lc_history.db": langchain_history,
    "mem0_history.db": mem0_history,
    "agno.db": agno,
    "lg_checkpoints.db": langgraph,
}


def write(folder):
    """Write every file in the place that the real one of its form has."""
    one = trajectory(0, 10)
    texts = {
        "locomo/locomo5.json": [{"sample_id": "own", "conversation": conversation()}],
        "memorybank/memory_bank_en.json": people(),
        "tau-bench/airline_100.json": [{"traj": trajectory(n, 2 + n % 4)} for n in range(12)],
        "tau-bench/one_conversation.json": one,
        "stores/oa_items.json": ITEMS,
        "stores/lc_messages.json": LANGCHAIN,
        "stores/loop.af": agent_file(),
        "stores/customer_service.af": agent_file(),
    }
    written = {name: json.dumps(value, ensure_ascii=False) for name, value in texts.items()}
    written["memops/memops_half.jsonl"] = "\n".join(map(json.dumps, scenarios()))
    written["tau-bench/one_conversation.jsonl"] = "\n".join(map(json.dumps, one))
    for name, text in written.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name, make in DATABASES.items():
        tables, insert, rows = make()
        with closing(sqlite3.connect(folder / "stores" / name)) as connection, connection:
            connection.executescript(tables)
            connection.executemany(insert, rows)
