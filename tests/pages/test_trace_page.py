"""The page Where did it go?, drawn and clicked in this process."""

import pytest
from engine_fakes import user
from pages_driver import button, dialog, joined, message_texts, opened, press, said

from memory_core import FactExtractionMemoryBlock, Memory
from memory_core.events import Ref
from memory_core.planning import curation as plans
from memory_core.tracing.watched import MAX_WATCHED
from memory_inspector.reading.event_rows import MAX_FOLLOWED, followable, label
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job
from ui.context.parts import followed
from ui.retrieval.tried_search import SearchPageState
from ui.tab import services

pytestmark = pytest.mark.slow

LOST = "Rui stays off meat"
NASTY = "<img src=x> **bold** :material/home: $x$"


def page(**query):
    return opened(page="trace", **{"session": "demo", **query})


def played(turns):
    """The demo, played on by so many turns."""
    shared = services.engine()
    job = shared.start("demo", f"played-{turns}", lambda job: play(job, shared.open("demo"), turns=turns, pace=0))
    assert job.wait(60)
    return shared.open("demo")


@pytest.fixture
def memory(demo_home):
    """The demo at turn 16, whose question finds what turn 4 said below the threshold."""
    return played(5)


def sentence(app):
    """The sentence the page ends in, without its mark of a heading."""
    return next(line for line in joined(app).splitlines() if line.startswith("## ")).removeprefix("## ")


def stages(app):
    """Name and icon of each stage of the first track."""
    titles = [each.value for each in app.markdown if each.value.startswith(":material/") and ": **" in each.value]
    return [(title.split("**")[1], title.split(":")[1].removeprefix("material/")) for title in titles]


def test_what_nobody_said_offers_nothing_that_could_be_done_to_it(memory):
    app = page(words="zebra")
    assert sentence(app) == "Never said in this session."
    assert not {"trace__quarantine", "trace__forget"} & {each.key for each in app.button}
    assert {"trace__quarantine", "trace__forget"} <= {each.key for each in page(words=LOST).button}


def test_a_fact_of_a_session_in_which_nothing_was_said_can_be_followed_and_forgotten(demo_home):
    shared = services.engine()
    curated = Memory.from_defaults(
        "curated",
        memory_blocks=[FactExtractionMemoryBlock(name="Facts")],
        database=shared.database,
        services=shared.services,
    )
    curated.facts.add("Ana is allergic to nuts")
    (fact,) = curated.facts.read("Facts")
    app = opened(page="trace", session="curated", follow=f"f{fact.id}")
    assert not app.exception
    assert "Ana is allergic to nuts" in joined(app)
    assert "Nothing was said yet." not in joined(app)
    assert {"trace__quarantine", "trace__forget"} <= {each.key for each in app.button}


def unfolded(app):
    """The page with its line of other copies opened."""
    app.session_state["trace__others"] = True
    return app.run()


def links(app):
    """What each link of the page follows."""
    return [each.proto.query_string for each in app.get("page_link") if "trace" in each.proto.page]


def test_what_the_agent_forgot_ends_in_the_rule_and_its_numbers_and_the_fix_brings_it_back(memory):
    app = page(words=LOST)
    trace = memory.trace(LOST)
    lost = trace.decisive
    assert (lost.rule, lost.name) == ("below_threshold", "found")
    assert sentence(app) == trace.sentence == f"Below the threshold of Earlier turns: {_numbers(lost)}."
    assert [name for name, icon in stages(app)[:7] if icon == "cancel"] == ["Found"]
    threshold = next(b for b in memory.blocks if b.name == "Earlier turns").settings["similarity_threshold"]
    press(app, "Lower the threshold of Earlier turns")
    lowered = next(b for b in services.engine().open("demo").blocks if b.name == "Earlier turns").settings
    assert lowered["similarity_threshold"] <= lost.numbers["score"] < threshold
    assert "## In the next prompt, as the session stands now." in joined(app)
    assert said(app)[0].startswith("Done: Lower the threshold of Earlier turns")
    press(app, "Undo")
    back = next(b for b in services.engine().open("demo").blocks if b.name == "Earlier turns").settings
    assert back["similarity_threshold"] == threshold


def _numbers(stage):
    return f"{stage.numbers['score']:.2f} < {stage.numbers['threshold']:.2f}"


