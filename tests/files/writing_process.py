"""A program that writes an OpenAI Agents session, to be read meanwhile: `python writing_process.py FILE MODE`.

`open` writes two items and keeps the file open; `locked` keeps it locked for itself; `busy` writes until it is told to
end, and fails where it ever finds the file locked.
"""

import json
import sqlite3
import sys
import threading


def main(path, mode):
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT)"
    )

    def say(number):
        data = json.dumps({"role": "user", "content": f"item {number}"})
        connection.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('s', ?)", (data,))

    for number in range(2):
        say(number)
    if mode == "locked":
        connection.execute("BEGIN EXCLUSIVE")
        say(2)
    print("ready", flush=True)
    if mode == "busy":
        connection.execute("PRAGMA wal_autocheckpoint=5")
        ended = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.readline(), ended.set()), daemon=True).start()
        number = 2
        while not ended.wait(0.01):
            say(number)
            number += 1
    else:
        sys.stdin.readline()
    if mode == "locked":
        connection.execute("COMMIT")
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
