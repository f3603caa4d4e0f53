"""Which session a tab shows: it changes by a person's choice only, however late and in whatever order things arrive."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ui.tab.selection import BEHIND_SECONDS, Link, Written, decide

NAMES = ("demo", "agent", "agent2", "other")
names = st.sampled_from(NAMES)
turns = st.sampled_from([None, "3", "7"])


def run(shown, asked, cause="person", *, written=None, earlier=(), existing=NAMES):
    return decide(shown, asked, cause, written=written or shown or Link(), earlier=earlier, existing=existing)


def test_a_first_run_shows_what_its_address_names_or_else_the_first_session():
    assert run(None, Link("agent", "3")) == Link("agent", "3")
    assert run(None, Link()) == Link("demo")
    assert run(None, Link("gone", "3")) == Link("demo")
    assert run(None, Link("demo"), existing=()) == Link()


def test_a_link_to_a_missing_session_leaves_the_one_before():
    assert run(Link("agent", "3"), Link("gone")) == Link("agent", "3")


def test_what_was_just_selected_wins_over_the_address_except_going_back():
    chosen = Link("agent2")
    assert run(chosen, Link("agent"), written=Link("agent")) == chosen
    assert run(chosen, Link("other"), written=Link("agent")) == chosen
    assert run(chosen, Link("other"), "history", written=Link("agent")) == Link("other")


def test_a_run_for_new_events_takes_no_address():
    assert run(Link("agent2"), Link("demo"), "news") == Link("agent2")


class OneTab(RuleBasedStateMachine):
    """A tab whose browser learns of an address some time after it was written, at most `BEHIND_SECONDS`.

    `wanted` is what a person chose last; only that, or the end of a session, may change what is shown.
    """

    def __init__(self):
        super().__init__()
        self.now, self.existing = 100.0, list(NAMES)
        self.shown = None
        self.browser, self.arriving = Link("agent"), []
        self.state = Written()
        self.wanted = self.browser
        self.draw("person")

    def draw(self, cause, selected=None):
        """One run: the browser reports its address, as far as it has learned it."""
        shown = selected or self.shown
        self.shown = decide(
            shown,
            self.browser,
            cause,
            written=self.state.link,
            earlier=self.state.earlier(self.now),
            existing=self.existing,
        )
        if self.wanted.session not in self.existing:
            self.wanted = self.shown
        self.state = self.state.then(self.shown, self.now)
        if self.shown != self.browser or self.arriving:
            self.arriving.append((self.now + BEHIND_SECONDS, self.shown))

    @rule(session=names, turn=turns)
    def pick(self, session, turn):
        if session in self.existing:
            self.wanted = Link(session, turn)
            self.draw("person", self.wanted)

    @precondition(lambda self: not self.arriving)
    @rule(session=names, turn=turns)
    def follow_a_link(self, session, turn):
        """A link of the app is followed in a tab that has settled; its address is the browser's from then on."""
        if session in self.existing:
            self.now += BEHIND_SECONDS
            self.browser = self.wanted = Link(session, turn)
            self.draw("person")

    @rule(session=names, turn=turns)
    def go_back(self, session, turn):
        if session in self.existing:
            self.browser, self.arriving = Link(session, turn), []
            self.wanted = self.browser
            self.draw("history")

    @rule()
    def press_a_button(self):
        self.draw("person")

    @rule(address=st.builds(Link, names, turns))
    def hear_of_new_events(self, address):
        """A poll carries the address of when it was begun, which may be any."""
        now, self.browser = self.browser, address
        self.draw("news")
        self.browser = now

    @rule(seconds=st.floats(0, BEHIND_SECONDS))
    def wait(self, seconds):
        self.now += seconds
        while self.arriving and self.arriving[0][0] <= self.now:
            self.browser = self.arriving.pop(0)[1]

    @rule()
    def learn_the_address(self):
        if self.arriving:
            self.browser = self.arriving.pop(0)[1]

    @precondition(lambda self: len(self.existing) > 1)
    @rule(session=names)
    def delete(self, session):
        if session in self.existing:
            self.existing.remove(session)

    @rule(session=names)
    def create(self, session):
        if session not in self.existing:
            self.existing.append(session)

    @invariant()
    def only_a_person_has_changed_it(self):
        if self.shown.session in self.existing:
            assert self.shown == self.wanted


TestOneTab = pytest.mark.slow(OneTab.TestCase)
TestOneTab.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)
