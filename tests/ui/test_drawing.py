"""What a run draws reaches the browser together, what changed last."""

import inspect
from dataclasses import dataclass, field
from functools import partial
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import RerunException
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.runtime.state import SafeSessionState, SessionState
from streamlit.testing.v1 import AppTest

from ui.tab import drawing


def element(path, text):
    message = ForwardMsg()
    message.delta.new_element.markdown.body = text
    message.metadata.delta_path.extend(path)
    message.hash = text
    return message


def container(path, key):
    message = ForwardMsg()
    message.delta.add_block.id = key
    message.metadata.delta_path.extend(path)
    message.hash = f"container {key}"
    return message


def drawn(*messages):
    return {tuple(message.metadata.delta_path): message.hash for message in messages}


def texts(messages):
    return [message.hash for message in messages]


def test_what_changed_comes_after_what_did_not():
    old = [element((0, 0), "Title"), element((0, 1), "Turn 11"), element((0, 2), "Footer")]
    new = [element((0, 0), "Title"), element((0, 1), "Turn 12"), element((0, 2), "Footer")]
    same, changed = drawing.by_change(new, drawn(*old))
    assert (texts(same), texts(changed)) == (["Title", "Footer"], ["Turn 12"])


def test_what_lies_in_a_container_that_changed_has_changed():
    old = [container((0, 0), "a"), element((0, 0, 0), "kept"), element((0, 1), "beside")]
    new = [container((0, 0), "b"), element((0, 0, 0), "kept"), element((0, 1), "beside")]
    same, changed = drawing.by_change(new, drawn(*old))
    assert (texts(same), texts(changed)) == (["beside"], ["container b", "kept"])


def test_what_is_drawn_twice_at_one_place_is_sent_in_its_order():
    closed, opened = container((0, 0), "drawer"), container((0, 0), "drawer, open")
    same, changed = drawing.by_change([closed, opened, element((0, 0, 0), "Text")], drawn(closed, opened))
    assert (texts(same), texts(changed)) == ([], ["container drawer", "container drawer, open", "Text"])
    slot = [element((0, 1), "Loading"), element((0, 1), "Loaded")]
    assert texts(drawing.by_change(slot, drawn(*slot))[1]) == ["Loading", "Loaded"]


def test_something_new_is_a_change():
    assert texts(drawing.by_change([element((0, 3), "new")], {})[1]) == ["new"]


@dataclass
class Context:
    """Stand-in with the parts of Streamlit's run context that are used."""

    sent: list
    page_script_hash: str = "chat"
    pages_manager: PagesManager = field(default_factory=lambda: PagesManager("app.py"))

    def _enqueue(self, message):
        self.sent.append(message)


@pytest.fixture
def context(monkeypatch):
    made = Context([])
    monkeypatch.setattr(drawing, "get_script_run_ctx", lambda: made)
    monkeypatch.setattr(drawing.st, "session_state", {})
    return made


def run(context, place, *messages, ends=None):
    """One run that draws these; how many had been sent when it had drawn the last."""
    with drawing.together(place):
        for message in messages:
            context._enqueue(message)
        before = len(context.sent)
        if ends is not None:
            raise ends
    return before


def test_the_first_drawing_of_a_place_is_sent_as_it_comes_and_the_next_at_once(context):
    title, eleven, twelve = element((0, 0), "Title"), element((0, 1), "Turn 11"), element((0, 1), "Turn 12")
    assert run(context, "chat", eleven, title) == 2
    assert run(context, "chat", twelve, title) == 2
    assert texts(context.sent[2:]) == ["Title", "Turn 12"]
    assert run(context, "facts", title) == 5


def test_a_run_that_a_newer_one_replaces_sends_nothing(context):
    run(context, "chat", element((0, 0), "Turn 11"))
    with pytest.raises(RerunException):
        run(context, "chat", element((0, 0), "Turn 12"), ends=RerunException(RerunData()))
    assert texts(context.sent) == ["Turn 11"]


def test_what_is_told_only_once_is_told_by_a_run_that_is_replaced(context):
    run(context, "chat", element((0, 0), "Turn 11"))
    put = element((0, 1), "a value put into a field")
    put.delta.new_element.has_one_shot_effect = True
    with pytest.raises(RerunException):
        run(context, "chat", element((0, 0), "Turn 12"), put, ends=RerunException(RerunData()))
    assert texts(context.sent[1:]) == ["Turn 12", "a value put into a field"]


def test_a_run_that_fails_shows_what_it_had_drawn(context):
    run(context, "chat", element((0, 0), "Turn 11"))
    with pytest.raises(ValueError, match="boom"):
        run(context, "chat", element((0, 0), "Turn 12"), ends=ValueError("boom"))
    assert texts(context.sent) == ["Turn 11", "Turn 12"]


