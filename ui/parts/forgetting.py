"""The dialogs Quarantine, Forget and Forget this user: what would be affected, and the receipt of a search for it."""

from collections.abc import Callable, Iterable, Sequence

import streamlit as st

from memory_core import Database, Memory, MemoryInspectorError, forget_user
from memory_core.events import QuarantineChanged, Ref
from memory_core.planning.graph_rules import Entity
from memory_core.planning.impact import Affected, Impact
from memory_core.sessions import forgetting
from memory_core.sessions.forgetting import UserData, data_of_user
from memory_core.text import listed
from memory_inspector.server.forget_receipt import receipt_for
from memory_inspector.verification.receipts import ForgetReceipt
from memory_inspector.wording.formatting import count, plain, short
from memory_inspector.wording.trace_text import WORDS_SHOWN, beside, impact_rows, set_line, set_name
from ui.parts import toasts
from ui.parts.components import ROW_PIXELS, closing_button, dialog, error_noticed, heading
from ui.parts.effect import effect_sentence
from ui.tab import nav
from ui.tab.people import allowed
from ui.tab.services import engine
from ui.tab.view import View, memory_of

_PHRASE, _DONE, _USER_DONE = "forget__phrase", "forget__done", "forget_user__done"
MAX_CHARACTERS = 500
TABLE_PIXELS, USER_TABLE_PIXELS = 320, 280
ROWS_SHOWN = 6
"""Maximum number of items listed of a set in quarantine."""

Result = tuple[str, ForgetReceipt | str]
"""Sentence on what was done, and the receipt of the search afterwards or the reason why there is none."""

Chosen = str | Ref | Entity
"""A phrase, which can be changed in the dialog, a message or fact, or an entity."""


def draw_buttons(session_id: str, what: Chosen, key: str) -> None:
    """Draw the buttons that open the two dialogs."""
    quarantine = st.button(
        "Quarantine", key=f"{key}__quarantine", type="tertiary", icon=":material/block:", **allowed(QuarantineChanged)
    )
    forget = st.button(
        ":red[Forget]",
        key=f"{key}__forget",
        type="tertiary",
        icon=":material/delete_forever:",
        **allowed(forgetting.forget),
    )
    if quarantine or forget:
        # No phrase and no receipt of a dialog that was closed.
        for key_of_dialog in (_PHRASE, _DONE):
            st.session_state.pop(key_of_dialog, None)
        (quarantine_dialog if quarantine else forget_dialog)(session_id, what)


@dialog("Quarantine", "block", width="large")
def quarantine_dialog(session_id: str, what: Chosen) -> None:
    """Let the user choose what is kept out of all prompts."""
    memory = engine().open(session_id)
    chosen = _chosen(memory, what)
    impact = _read(lambda: memory.session.quarantine(chosen, preview=True))
    if impact is None:
        return
    unticked = _draw_rows(chosen, impact)
    number = len(impact.rows) - len(unticked)
    if number:
        going = memory.session.quarantine(chosen, keep=unticked, preview=True) if unticked else impact
        line = effect_sentence(memory.preview.next_prompt().context, memory.preview.quarantine(going).context)
        st.markdown(f":small[{line}]")
    st.markdown(
        ":small[:gray[Nothing is erased, and what says it later is left out, too. Release brings it all back.]]"
    )
    draw_program(impact)
    closing_button(
        f"Quarantine {count(number, 'item')}",
        _quarantine,
        (session_id, chosen, unticked),
        kind="primary",
        disabled=not number,
        key="quarantine__do",
    )


@error_noticed
def _quarantine(session_id: str, chosen: Chosen, unticked: list[Affected]) -> None:
    session = memory_of(session_id).session
    before = {one.number for one in session.quarantined()}
    impact = session.quarantine(chosen, keep=unticked)
    new = [one.number for one in session.quarantined() if one.number not in before]
    toasts.done(
        f"{count(len(impact.rows), 'item')} in quarantine.",
        undo=(lambda: session.release(new[0])) if new else None,
        session_id=session_id,
    )


def draw_quarantine(view: View) -> None:
    """Draw the sets in quarantine, newest first, each with its items and a Release button; nothing if there is none."""
    sets = view.memory.session.quarantined()
    if not sets:
        return
    st.space("small")
    heading("In quarantine", "\n:small[:gray[Left out of all prompts until released.]]")
    for one in reversed(sets):
        rows = view.memory.session.quarantined_rows(one)
        with st.container(border=True, gap="xsmall", key=f"quarantine__set_{one.number}"):
            with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
                st.markdown(f"**{plain(set_name(one, rows))}**", width="content")
                st.button(
                    "Release",
                    key=f"quarantine__release_{one.number}",
                    icon=":material/lock_open:",
                    on_click=_release,
                    args=(view.memory.session_id, one.number),
                    disabled=view.read_only is not None,
                )
            for row in rows[:ROWS_SHOWN]:
                st.markdown(f":small[{plain(set_line(row))}]")
            if len(rows) > ROWS_SHOWN:
                st.markdown(f":small[:gray[and {count(len(rows) - ROWS_SHOWN, 'more item')}]]")