def test_after_never_said_a_sentence_is_asked_for_and_no_button_writes_the_search_words(memory):
    before = [fact.text for fact in memory.facts.read("Facts")]
    app = page(words="purple elephants")
    assert sentence(app) == "Never said in this session."
    assert not [b.label for b in app.button if b.proto.type == "primary" or "fact" in b.label.casefold()]
    field = next(field for field in app.text_input if field.label == "The fact, as a sentence")
    assert field.value == ""
    field.set_value("Rui paints purple elephants.").run()
    assert [fact.text for fact in memory.facts.read("Facts")] == before
    taught = button(app, "Add it as a fact to Facts")
    assert taught.proto.type == "secondary"
    taught.click().run()
    assert [fact.text for fact in memory.facts.read("Facts")] == [*before, "Rui paints purple elephants."]
    assert "learned_later" in {track.decisive.rule for track in memory.trace("purple elephants").tracks}


def test_words_in_another_order_give_the_trace_of_their_message(memory):
    app = page(words="splitting wallets Rui fuss")
    trace = memory.trace("splitting wallets Rui fuss")
    assert trace.target.kind == "message"
    assert "Not word for word; all these words are in one message of turn" in joined(app)
    assert sentence(app) == trace.sentence


@pytest.mark.slow
def test_fixes_stand_in_the_order_of_what_others_lose_by_them(demo_home):
    memory = played(1)
    fixes = memory.trace.fixes(memory.trace(LOST))
    before, costs = fixes.now.context.plan, []
    for fix in fixes.offered:
        after = fix.foretold.context.plan
        inside = {piece.ref for part in after.granted for piece in part.pieces}
        lost = [piece.tokens for part in before.granted for piece in part.pieces if piece.ref.kind in ("fact", "unit")
                and piece.ref not in inside]  # fmt: skip
        queue = {message.seq for message in after.queue}
        lost += [message.tokens for message in before.queue if message.seq not in queue]
        assert sum(lost) == sum(fix.losses.values())
        assert all(f"{name.replace('queue', 'the queue')} loses {size} tokens" in fix.label
                   for name, size in fix.losses.items())  # fmt: skip
        costs.append(sum(lost))
    assert costs == sorted(costs)
    assert costs[0] == 0
    assert (fixes.offered[-1].kind, costs[-1]) == ("priority", 135)
    app = page(words=LOST)
    shown = [each for each in app.button if each.key.startswith("trace__apply_")]
    assert [each.proto.type for each in shown] == ["primary", *["secondary"] * (len(shown) - 1)]


def test_what_is_kept_word_for_word_was_stored_and_not_learned(memory):
    names = dict(stages(unfolded(page(words=LOST))))
    assert names["Stored"] == "check_circle"
    assert "Learned" in names, "the facts, which learned nothing from it"
    assert names["Learned"] == "cancel"


def test_what_the_last_prompt_lost_is_listed_and_nothing_else(demo_home):
    memory = services.engine().open("demo")
    assert "## Lost in the last prompt" not in joined(page())
    assert "Nothing was lost in the prompt of turn 11." in joined(page())
    memory = played(1)
    app = page()
    cut = memory.log.prompt(memory.log.history().turns[12].contexts[-1]).cuts
    lost = [entry.ref for each in cut for entry in each.entries]
    assert lost
    assert joined(app).count("cut from Earlier turns") == len(lost)


def test_a_phrase_is_typed_and_stays_in_the_address(memory):
    app = page()
    app.text_input(key="trace__words").set_value("allergic to nuts").run()
    assert sentence(app).startswith("In the prompt of turn 16, as fact 4 of Facts.")
    assert app.query_params["words"] == "allergic to nuts"
    assert {icon for _, icon in stages(app)[:7]} == {"check_circle"}


def test_an_earlier_turn_is_told_as_it_was(memory):
    assert sentence(page(words=LOST, turn="11")).startswith("In the prompt of turn 11, as a message of the queue.")
    app = page(follow="f4", turn="3")
    assert sentence(app).startswith("In the prompt of turn 3, as a message of the queue.")
    assert "Still in the queue: Facts sees the message at the next flush." not in joined(app), "one folded line"
    assert "Still in the queue: Facts sees the message at the next flush." in joined(unfolded(app))


def test_a_fact_that_was_erased_keeps_its_way_without_its_words(memory):
    fact = next(fact for fact in memory.facts.read("Facts") if fact.id == 4)
    memory.facts.desk("Facts").erase([fact])
    memory.build_context("What may Ana eat?")
    app = page(follow="f4")
    assert "(erased)" in joined(app)
    assert "Fact 4 was deleted for good by the user in turn 16." in joined(unfolded(app))
    assert "Ana is allergic to nuts" not in sentence(app)


