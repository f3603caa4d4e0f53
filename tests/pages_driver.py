"""How tests open pages in this process, find what is on them and press it."""

import re
from pathlib import Path

from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 60


def opened(*, page=None, theme="light", **query):
    """The app, drawn once, at an address with these parameters; `page` by the name of its file, Chat without one."""
    test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=SECONDS)
    test.context = {"theme": theme}
    for name, value in query.items():
        test.query_params[name] = value
    test.run()
    if page is None:
        return test
    test.switch_page(f"pages/{page}.py")  # only once the app has told which pages there are
    for name, value in query.items():
        test.query_params[name] = value
    return test.run()


def dialog(module, name, *args):
    """One dialog by itself. It is opened again at every drawing, so its fields can be filled one after another."""

    def script(module, name, args):
        import importlib

        getattr(importlib.import_module(module), name)(*args)

    return AppTest.from_function(script, args=(module, name, args), default_timeout=SECONDS).run()


def button(app, words):
    """The first button whose label holds these words."""
    found = [each for each in app.button if words in each.label]
    assert found, f"no button says {words!r}: {[each.label for each in app.button]}"
    return found[0]


def field(app, words):
    """The number field of this label."""
    return next(each for each in app.number_input if each.label == words)


def press(app, words):
    """Press a button and draw until what it began has ended."""
    return button(app, words).click().run()


def joined(app):
    """All markdown of the page, and what buttons say, as one text with the escapes taken out."""
    texts = [each.value for each in app.markdown] + [each.label for each in app.button]
    return "\n".join(texts).replace("\\", "")


def message_texts(app):
    """The bodies of the messages that are drawn."""
    return [each.value for each in app.text]


def story(app):
    """The lines of what memory did, escapes taken out."""
    values = [each.value.replace("\\", "") for each in app.markdown]
    start = next(place for place, value in enumerate(values) if value.startswith("**What memory did"))
    return [value for value in values[start + 1 :] if value.startswith(":small[:material/")]


def numbers(text):
    """The whole numbers of a text."""
    return [int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", text)]


def table(app):
    """The budget's rows: name, tokens granted, note."""
    rows = app.table[0].value.to_dict("records")
    return [
        {
            "name": row["part"].split("\N{NO-BREAK SPACE}", 1)[1],
            "tokens": numbers(row["tokens"])[0],
            "note": row["note"],
        }
        for row in rows
    ]


def budget_title(app):
    """What stands beside the title of the budget: tokens sent, and the limit."""
    values = [each.value for each in app.markdown]
    return values[1 + next(place for place, value in enumerate(values) if value.startswith("**Token budget"))]


def notice(app):
    """What a callback left to be said on the next drawing: kind and sentence."""
    left = app.session_state["notice"]
    return left.kind, left.text