@error_noticed
def _release(session_id: str, number: int) -> None:
    session = memory_of(session_id).session
    released = session.release(number)
    toasts.done("Released.", undo=lambda: session.quarantine_again(released), session_id=session_id)


def draw_count(view: View) -> None:
    """Draw how many sets are in quarantine, as a link to where they are released; nothing if there is none."""
    try:
        number = len(view.memory.session.quarantined())
    except MemoryInspectorError:  # the page reports the error
        return
    if number:
        tooltip = "Left out of all prompts until released."
        nav.link("trace", f":orange[{count(number, 'set')} in quarantine]", icon=":material/block:", help=tooltip)


@dialog("Forget", "delete_forever", width="large")
def forget_dialog(session_id: str, what: Chosen) -> None:
    """Let the user choose what is erased; afterwards show the receipt of a search for it."""
    memory = engine().open(session_id)
    # Kept until the dialog is closed: a second drawing must show the receipt, and not forget once more.
    done: Result | None = st.session_state.get(_DONE)
    if done is not None:
        draw_receipt(*done)
        return
    chosen = _chosen(memory, what)
    impact = _read(lambda: memory.session.forget(chosen, preview=True))
    if impact is None:
        return
    unticked = _draw_rows(chosen, impact)
    for row in impact.rows:
        if row.stays:
            st.markdown(f":small[:orange[:material/warning:] Also in {plain(row.words)}. Forget it there, too.]")
    # A second preview: it tells what goes once the unticked rows are kept.
    going = memory.session.forget(chosen, keep=unticked, preview=True) if unticked else impact
    st.markdown(f":small[:gray[{plain(beside(going))}]]")
    draw_program(impact)
    number = len(going.erased)
    if st.button(
        f"Forget {count(number, 'item')}",
        key="forget__do",
        type="primary",
        icon=":material/delete_forever:",
        disabled=not number,
    ):
        st.session_state[_DONE] = _forgotten(memory, chosen, unticked, going)
        st.rerun(scope="fragment")


def draw_program(impact: Impact) -> None:
    """Draw that the memory of the program that the session shows is not changed, if it shows one."""
    if impact.program:
        st.markdown(f":small[:orange[:material/warning:] {plain(impact.program)}]")


def _chosen(memory: Memory, what: Chosen) -> Chosen:
    """Draw what was chosen, and return it; a phrase as it was typed here."""
    if isinstance(what, Entity):
        st.markdown(f"Everything that names {plain(', '.join((what.name, *what.aliases)))}")
        return what
    if isinstance(what, Ref):
        return what
    return st.text_input("Phrase", value=what, key=_PHRASE, max_chars=MAX_CHARACTERS).strip()


def _read(preview: Callable[[], Impact]) -> Impact | None:
    """Return what would be affected; if nothing is, draw the reason and return None."""
    try:
        impact = preview()
    except MemoryInspectorError as error:
        st.markdown(plain(str(error)))
        return None
    if not impact.rows:
        st.markdown("Nothing in this session contains it.")
        return None
    return impact


def _draw_rows(chosen: Chosen, impact: Impact) -> list[Affected]:
    """Draw the rows as a table, and return those that are unticked. Rows of other sessions cannot be ticked."""
    rows = impact.erased
    if isinstance(chosen, Ref):
        words = next((row.words for row in rows if row.why == "chosen"), "")
        st.markdown(f"{chosen.kind.capitalize()} “{plain(short(words, WORDS_SHOWN))}” with what belongs to it")
    edited = st.data_editor(
        impact_rows(impact),
        # What was chosen is part of the key: ticks of another phrase's rows must not apply to these.
        key=f"forget__rows_{chosen.name if isinstance(chosen, Entity) else chosen}",
        disabled=["What", "Why", "Turn", "Session", "Text"],
        height=min(TABLE_PIXELS, ROW_PIXELS * (len(rows) + 1) + 3),
        placeholder="–",
        column_config={
            "Include": st.column_config.CheckboxColumn(width=64),
            "Turn": st.column_config.NumberColumn(width=64),
        },
    )
    return [row for row, line in zip(rows, edited, strict=True) if not line["Include"]]