def test_what_was_never_there_is_said_not_to_be_there(memory):
    (warning,) = page(follow="f4711").warning
    assert warning.value.replace("\\", "").startswith("There is no such fact in this session.")


def test_a_retired_fact_is_restored_where_its_loss_is_told(memory):
    desk = memory.facts.desk("Facts")
    desk.apply(plans.retire([fact for fact in desk.facts() if fact.id == 4], "wrong"))
    memory.blocks.remove("Earlier turns")
    memory.build_context("What may Ana eat?")
    app = page(follow="f4")
    assert sentence(app) == "Fact 4 was retired by the user in turn 16: wrong."
    press(app, "Restore fact 4")
    assert next(fact for fact in desk.facts() if fact.id == 4).state == "active"


def test_the_page_begins_with_what_the_last_prompt_lost(memory):
    app = page()
    assert links(app)[0].startswith("follow=") or "follow=" in links(app)[0]
    assert any("Careful with dessert" in each.proto.label for each in app.get("page_link"))


def test_a_fact_a_cut_and_a_stored_message_lead_to_it(memory):
    assert "follow=f4" in " ".join(links(opened(page="facts", session="demo", fact="4")))
    (cut,) = memory.log.history().turns[12].built.event.cuts
    assert f"follow={cut['refs'][0]}" in " ".join(links(opened(page="context", session="demo", turn="12")))
    app = opened(page="retrieval", session="demo")
    number = next(each.number for each in memory.retrieval.stored_turns("Earlier turns") if each.turn == 4)
    app.session_state["retrieval_asked"] = {"demo": SearchPageState(number=number)}
    assert f"follow=v{number}" in " ".join(links(app.run()))


def test_markup_that_is_followed_stays_words(memory):
    app = page(words=NASTY)
    assert sentence(app) == "Never said in this session."
    assert not any("<img" in each.value for each in app.markdown)
    memory.put_messages([*_said(NASTY)])
    app = page(words=NASTY)
    assert not app.exception
    assert NASTY not in [each.value for each in app.markdown]


def _said(words):
    from memory_core import ChatMessage

    return [ChatMessage(role="user", content=words)]


def test_an_empty_session_says_so(demo_home):
    from memory_core import Memory

    shared = services.engine()
    Memory.from_defaults("empty", database=shared.database, services=shared.services)
    assert "Nothing was said yet." in joined(page(session="empty"))


def test_a_message_is_followed_by_its_number(memory):
    app = page(follow="m1")
    trace = memory.trace(Ref.of("message", 1))
    assert sentence(app) == trace.sentence
    assert next(track.carrier.kind for track in trace.tracks if track.reached) == "fact"
    assert message_texts(app) == []


def test_one_sees_every_stage_in_words(memory):
    app = page(words=LOST)
    app.toggle(key="trace__in_words").set_value(True).run()
    told = next(each.value for each in app.dataframe if "What happened" in each.value.columns)
    assert list(told["What happened"]) == [stage.text for stage in memory.trace(LOST).tracks[0].stages]


def test_a_fix_that_is_not_possible_any_more_says_so(memory):
    app = page(words=LOST)
    services.engine().open("demo").blocks.remove("Earlier turns")
    press(app, "Lower the threshold")
    assert any("Earlier turns" in each.value for each in app.error)
    assert not app.exception


@pytest.mark.slow
def test_what_is_followed_can_be_watched_turn_by_turn_here_on_timeline_and_on_context(memory):
    app = page(words=LOST)
    assert "Watched" not in joined(app)
    app.session_state["trace_probe"] = True
    app.run()
    press(app, "Watch it turn by turn")
    assert memory.trace.watched == (LOST,)
    assert button(app, "Stop watching")
    presence = memory.trace.presence(LOST)
    for drawn in (app, opened(page="timeline", session="demo"), opened(page="context", session="demo")):
        assert "Last in the prompt of turn 11." in joined(drawn)
        assert presence.turns[-1].sentence in joined(drawn)
    earlier = opened(page="timeline", session="demo", turn="11")
    assert f"It drops out in turn 12: {next(presence.dropped()).sentence}" in joined(earlier)
    press(app, "Stop watching")
    assert memory.trace.watched == ()
    assert "Watched" not in joined(app)


