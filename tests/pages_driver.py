"""How tests open pages in this process, find what is on them and press it."""

import re
import time
from pathlib import Path

from streamlit.testing.v1 import AppTest

from ui.tab import services

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 60
MENU = ("Chat", "Context", "Timeline", "Blocks", "Facts", "Graph", "Retrieval")


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


def read(drawn):
    """The import dialog, drawn again until its file has been read."""
    return drawn_until(drawn, lambda: not any("Reading " in each.value for each in drawn.markdown))


def drawn_until(drawn, ready):
    """Something that is drawn again and again until a condition holds: what it began may take some drawings."""
    until = time.monotonic() + SECONDS
    while not ready():
        assert time.monotonic() < until
        drawn.run()
    return drawn


def opened_by(drawn):
    """The session that a dialog made, which it may take some drawings to open."""
    drawn_until(drawn, lambda: "session" in drawn.session_state)
    return drawn.session_state["session"]


def with_toasts(module, name, *args):
    """Like `dialog`, with what was done said beside it."""

    def script(module, name, args):
        import importlib

        from ui.parts import toasts

        toasts.draw()
        getattr(importlib.import_module(module), name)(*args)

    return AppTest.from_function(script, args=(module, name, args), default_timeout=SECONDS).run()


def said(app):
    """What the toast says, escapes taken out."""
    return [each.value.replace("\\", "") for each in (*app.success, *app.warning)]


def button(app, words):
    """The first button whose label holds these words."""
    found = [each for each in app.button if words in each.label.replace("\\", "")]
    assert found, f"no button says {words!r}: {[each.label for each in app.button]}"
    return found[0]


def field(app, words):
    """The number field of this label."""
    return next(each for each in app.number_input if each.label == words)


def menu(app):
    """The menu's lines: the label of each with the parameters of its address."""
    drawn = [each.proto for each in app.sidebar.get("page_link")]
    return {line.label: line.query_string for line in drawn if line.icon and line.label in MENU}


def turn_picked(app):
    """The turn in the header's picker; None for the latest."""
    return next(each for each in app.selectbox if each.label == "Turn").value


def session_picker(app):
    """The session picker in the sidebar."""
    return next(each for each in app.selectbox if each.label == "Session")


def press(app, words):
    """Press a button, and draw again when what it began has ended."""
    before = job_of(app)
    return settled(button(app, words).click().run(), before)


def job_of(app):
    """What ran last for the session that is shown; None for a dialog alone."""
    session_id = app.session_state["session"] if "session" in app.session_state else None  # noqa: SIM401  (no mapping)
    return services.engine().job(session_id)


def settled(app, before=None):
    """The page as it is drawn when what was begun since `before` has ended, and everything that waited for it."""
    job, shared = job_of(app), services.engine()
    if job is None or (job is before and job.done):
        return app
    session_id = app.session_state["session"]
    while shared.running(session_id) or shared.waiting(session_id):
        assert shared.job(session_id).wait(SECONDS)
    return app.run()


def joined(app):
    """All markdown of the page, and what buttons say, as one text with the escapes taken out."""
    texts = [each.value for each in app.markdown] + [each.label for each in app.button]
    return as_read("\n".join(texts))


def as_read(markdown):
    """Markdown without its escapes and without the explanations of its words."""
    return re.sub(r"\[(\w+)\]\(#\w+ \"[^\"]*\"\)", r"\1", markdown).replace("\\", "")


def message_texts(app):
    """The bodies of the messages that are drawn."""
    return [each.value for each in app.text]


def story(app):
    """The lines of what memory did, escapes taken out."""
    values = [as_read(each.value) for each in app.markdown]
    start = next(place for place, value in enumerate(values) if "**What memory did" in value)
    return [value for value in values[start + 1 :] if value.startswith(":small[:material/")]


def numbers(text):
    """The whole numbers of a text."""
    return [int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", text)]


def table(app):
    """The budget's rows: name, tokens granted, note."""
    (html,) = [each.proto.body for each in app.get("html") if each.proto.body.startswith("<table")]
    rows = re.findall(r"</span> (.*?)</th><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td>", html)
    rows = [[re.sub(r"<.*?>", "", cell) for cell in row] for row in rows]
    return [{"name": name, "tokens": numbers(granted)[0], "note": note} for name, granted, note in rows]


def budget_title(app):
    """What stands beside the title of the budget: tokens sent, and the limit."""
    values = [each.value for each in app.markdown]
    return values[1 + next(place for place, value in enumerate(values) if "**Token budget" in value)]


def notice(app):
    """What a callback left to be said on the next drawing: kind and sentence."""
    left = app.session_state["notice"]
    return left.kind, left.text