def _forgotten(memory: Memory, chosen: Chosen, unticked: list[Affected], going: Impact) -> Result:
    def forget() -> tuple[str, Sequence[str]]:
        impact = memory.session.forget(chosen, keep=unticked)
        # What was said before to stay is found again below, where only files and columns name it.
        stays = [f"“{short(row.words)}”" for row in impact.rows if row.stays]
        stays += [f"{count(len(unticked), 'item')} that you kept"] if unticked else []
        besides = f", but not in {listed(stays)}, as was said before" if stays else ""
        return f"Forgot {count(len(impact.erased), 'item')}{besides}.", impact.target.searched

    session_ids = [memory.session_id, *(one.session for one in going.others)]
    return _erased(memory.session.database, session_ids, forget, failed="Not all was forgotten.")


def _erased(
    database: Database, session_ids: Iterable[str], erase: Callable[[], tuple[str, Sequence[str]]], *, failed: str
) -> Result:
    """Erase, then search for what is left; return what was done, and the receipt or why there is none.

    `erase` returns what was done and the words to search for; `failed` tells that it could not.
    """
    # A running turn could go on writing, or learn again from the words, while they are erased.
    if not all(engine().stop(session_id) for session_id in session_ids):
        return "Nothing was changed.", "A turn is still being written: try again when it has ended."
    with st.spinner("Forgetting"):
        try:
            done, searched = erase()
        except MemoryInspectorError as error:
            return failed, str(error)
    with st.spinner("Searching for what is left"):
        try:
            return done, receipt_for(database, searched)
        except MemoryInspectorError as error:
            return done, str(error)


def draw_receipt(done: str, receipt: ForgetReceipt | str) -> None:
    if isinstance(receipt, str):
        st.warning(f"{plain(done)} {plain(receipt)}")
        return
    if receipt.clean:
        st.success(f"{plain(done)} A search of all files found nothing.")
    else:
        result = "the words are still in the places listed here" if receipt.hits else "not all files could be searched"
        st.warning(f"{plain(done)} But {result}.")
    st.code(receipt.page(), language=None, wrap_lines=True)
    with st.container(horizontal=True):
        st.download_button(
            "Receipt",
            receipt.to_json(),
            "receipt.json",
            "application/json",
            key="forget__json",
            icon=":material/download:",
            on_click="ignore",
        )
        st.download_button(
            "Page to print", receipt.page(), "receipt.txt", "text/plain", key="forget__page", on_click="ignore"
        )
    st.markdown(":small[:gray[The receipt holds no words. `memory-inspector verify receipt.json` searches again.]]")


# -- a user ----------------------------------------------------------------------------------------


def draw_user_button(user_id: str) -> bool:
    """Draw the button that opens the dialog; return whether it was clicked."""
    clicked = st.button(
        "Forget this user",
        key="sessions__forget_user",
        type="tertiary",
        icon=":material/person_off:",
        **allowed(forget_user),
    )
    if clicked:
        st.session_state.pop(_USER_DONE, None)
        forget_user_dialog(user_id)
    return clicked


@dialog("Forget this user", "person_off", width="large")
def forget_user_dialog(user_id: str) -> None:
    """Ask before all sessions and facts of a user are erased; afterwards show the receipt of a search for them."""
    # Kept until the dialog is closed: a second drawing must show the receipt, and not forget once more.
    done: Result | None = st.session_state.get(_USER_DONE)
    if done is not None:
        draw_receipt(*done)
        return
    try:
        data = data_of_user(engine().database, user_id)
    except MemoryInspectorError as error:
        st.markdown(plain(str(error)))
        return
    st.markdown(f"Everything stored about **{plain(short(user_id, 80))}**: {plain(_data_line(data))}.")
    # Without a session the facts are all there is.
    sessions: list[dict[str, object]] = [
        {
            "Session": status.title or status.session_id,
            "Messages": status.queue_messages + status.archived_messages,
            "Turns": status.turns,
        }
        for status in data.sessions
    ]
    rows = sessions or [{"Shared fact": fact} for fact in data.facts]
    height = min(USER_TABLE_PIXELS, ROW_PIXELS * (len(rows) + 1) + 3)
    st.dataframe(rows, hide_index=True, width="stretch", height=height)
    st.markdown(":small[:gray[This cannot be undone. Mentions in the sessions of others stay.]]")
    if st.button(
        f"Forget {count(len(rows), 'session' if sessions else 'fact')}",
        key="forget_user__do",
        type="primary",
        icon=":material/person_off:",
    ):
        st.session_state[_USER_DONE] = _user_forgotten(data)
        st.rerun(scope="fragment")


def _data_line(data: UserData) -> str:
    parts = [(len(data.sessions), "session"), (data.messages, "message"), (len(data.facts), "shared fact")]
    return ", ".join(count(number, noun) for number, noun in parts if number)


def _user_forgotten(data: UserData) -> Result:
    database = engine().database

    def forget() -> tuple[str, Sequence[str]]:
        gone = forget_user(database, data.user_id, index=engine().services.index_of(database))
        return f"Forgot {_data_line(gone)}.", gone.searched

    return _erased(database, [status.session_id for status in data.sessions], forget, failed="Nothing was forgotten.")