def test_what_is_watched_and_was_forgotten_since_is_called_erased_and_can_be_let_go(memory):
    memory.trace.watch(Ref.of("message", 3))
    memory.reset()
    memory.put(user("Hello again"))
    app = opened(page="timeline", session="demo")
    assert any("erased" in each.proto.label for each in app.get("page_link"))
    press(app, "Stop watching")
    assert memory.trace.watched == ()


@pytest.mark.slow
def test_the_seventh_watched_thing_is_refused_in_a_sentence(memory):
    for number in range(MAX_WATCHED):
        memory.trace.watch(f"phrase {number}")
    app = page(words=LOST)
    app.session_state["trace_probe"] = True
    app.run()
    press(app, "Watch it turn by turn")
    refused = f"{MAX_WATCHED} items are watched already. Stop watching one of them first."
    assert [each.value.replace("\\", "") for each in app.error] == [refused]
    assert LOST not in memory.trace.watched


@pytest.mark.parametrize("name", ["timeline", "retrieval"])
def test_what_nobody_asked_is_listed_and_each_row_opens_its_trace(memory, name):
    app = opened(page=name, session="demo")
    assert "Questions that found nothing" not in joined(app)
    app.session_state["overlooked"] = True
    app.run()
    found = memory.trace.overlooked()
    assert f"**Questions that found nothing** :small[:gray[{len(found.empty_searches)} search" in joined(app)
    share = f"{len(found.unused['unit'])} of {found.kept['unit']} stored turns"
    assert f"**Stored, but never recalled** :small[:gray[{share}" in joined(app)
    followed = [query for query in links(app) if "follow=" in query]
    for ref in (found.empty_searches[0].best, *found.unused["unit"][:5]):
        assert any(f"follow={ref}" in query for query in followed)
    assert f"turn={found.empty_searches[0].turn}" in next(
        q for q in followed if f"follow={found.empty_searches[0].best}" in q
    )


def test_a_selected_fact_says_whether_it_is_in_the_shown_prompt_or_which_rule_keeps_it_out(memory):
    desk = memory.facts.desk("Facts")
    fact = next(fact for fact in desk.facts() if fact.state == "active")
    ref = Ref.of("fact", fact.id)

    def told(**query):
        app = opened(page="facts", session="demo", fact=str(fact.id), **query)
        return next(each.proto.label for each in app.get("page_link") if f"follow={ref}" in each.proto.query_string)

    def own(**given):
        return next(t.decisive.text for t in memory.trace(ref, **given).tracks if t.carrier.ref == ref)

    assert own() in told().replace("\\", "")
    desk.apply(plans.retire([fact], reason="Not so"))
    play(Job("on"), memory, turns=1, pace=0)
    assert own() == f"Fact {fact.id} was retired by the user in turn 16: Not so."
    assert own() in told().replace("\\", "")


# -- from a word of a prompt, a cut, an event -----------------------------------------------------------


def test_a_word_of_a_stored_turn_leads_to_who_said_it_with_the_word_marked(memory):
    unit = next(each for each in memory.retrieval.stored_turns("Earlier turns") if each.turn == 2)
    line = "user: Careful with dessert, Ana is allergic to nuts and it is serious."
    app = page(**followed({"ref": f"v{unit.number}", "words": line, "word": "nuts"}))
    text = joined(app)
    assert "**Said by the user in turn 2.**" in text
    assert ":blue-background[nuts]" in text
    assert sentence(app).startswith("In the prompt of turn 16, as fact 4 of Facts.")
    assert (app.query_params["follow"], app.query_params["words"], app.query_params["word"]) == (
        f"v{unit.number}", line, "nuts",
    )  # fmt: skip


def test_a_label_of_the_prompt_is_said_to_be_the_prompts_own(memory):
    unit = memory.retrieval.stored_turns("Earlier turns")[0]
    app = page(follow=f"v{unit.number}", words="user", word="user")
    assert "“user” is part of the prompt’s markup, not of this item." in joined(app)
    assert not app.warning


@pytest.mark.parametrize("asked", [{}, {"ref": "f1-f9"}, {"ref": "<b>"}, {"ref": None, "words": "nuts"}, {"ref": "q7"}])
def test_a_click_that_names_nothing_leads_nowhere(asked):
    assert followed(asked) == {}


def test_of_a_fact_all_is_followed_and_of_long_words_as_many_as_an_address_takes():
    assert followed({"ref": "f4", "words": "Ana is", "word": "Ana"}) == {"follow": "f4", "word": "Ana"}
    asked = followed({"ref": "m3", "words": "nuts " * 200, "word": "x" * 99})
    assert (len(asked["words"]), len(asked["word"])) == (300, 40)


