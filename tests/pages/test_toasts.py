"""A change answers with one sentence and a way back, which is taken once and never in another session."""

from pages_driver import SECONDS
from streamlit.testing.v1 import AppTest

from ui.parts import toasts


def page(undone=None, session_id=...):
    """A page whose button says that something was done; `undone` collects what Undo did."""

    def script(undone, session_id):
        import streamlit as st

        from memory_core import ConflictError
        from ui.parts import toasts
        from ui.tab import state

        def undo():
            if undone == "too late":
                raise ConflictError("The order was changed since.")
            undone.append("undone")

        st.session_state.setdefault("session", "one")
        toasts.draw()
        undo = None if undone is None else undo
        st.button(
            "Do", on_click=toasts.done, args=("Done with *it*.",), kwargs={"undo": undo, "session_id": session_id}
        )
        st.button("Do more", on_click=toasts.done, args=("Did more.",))
        st.button("Fail", on_click=state.say, args=("error", "It failed."))
        st.button("Other session", on_click=state.select_session, args=("two",))
        st.button("Draw again")

    return AppTest.from_function(script, args=(undone, session_id), default_timeout=SECONDS).run()


def press(app, label):
    next(each for each in app.button if each.label == label).click()
    return app.run()


def said(app):
    return [each.value.replace("\\", "") for each in (*app.success, *app.warning)]


def labels(app):
    return [each.label for each in app.button]


def test_a_change_is_said_with_its_words_escaped_and_without_undo_where_there_is_none():
    app = press(page(), "Do")
    assert said(app) == ["Done with *it*."]
    assert "\\*it\\*" in app.success[0].value
    assert "Undo" not in labels(app)
    assert said(press(app, "Dismiss")) == []


def test_undo_runs_once_however_often_it_is_clicked():
    undone = []
    app = press(page(undone), "Do")
    button = next(each for each in app.button if each.label == "Undo")
    button.click()
    app.run()
    assert said(app) == ["Undone."]
    button.click()  # of the drawing before: the second of two quick clicks
    app.run()
    assert undone == ["undone"]
    assert "Undo" not in labels(app)


def test_what_changed_since_is_not_undone_and_that_is_said():
    app = press(press(page("too late"), "Do"), "Undo")
    assert [each.value.replace("\\", "") for each in app.warning] == ["The order was changed since."]


def test_the_newest_toast_replaces_the_one_before_and_an_error_ends_it():
    app = press(press(page([]), "Do"), "Do more")
    assert said(app) == ["Did more."]
    assert "Undo" not in labels(app)
    assert said(press(app, "Fail")) == []


def test_it_outlives_another_drawing_but_not_its_seconds(monkeypatch):
    app = press(press(page([]), "Do"), "Draw again")
    assert said(app) == ["Done with *it*."]
    monkeypatch.setattr(toasts, "SECONDS", 0.0)
    app = press(app, "Do more")
    assert said(press(app, "Draw again")) == []


def test_another_session_never_shows_it_unless_it_is_of_none():
    app = press(press(page([]), "Do"), "Other session")
    assert said(app) == []
    assert "Undo" not in labels(app)
    assert said(press(press(page([], None), "Do"), "Other session")) == ["Done with *it*."]