def visit(context, page):
    """The beginning of a run of a page, at whose first message a newer one may replace it."""
    begin_unseen(context, page)
    drawing.begin()


def begin_unseen(context, page):
    """A run of a page that a newer one replaces before the first line of the app."""
    context.page_script_hash = page
    context.pages_manager.set_current_page_script_hash(page)


@pytest.mark.parametrize("between", [visit, begin_unseen])
def test_after_another_page_was_begun_the_first_is_sent_in_its_order(context, between):
    """The browser removes all elements when a page begins, even if nothing of it is drawn."""
    title, twelve, footer = element((0, 0), "Turn 11"), element((0, 0), "Turn 12"), element((0, 1), "Footer")
    visit(context, "chat")
    run(context, "chat", title, footer)
    between(context, "context")
    visit(context, "chat")
    assert run(context, "chat", twelve, footer) == 4
    assert texts(context.sent[2:]) == ["Turn 12", "Footer"]
    visit(context, "chat")
    run(context, "chat", title, footer)
    assert texts(context.sent[4:]) == ["Footer", "Turn 11"], "a page that is begun again keeps its elements"


def test_what_an_interrupted_first_drawing_sent_may_not_have_arrived(context):
    """Streamlit discards what still waits for the browser when the next run begins."""
    title, box, footer = element((0, 0), "Title"), element((0, 1), "Turn 11"), element((0, 2), "Footer")
    with pytest.raises(RerunException):
        run(context, "chat", title, box, footer, ends=RerunException(RerunData()))
    assert run(context, "chat", title, element((0, 1), "Turn 12"), footer) == 6
    assert texts(context.sent[3:]) == ["Title", "Turn 12", "Footer"]


def test_a_run_that_sent_nothing_changes_nothing_that_the_browser_has(context):
    title, footer = element((0, 0), "Title"), element((0, 1), "Footer")
    run(context, "chat", title, footer)
    with pytest.raises(RerunException):
        run(context, "chat", element((0, 0), "New title"), ends=RerunException(RerunData()))
    run(context, "chat", element((0, 0), "New title"), footer)
    assert texts(context.sent[2:]) == ["Footer", "New title"]


def test_what_takes_long_is_shown_as_it_comes(context, monkeypatch):
    run(context, "chat", element((0, 0), "Turn 11"))
    monkeypatch.setattr(drawing, "MAX_SECONDS", 0.0)
    assert run(context, "chat", element((0, 0), "Turn 12")) == 2


def test_streamlit_still_sends_elements_through_the_place_that_is_held():
    """`together` replaces a field that Streamlit does not document: an update that renames it fails here."""

    def script():
        import streamlit as st

        from ui.tab import drawing

        with drawing.together("here"):
            st.markdown("drawn")

    app = AppTest.from_function(script).run()
    assert [each.value for each in app.run().markdown] == ["drawn"]
    assert "_enqueue" in ScriptRunContext.__annotations__


def test_streamlit_still_sets_the_page_of_each_run_where_it_is_noted():
    manager, state = PagesManager("app.py"), SafeSessionState(SessionState(), lambda: None)
    context = ScriptRunContext("tab", print, "", state, None, "app.py", {}, None, manager)
    assert drawing._begun(manager) == set()
    context.reset(page_script_hash="context")
    assert (drawing._begun(manager), context.page_script_hash) == ({"context"}, "context")


def asking(page, *, timer=False):
    """A request of the browser for a run: of a page that was clicked, or by the timer of a fragment on it."""
    message = BackMsg()
    message.rerun_script.page_script_hash = page
    message.rerun_script.is_auto_rerun = timer
    message.rerun_script.fragment_id = "news" if timer else ""
    return message


def run_asked_for(*messages, guarded, page="facts"):
    """The run that Streamlit begins next after these requests, while the run of `page` was the last to begin."""
    waiting = ScriptRequests()

    def handle(message):
        asks = message.rerun_script
        waiting.request_rerun(RerunData(page_script_hash=asks.page_script_hash, fragment_id=asks.fragment_id or None))

    requests = drawing._Requests(handle, lambda: page) if guarded else handle
    for message in messages:
        requests(message)
    return waiting._rerun_data


def test_a_timer_of_the_page_that_is_left_takes_back_no_click_on_another():
    click, timer = asking("chat"), asking("facts", timer=True)
    assert run_asked_for(click, timer, guarded=False).page_script_hash == "facts"  # what Streamlit makes of both
    assert run_asked_for(click, timer, guarded=True).page_script_hash == "chat"
    # The same after the run of the other page has begun, and before the browser shows it.
    assert run_asked_for(timer, guarded=True, page="chat") == RerunData()