def test_a_cut_is_followed_from_context_to_its_rule_and_to_where_its_words_are_otherwise(memory):
    built = memory.log.history().turns[12].built
    ref = Ref.of_cut(built.position, 1)
    assert f"follow={ref}" in " ".join(links(opened(page="context", session="demo", turn="12")))
    app = page(follow=str(ref), turn="12")
    trace = memory.trace(ref)
    assert sentence(app) == trace.sentence
    assert trace.sentence.startswith("Cut in turn 12: the prompt was 38 tokens over, and Earlier turns is cut first.")
    assert "A cut of Earlier turns" in joined(app)
    assert trace.cut.entries[0].otherwise == "Nothing else in memory carries it. It stays in Earlier turns."
    assert trace.cut.entries[0].otherwise in joined(app)
    assert not [each for each in app.button if "trace__quarantine" in each.key]
    assert not [each for each in app.get("popover") if "Test this" in str(each.proto)]
    press(app, "Follow")
    assert sentence(app) == memory.trace(trace.cut.entries[0].ref, turn=12).sentence
    (warning,) = page(follow="x1.1").warning
    assert warning.value.replace("\\", "").startswith("There is no cut 1 of a prompt at position 1")


def test_every_event_about_a_message_fact_relation_or_stored_turn_offers_to_follow_it(memory):
    named = {}
    for record in memory.events():
        refs = followable(record)
        named.setdefault(record.kind, set()).update(ref.kind for ref in refs)
        for ref in refs[:MAX_FOLLOWED]:
            assert memory.trace(ref).origin
    without = {kind for kind, kinds in named.items() if not kinds}
    assert without <= {
        "session_created", "session_imported", "configuration_changed", "block_added", "block_edited", "context_built",
        "delivery_done", "model_called",
    }  # fmt: skip
    assert named["message_added"] == named["flush_planned"] == {"message"}
    assert named["fact_added"] == {"fact", "message"}
    assert named["vectors_stored"] == named["retrieved"] == {"unit"}


def test_the_drawer_of_an_event_leads_to_the_trace_of_what_it_is_about(memory):
    record = next(record for record in memory.events(kinds=("fact_added",)) if record.event.fact == 4)
    app = opened(page="timeline", session="demo", event=str(record.position))
    assert [each.label for each in app.button if each.label.startswith("Follow ")] == [
        label(ref) for ref in followable(record)
    ]
    assert label(followable(record)[0]) == "Follow fact 4"
    cut = memory.log.history().turns[12].built
    app = opened(page="timeline", session="demo", event=str(cut.position))
    assert button(app, "Follow this cut")


def page_links(app):
    return [each.proto.label for each in app.get("page_link")]


def test_what_is_in_quarantine_is_listed_and_released_here_and_named_on_other_pages(memory):
    app = page(words="allergic to nuts")
    assert button(app, "Quarantine")
    memory.session.quarantine("allergic to nuts")
    app = page(words="allergic to nuts")
    assert ":orange[1 set in quarantine]" in page_links(app)
    assert any(each.value.startswith(":small[Message") and "allergic to nuts" in each.value for each in app.markdown)
    [number] = [one.number for one in memory.session.quarantined()]
    assert any(each.key == f"quarantine__release_{number}" for each in app.button)
    assert any("In quarantine" in label for label in page_links(opened(session="demo")))
    app = press(app, "Release")
    assert memory.session.quarantined() == []
    assert said(app) == ["Released."]
    button(app, "Undo").click().run()
    assert len(memory.session.quarantined()) == 1


def test_the_dialog_foretells_the_next_prompt_and_takes_only_ticked_rows(memory):
    shown = dialog("ui.parts.forgetting", "quarantine_dialog", "demo", "allergic to nuts")
    text = joined(shown)
    foretold = memory.preview.quarantine(memory.session.quarantine("allergic to nuts", preview=True)).context
    assert f"**{foretold.plan.total:,}** tokens" in text or f"{foretold.plan.total:,} tokens" in text
    button(shown, "Quarantine").click().run()
    assert memory.preview.next_prompt().context.plan.total == foretold.plan.total
    none = dialog("ui.parts.forgetting", "quarantine_dialog", "demo", "zz")
    assert "at least 3 characters" in joined(none)
