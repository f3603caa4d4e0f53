"""The page Coding agents, drawn and clicked in this process, on small sessions of our own."""

import pytest
from coding_kit import RULE, TASK, ClaudeCode, call, session_that_lost_a_rule
from pages_driver import button, joined, opened

from memory_core.access import Person, acting_as
from memory_inspector.server import coding_sessions
from ui.tab import nav

NASTY = "Never use <img src=x onerror=alert(1)> or **bold** :red[r] in titles."


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home of Claude Code; the page reads it, and a home of Codex that does not exist."""
    monkeypatch.setenv("MEMORY_INSPECTOR_CODE", "1")
    monkeypatch.setenv("MEMORY_INSPECTOR_CODE_CLAUDE", str(tmp_path / "projects"))
    monkeypatch.setenv("MEMORY_INSPECTOR_CODE_CODEX", str(tmp_path / "sessions"))
    coding_sessions.coding_sessions.cache_clear()
    yield tmp_path / "projects"
    coding_sessions.coding_sessions.cache_clear()


def id_of(path):
    return f"Claude Code/{path.parent.name}/{path.stem}"


def page(path, **query):
    app = opened(code=id_of(path), **query)  # started for coding agents, their page is the first
    assert not app.exception
    return app


def test_without_the_command_no_session_is_read(home, monkeypatch):
    path = session_that_lost_a_rule(home)
    monkeypatch.delenv("MEMORY_INSPECTOR_CODE")
    app = opened(page="code", code=id_of(path))
    assert not app.exception
    assert RULE.rstrip(".") not in joined(app)


def test_the_list_has_what_each_session_took(home):
    session_that_lost_a_rule(home)
    app = opened()
    assert not app.exception
    rows = app.dataframe[0].value.to_dict("records")
    assert [(row["Project"], row["Compactions"], row["Calls"], row["Written"]) for row in rows] == [
        ("parser", 1, 4, "live")
    ]
    assert rows[0]["Tokens"] == 20_100 + 20_200 + 21_000 + 20_900 + 4 * 20


def test_a_compaction_shows_the_rule_that_it_lost_first(home):
    app = page(session_that_lost_a_rule(home))
    text = joined(app)
    assert text.rindex("Never touch the lockfile") < text.rindex("Add a test for the parser")
    assert [badge for badge in ("gone", "kept") if badge in text] == ["gone", "kept"]


def test_a_session_is_titled_by_what_the_user_said_first(home):
    assert f"**{RULE} {TASK}**" in joined(page(session_that_lost_a_rule(home)))


def test_following_the_rule_ends_at_the_compaction(home):
    path = session_that_lost_a_rule(home)
    assert "lost at compaction 1" in joined(page(path, view="follow", words=RULE))
    app = page(path, view="follow", words=TASK)
    assert "In the last prompt" in joined(app)


def test_the_parts_of_the_chosen_call_add_up(home):
    app = page(session_that_lost_a_rule(home), view="prompts")
    parts = next(table.value for table in app.dataframe if "Share" in table.value)
    assert parts["Tokens"].sum() == 21_000  # the call before the compaction
    app.slider[0].set_value(4).run()
    parts = next(table.value for table in app.dataframe if "Share" in table.value)
    assert parts["Tokens"].sum() == 20_900


@pytest.mark.parametrize("view", ["compactions", "prompts", "follow", "memory", "records"])
def test_no_view_fails_on_a_session_without_a_message(home, view):
    path = ClaudeCode().progress("x").write(home / "-srv-parser" / "empty.jsonl")
    assert "Nothing was said yet" in joined(page(path, view=view))


def test_words_of_a_session_are_never_markup(home):
    lines = ClaudeCode().user(NASTY).answer("Yes.", prompt=900).compact("Nothing.").answer("Go on.", prompt=800)
    app = page(lines.write(home / "-srv-parser" / "nasty.jsonl"))
    assert not [each for each in app.markdown if "<img" in each.value.replace("\\<", "")]


def drawn(app):
    """Everything that the page sends to the browser, figures and tables included."""
    figures = [str(each.proto) for each in app.get("plotly_chart")]
    return "\n".join([joined(app), *figures, *(str(table.value.to_dict()) for table in app.dataframe)])


@pytest.mark.parametrize("view", ["compactions", "prompts", "records", "follow"])
def test_keys_in_a_session_are_masked(home, view):
    key = "sk-proj-abc123def456ghi789jkl"
    lines = ClaudeCode().user(f"Always use the key {key} here.")
    lines.answer(call("t1", "Bash", command=f"curl -H {key}"), prompt=900).result("t1", f"The key is {key} again.")
    lines.answer("Yes.", prompt=1_000).compact(f"It goes on with {key}.").answer("Go on.", prompt=900)
    path = lines.write(home / "-srv-parser" / "secret.jsonl")
    words = {"words": "Always use the key"} if view == "follow" else {}
    text = drawn(page(path, view=view, **words))
    assert key[:14] not in text
    assert "[key]" in text or view == "records"


def test_a_key_at_the_end_of_a_title_is_masked_before_it_is_cut(home):
    start = (
        "Read all of the long introduction and then go through every file of this project with the following secret: "
    )
    lines = ClaudeCode().user(f"{start} sk-proj-abc123def456ghi789jkl")
    lines.write(home / "-srv-parser" / "title.jsonl")
    assert "sk-proj" not in drawn(opened())


def test_a_statement_with_a_key_is_not_put_into_the_address(home):
    lines = ClaudeCode().user("Always use sk-proj-abc123def456ghi789jkl here.").answer("Yes.", prompt=900)
    lines.compact("It goes on.").answer("Go on.", prompt=800)
    app = page(lines.write(home / "-srv-parser" / "secret.jsonl"))
    assert [each.label for each in app.button if each.label in ("Follow", "Keep it")] == ["Keep it"]
    button(app, "Keep it").click().run()
    assert "sk-proj" not in str([each.value for each in app.code])


@pytest.mark.parametrize(
    ("person", "sees"),
    [
        (None, True),
        (Person("ana", role="owner"), True),
        (Person("ben", role="curator"), False),
        (Person("eve", role="owner", tenant="acme"), False),
    ],
)
def test_where_people_sign_in_only_owners_without_a_tenant_see_this_machines_sessions(home, person, sees):
    with acting_as(person):
        assert nav.reads_coding_agents() is sees


def test_an_address_cannot_lead_to_another_file(home):
    session_that_lost_a_rule(home)
    app = opened(code="Claude Code/../../etc/passwd")
    assert not app.exception
    assert "not on this machine" in " ".join(warning.value for warning in app.warning)


def test_the_session_that_the_command_names_is_opened_first(home, monkeypatch):
    path = session_that_lost_a_rule(home)
    monkeypatch.setenv("MEMORY_INSPECTOR_CODE_FILE", str(path))
    app = opened()
    assert not app.exception
    assert f"**{RULE} {TASK}**" in joined(app)
    button(app, "Back to the list").click().run()
    assert not app.exception
    assert app.dataframe


def talkative(home):
    """A session whose compaction kept what the user said, and nothing of what the agent said."""
    lines = ClaudeCode(folder="/srv/parser").user(f"{RULE} {TASK}")
    lines.answer("I will always compile the whole project first.", prompt=20_100)
    lines.compact(f"{RULE} {TASK}").answer("I go on.", prompt=20_900)
    return lines.write(home / "-srv-parser" / "21111111-2222-3333-4444-555555555555.jsonl")


def test_a_compaction_opens_with_what_it_did_to_the_users_sentences(home):
    assert "**Lost: 1 of your 2 sentences, a rule.**" in joined(page(session_that_lost_a_rule(home)))
    app = page(talkative(home))
    assert "**Kept: both of your sentences.**" in joined(app)
    app.session_state["code__speaker"] = "assistant"
    assert "**Kept: both of your sentences.**" in joined(app.run())


def test_talk_of_the_agent_is_no_rule_and_nothing_to_keep(home):
    app = page(talkative(home))
    app.session_state["code__speaker"] = "assistant"
    shown = joined(app.run())
    assert "I will always compile" in shown
    assert "gone" in shown
    assert ":gray-badge[rule]" not in shown
    assert "Keep it" not in [one.label for one in app.button]
    app = page(talkative(home), view="follow", words="I will always compile the whole project first.")
    assert "Not in the last prompt" in joined(app)
    assert "Keep it" not in [one.label for one in app.button]


def test_a_line_to_keep_counts_the_calls_since_it_was_said(home):
    app = page(session_that_lost_a_rule(home))
    button(app, "Keep it").click().run()
    assert "a call: about" in joined(app)
    assert "in the 4 calls since" in joined(app)


def test_beside_a_coding_session_no_page_of_other_sessions_is_offered(home):
    path = session_that_lost_a_rule(home)
    listed, opened_one = opened(), page(path)
    pages = [[link.proto.label for link in app.sidebar.get("page_link")] for app in (listed, opened_one)]
    assert {"Chat", "Lab", "Coding agents", "All sessions"} <= set(pages[0])
    assert pages[1] == ["Coding agents", "All sessions"]
    assert not opened_one.sidebar.selectbox
    assert listed.sidebar.selectbox