def test_a_timer_of_the_page_that_the_app_went_to_is_heard_at_once():
    heard, page = [], ["sessions"]
    requests = drawing._Requests(heard.append, lambda: page[0])
    click, timer = asking("sessions"), asking("chat", timer=True)
    requests(click)  # a button, behind which the app goes to another page
    page[0] = "chat"
    requests(timer)
    assert heard == [click, timer]


def test_a_page_that_begins_late_and_was_left_before_is_not_brought_back():
    heard, page = [], ["chat"]
    requests = drawing._Requests(heard.append, lambda: page[0])
    clicks = [asking("facts"), asking("chat")]
    for click in clicks:
        requests(click)
    page[0] = "facts"
    requests(asking("facts", timer=True))
    assert heard == clicks


def test_a_timer_of_the_page_that_is_shown_is_heard_also_if_a_page_never_comes(monkeypatch):
    timer = asking("facts", timer=True)
    assert run_asked_for(timer, guarded=True).fragment_id_queue == ["news"]
    assert run_asked_for(asking("facts"), timer, guarded=True).page_script_hash == "facts"
    monkeypatch.setattr(drawing, "ASKED_SECONDS", -1)
    assert run_asked_for(asking("nowhere"), timer, guarded=True).page_script_hash == "facts"


@given(st.lists(st.tuples(st.sampled_from(("chat", "facts", "trace")), st.booleans()), max_size=12))
def test_the_page_that_was_clicked_last_is_the_one_that_is_run(steps):
    messages = [asking(page, timer=timer) for page, timer in steps]
    clicked = [page for page, timer in steps if not timer]
    data = run_asked_for(*messages, guarded=True, page="facts")
    assert data.page_script_hash in (clicked[-1:] or ["facts", ""])


def test_streamlit_still_has_the_way_to_its_loop_that_elements_are_gathered_on():
    assert callable(AppSession._call_soon_on_event_loop)
    assert "self._session_mgr = " in inspect.getsource(Runtime.__init__)
    assert "self._event_loop = " in inspect.getsource(AppSession.__init__)


@given(st.lists(st.sampled_from(("call", "turn")), max_size=40))
def test_gathered_calls_are_made_in_their_order_and_wake_the_loop_once_for_all_that_wait(steps):
    wakes, made = [], []
    gathered = drawing._Gathered(wakes.append, wakes.append)
    for number, step in enumerate(steps):
        if step == "call":
            gathered(partial(made.append, number))
        elif wakes:
            wakes.pop()()
        assert len(wakes) <= 1
    while wakes:
        wakes.pop()()
    assert made == [number for number, step in enumerate(steps) if step == "call"]


def test_a_gathered_call_that_fails_keeps_no_other_from_being_made():
    wakes, made = [], []
    gathered = drawing._Gathered(wakes.append, wakes.append)
    for call in (partial(int, "x"), partial(made.append, 1)):
        gathered(call)
    wakes.pop()()
    with pytest.raises(ValueError, match="invalid literal"):
        wakes.pop()()
    wakes.pop()()
    assert made == [1]


def test_a_loop_that_refuses_once_is_woken_by_the_next_element():
    wakes, made = Mock(side_effect=[RuntimeError("no loop"), None]), []
    gathered = drawing._Gathered(wakes, lambda call: call())
    with pytest.raises(RuntimeError):
        gathered(partial(made.append, 1))
    gathered(partial(made.append, 2))
    wakes.call_args.args[0]()
    assert made == [1, 2]


def test_a_request_of_the_browser_is_handled_after_what_a_run_drew(monkeypatch):
    made, wakes = [], []

    class Tab:
        session = Mock(
            _call_soon_on_event_loop=wakes.append,
            _event_loop=Mock(call_later=lambda seconds, call: wakes.append(call)),
            handle_backmsg=lambda request: made.append(request),
        )

    monkeypatch.setattr(
        drawing.runtime, "get_instance", lambda: Mock(_session_mgr=Mock(get_session_info=lambda _: Tab))
    )
    poll, manager = asking("chat"), PagesManager("app.py")
    drawing._send_together("a tab", manager)
    drawing._send_together("a tab", manager)
    Tab.session._call_soon_on_event_loop(lambda: made.append("the last element"))
    Tab.session.handle_backmsg(poll)
    assert made == ["the last element", poll]
    while wakes:
        wakes.pop()()
    assert made == ["the last element", poll]
    assert "session.handle_backmsg(" in inspect.getsource(Runtime.handle_backmsg)
