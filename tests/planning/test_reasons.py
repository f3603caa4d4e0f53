"""Why nothing was learned: every message of a batch led to something, or has exactly one reason."""

from engine_fakes import fact_row
from graph_fakes import found, graph_of
from hypothesis import given
from hypothesis import strategies as st

from memory_core.messages import ChatMessage
from memory_core.planning.consolidation import Decision, Settled, by_rule, prepare, settle
from memory_core.planning.fact_merging import ExtractedFact, KnownFact, plan_additions
from memory_core.planning.graph_changes import plan_relations, plan_same, relation_outcomes, retire
from memory_core.planning.learning_outcomes import Outcome, Reason, fact_outcomes, grouped, plan_reasons, unread

OTHERWISE = Reason("no_rule")

WORDS = ("The user likes tea", "The user likes jazz", "The user no longer likes jazz", "The user lives in Porto",
         "The user lives in Lisbon", "Ana plays the cello", "the user likes tea.")  # fmt: skip

known_facts = st.lists(
    st.tuples(st.sampled_from(WORDS), st.sampled_from(["active", "proposed", "rejected"])), max_size=4
)
found_facts = st.lists(st.tuples(st.sampled_from(WORDS), st.none() | st.integers(1, 5)), max_size=8)


def compared(known, texts):
    """What becomes of found facts that are only compared with the known ones."""
    plan = plan_additions(known, texts)
    confirmed = [Settled(c.index, "none", c.fact, None, "same", (), ()) for c in plan.confirm]
    added = [Settled(a.index, "add", None, texts[a.index].text, "new", (), ()) for a in plan.add]
    return [*confirmed, *added], plan.held_back


def decided(known, texts):
    """The same where the rules decide on each."""
    prepared = prepare(known, texts, nearest=5)
    choices = [by_rule(texts[i].text, None, compared) for i, compared in prepared.compared.items()]
    done = settle(prepared, choices, texts, active=[fact.id for fact in known])
    repeated = [Settled(i, "none", None, None, "repeated", (), (), other) for i, other in prepared.repeated.items()]
    return [*done.settled, *repeated], prepared.held_back


@given(known_facts, found_facts, st.dictionaries(st.integers(1, 7), st.just(Reason("question"))), st.booleans())
def test_every_message_is_the_source_of_something_or_has_exactly_one_reason(known, said, given_reasons, decides):
    batch = (1, 2, 3, 4, 5)
    facts = [fact_row(number, text, state=state) for number, (text, state) in enumerate(known, 1)]
    plain = [KnownFact(fact.id, fact.text, rejected=fact.state == "rejected") for fact in facts]
    texts = [ExtractedFact(text) for text, _ in said]
    steps, held_back = (decided if decides else compared)(plain, texts)
    placed = [(text, batch if source is None else (source,)) for text, source in said]
    outcomes = fact_outcomes(placed, steps, held_back, facts)
    reasons = plan_reasons(batch, outcomes, given_reasons, OTHERWISE)

    changed = {step.index for step in steps if step.act != "none" or step.target is not None}
    learned = {seq for index in changed for seq in placed[index][1]}
    assert learned | reasons.keys() == set(batch)
    assert not learned & reasons.keys()
    numbers = {fact.id: fact for fact in facts}
    for reason in reasons.values():
        if reason.code == "suppressed":
            assert numbers[reason.fact].state == "rejected"
        elif reason.code == "known":
            assert numbers[reason.fact].state != "rejected"
    assert sorted(seq for _, some in grouped(reasons) for a, b in some for seq in range(a, b + 1)) == sorted(reasons)


def test_a_fact_of_which_nobody_knows_the_message_counts_for_all_of_the_batch():
    assert plan_reasons((1, 2), [Outcome((1, 2))], {1: Reason("question")}, OTHERWISE) == {}


def test_what_became_of_a_messages_own_words_goes_before_what_the_learner_says_of_it():
    outcomes = [Outcome((1, 2), Reason("suppressed", 3)), Outcome((1,), Reason("known", 7))]
    given_reasons = {1: Reason("question"), 2: Reason("question")}
    reasons = plan_reasons((1, 2, 3), outcomes, given_reasons, OTHERWISE)
    assert reasons == {1: Reason("known", 7), 2: Reason("question"), 3: OTHERWISE}


def test_a_batch_without_a_message_has_no_reasons():
    assert plan_reasons((), [], {}, OTHERWISE) == {}


def test_a_decision_for_nothing_beside_a_fact_that_was_not_compared_names_that_fact():
    known = [fact_row(7, "The user likes tea")]
    step = Settled(0, "none", None, None, "same", (), ())
    [outcome] = fact_outcomes([("the user likes tea", (1,))], [step], [], known)
    assert outcome.reason == Reason("known", 7)


def test_a_message_is_not_read_because_of_who_says_it():
    memory_tool = {"name": "core_memory_append"}
    said = {
        "assistant": ChatMessage(role="assistant", content="Hello"),
        "not_read": ChatMessage(role="tool", content="20 degrees"),
        "repeats_memory": ChatMessage(role="tool", content="Ana is allergic", additional_kwargs=memory_tool),
    }
    assert {code: unread(message).code for code, message in said.items()} == {code: code for code in said}


def of_relations(graph, *texts):
    """Reasons by message of relations that the messages 1, 2, ... say."""
    said = [each for seq, text in enumerate(texts, 1) for each in found(text, sources=(("s", seq),))]
    plan = plan_relations(plan_same(graph, said).applied_to(graph), said)
    return plan_reasons(range(1, len(texts) + 1), relation_outcomes(graph, said, plan), {}, OTHERWISE)


def test_relations_that_change_nothing_leave_a_reason():
    known = graph_of("Ana | likes | tea; Bo | likes | jazz")
    graph = retire(known, [known.relations[1]]).applied_to(known)
    reasons = of_relations(graph, "Ana | likes | tea", "it | likes | tea", "Rui | likes | jam", "Rui | likes | jam", "")
    assert reasons == {1: Reason("suppressed"), 2: Reason("refused"), 5: OTHERWISE}


def test_two_names_of_one_entity_are_news_once():
    graph = graph_of("Annabel | likes | tea; Rui | likes | jam")
    first = of_relations(graph, "Ana | same as | Annabel", "Ana | same as | Annabel")
    assert first == {2: Reason("repeated")}
    merged = of_relations(graph, "Rui | same as | Annabel")
    assert merged == {}
    plan = plan_relations(graph, found("Ana | same as | Annabel"))
    assert of_relations(plan.applied_to(graph), "Ana | same as | Annabel") == {1: Reason("known")}


def test_a_choice_that_ends_a_fact_leads_to_something():
    known = [KnownFact(1, "The user likes jazz")]
    texts = [ExtractedFact("The user no longer likes jazz")]
    prepared = prepare(known, texts, nearest=5)
    done = settle(prepared, [Decision("delete", 1)], texts, active=[1])
    [outcome] = fact_outcomes([(texts[0].text, (1,))], done.settled, prepared.held_back, [fact_row(1, known[0].text)])
    assert outcome.reason is None
