"""The menu *Test this* of a phrase, a fact, a message or a block: one click stores a test with the session.

A test is a probe in files and commands; a phrase can also be watched turn by turn.
"""

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from memory_inspector.lab.probes import (
    BlockTokens,
    EvidenceInPrompt,
    FactCites,
    InPrompt,
    NeverInPrompt,
    Probe,
    keep_probes,
    kept_probes,
)
from memory_inspector.wording.formatting import plain, short
from ui.parts import toasts
from ui.parts.components import error_noticed
from ui.tab import nav
from ui.tab.people import allowed
from ui.tab.view import memory_of

PROBE_CHARACTERS = 90

MAX_PHRASE = 300
"""Maximum characters of a probe's phrase; a longer phrase is shortened."""


def of_words(words: str, turn: int) -> list[Probe]:
    """Return two probes on the prompts from a turn on: all have the phrase, or none has it. Empty without a phrase."""
    # Line breaks of the page it was taken from are no part of the phrase.
    phrase = " ".join(words.split())[:MAX_PHRASE].rstrip()
    if not phrase:
        return []
    # Both directions: the first finds a missing phrase, the second a leaked one.
    return [InPrompt(phrase=phrase, from_turn=turn), NeverInPrompt(phrase=phrase, from_turn=turn)]


def of_messages(seqs: Sequence[int], turn: int) -> list[Probe]:
    """Return two probes for each message: a turn's prompt has it as evidence; a fact was learned from it."""
    return [*(EvidenceInPrompt(turn=turn, messages=(seq,)) for seq in seqs), *(FactCites(message=seq) for seq in seqs)]


def of_block(block: str, tokens: int, turn: int) -> list[Probe]:
    """Return a probe which requires that a block has at least `tokens` tokens in every prompt from a turn on."""
    return [BlockTokens(block=block, at_least=tokens, from_turn=turn)]


def draw(
    session_id: str,
    probes: Callable[[], Sequence[Probe]],
    key: str,
    *,
    first: Callable[[str], None] = lambda _: None,
) -> None:
    """Draw a menu of tests to store; `probes`, and `first`, which draws above them, are called once it is open.

    A choice closes the menu by its key, which `first` gets: while it is open, a click elsewhere would only close it.
    """
    opened = st.popover(
        "Test this", icon=":material/rule:", type="tertiary", key=f"{key}_probe", on_change="rerun", **allowed()
    )
    if not opened.open:
        return
    with opened:
        first(f"{key}_probe")
        st.markdown(":small[:gray[Tests of this session's prompts, for the Lab and CI:]]")
        for number, probe in enumerate(probes()):
            st.button(
                plain(short(str(probe), PROBE_CHARACTERS)),
                key=f"{key}_probe_{number}",
                type="tertiary",
                icon=":material/add:",
                on_click=_keep,
                args=(session_id, probe, f"{key}_probe"),
                **allowed(),
            )
        nav.link("lab", ":small[All tests]", icon=":material/science:", view="tests")


@error_noticed
def _keep(session_id: str, probe: Probe, menu: str) -> None:
    st.session_state[menu] = False
    memory = memory_of(session_id)
    before = kept_probes(memory)
    # A second click keeps it once.
    if probe not in before:
        keep_probes(memory, (*before, probe))
    toasts.done(f"Kept as a test: {probe}.", undo=partial(_put_back, session_id, before), session_id=session_id)


def _put_back(session_id: str, probes: tuple[Probe, ...]) -> None:
    keep_probes(memory_of(session_id), probes)
