import json

import pytest

from engine.completion import FinishReason
from engine.errors import RequestRejected
from engine.events import AnyEvent, BranchFailed, Grade, Graded, GradeOutcome
from engine.flow.agent import Agent, AgentType, Next
from engine.flow.context import Context, Skip
from engine.flow.executor import Walk
from engine.flow.flow import Flow
from engine.flow.flow_build import build_flow
from engine.flow.flow_file import read_flow
from engine.flow.graders import AgentGrader, AnswerGrader, AnswerGrader2, AnswerGraderBinary
from engine.flow.handlers import TextHandler
from engine.flow.voting import Grader, Grader2
from tests.helpers.scripted_completer import Answer, Reply, Request, ScriptedCompleter

PASS, FAIL = '{"qaExplanation": "fine", "qaPassed": true}', '{"qaExplanation": "too short", "qaPassed": false}'


async def walk(
    flow: Flow | AgentGrader, answers: list[Answer], **values: object
) -> tuple[Context, ScriptedCompleter, list[AnyEvent]]:
    completer = ScriptedCompleter(answers)
    events: list[AnyEvent] = []
    made = flow if isinstance(flow, Flow) else Flow(name="f", agents=(flow,))
    given = {"qaQuestion": "Q?", "qaAnswer": "A."} | values
    (context,) = await Walk(made, Context(given), completer, run_id="r", emit=lambda event: events.append(event)).run()
    return context, completer, events


def graded(events: list[AnyEvent]) -> list[tuple[bool, GradeOutcome | None, float | None]]:
    return [(event.passed, event.outcome, event.rating) for event in events if isinstance(event, Graded)]


@pytest.mark.parametrize(
    ("rating", "outcome", "number"),
    [
        ("61", GradeOutcome.PASSED, 61),
        ("60", GradeOutcome.FAILED, 60),
        ("85.5", GradeOutcome.PASSED, 85.5),
        (" 72/100", GradeOutcome.PASSED, 72),
        ("-3", GradeOutcome.FAILED, -3),
        ("good", GradeOutcome.UNPARSABLE, None),
    ],
)
async def test_ratings(rating: str, outcome: GradeOutcome, number: float | None) -> None:
    context, _, events = await walk(AnswerGrader2(), [json.dumps({"qaRating": rating, "qaExplanation": "so"})])
    passed = outcome is GradeOutcome.PASSED
    assert graded(events) == [(passed, outcome, number)]
    assert context["qaPassed"] == [passed]
    assert context["qaRating"] == [rating]
    assert context.grades["AnswerGrader2"] == Grade(outcome=outcome, rating=number, explanation="so", iteration=1)
    assert context.trace.text() == f"M, AnswerGrader2, {'✓' if passed else '✗'}"


async def test_what_is_missing_is_filled_in_and_is_no_verdict() -> None:
    context, _, events = await walk(AnswerGrader2(), ["{}"])
    assert graded(events) == [(False, GradeOutcome.UNPARSABLE, None)]
    assert (context.text("qaRating"), context.text("qaExplanation")) == ("0", "The examiner gave no rating.")
    context, _, _ = await walk(AnswerGrader2(), ['{"qaExplanation": "I cannot say"}'])
    assert context.text("qaExplanation") == "I cannot say"
    context, _, _ = await walk(AnswerGrader2(), ['{"qaRating": 45}'])
    assert context.text("qaExplanation") == "The examiner rated the answer 45 of 100 and gave no reason."
    context, _, events = await walk(AnswerGraderBinary(), ["{}"])
    assert graded(events) == [(False, GradeOutcome.UNPARSABLE, None)]
    assert context["qaPassed"] == [False]
    context, _, events = await walk(AnswerGraderBinary(), ['{"qaPassed": ["TRUE", false]}'])
    assert graded(events) == [(True, GradeOutcome.PASSED, None)]
    context, _, events = await walk(AnswerGraderBinary(), ['{"qaPassed": "perhaps"}'])
    assert graded(events) == [(False, GradeOutcome.UNPARSABLE, None)]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("no JSON at all", GradeOutcome.UNPARSABLE),
        ("", GradeOutcome.UNANSWERED),
        (Reply(content="", finish_reason=FinishReason.CONTENT_FILTERED), GradeOutcome.UNANSWERED),
        (RequestRejected("no", status=400), GradeOutcome.UNANSWERED),
    ],
)
async def test_a_grader_that_fails_gives_no_bad_grade(answer: Answer, outcome: GradeOutcome) -> None:
    context, _, events = await walk(AnswerGrader2(), [answer])
    assert context.error is not None
    assert graded(events) == [(False, outcome, None)]
    assert [type(event) for event in events if isinstance(event, Graded | BranchFailed)] == [Graded, BranchFailed]
    assert context.grades["AnswerGrader2"].outcome is outcome
    assert "✗" not in context.trace.text()


def loop(grader: AgentGrader, **fields: object) -> Flow:
    writer = Agent(
        "Writer",
        AgentType.COMPLETION,
        template="{{qaQuestion}} {{qaFeedback}}",
        handler=lambda _: TextHandler("qaAnswer"),
        choose_next=lambda _: Next.to(grader.name),
    )
    return Flow(name="loop", agents=(writer, grader))


async def test_the_feedback_loop_sends_back_once() -> None:
    flow = loop(AnswerGraderBinary("Check", feedback_to="Writer"))
    context, completer, events = await walk(flow, ["one", FAIL, "two", FAIL])
    assert context.trace.text() == "M, Writer, →, M, Check, ✗, →, M, Writer, →, M, Check, ✗"
    assert [event.iteration for event in events if isinstance(event, Graded)] == [1, 2]
    assert completer.requests[2].prompt.endswith("mend this: too short")
    assert '["one"]' in completer.requests[1].prompt
    assert [request.skip_cache for request in completer.requests] == [False, True, False, True]
    assert context["qaIteration"] == [2]


async def test_a_second_question_starts_counting_again() -> None:
    flow = loop(AnswerGraderBinary("Check", feedback_to="Writer"))
    completer = ScriptedCompleter(["one", FAIL, "two", FAIL, "three", FAIL, "four", PASS, "five", PASS])
    context = Context({"qaQuestion": "Q?"})
    for trace in (
        "M, Writer, →, M, Check, ✗, →, M, Writer, →, M, Check, ✗",
        "M, Writer, →, M, Check, ✗, →, M, Writer, →, M, Check, ✓",
        "M, Writer, →, M, Check, ✓",
    ):
        (context,) = await Walk(flow, context, completer, run_id="r", emit=lambda _: None).run()
        assert context.trace.text().split("‖, ")[-1] == trace
    assert context["qaIteration"] == [1]


async def test_two_graders_count_for_themselves() -> None:
    first = AnswerGraderBinary("First", feedback_to="Writer", decide=lambda _, passed: Next.to("Second"))
    second = AnswerGraderBinary("Second", feedback_to="Writer")
    flow = loop(first)
    flow = Flow(name="two", agents=(*flow.agents, second))
    context, _, _ = await walk(flow, ["1", FAIL, "2", PASS, FAIL, "3", PASS, PASS])
    assert context.trace.text() == (
        "M, Writer, →, M, First, ✗, →, M, Writer, →, M, First, ✓, →, M, Second, ✗, →, M, Writer, →, M, First, ✓, "
        "→, M, Second, ✓"
    )


async def test_a_context_from_elsewhere_goes_on_counting() -> None:
    grader = AnswerGraderBinary(feedback_to="AnswerGraderBinary")
    context, _, _ = await walk(grader, [FAIL], qaIteration=1, qaPassed=False, qaFeedbackLoopDestination="x")
    assert context["qaIteration"] == [2]
    context, _, _ = await walk(AnswerGraderBinary(), [FAIL], qaIteration="2", qaPassed="false")
    assert context["qaIteration"] == [1]


async def test_question_and_answer_are_templates_and_words_of_the_built_in_prompt() -> None:
    grader = AnswerGrader2("G", question="Is {{topic}} good?", answer="{{draft}}", descriptions=False)
    context, completer, _ = await walk(grader, ['{"qaRating": 90}'], topic="tea", draft='say "{{topic}}" [[topic]]')
    prompt = completer.requests[0].prompt
    assert '["Is tea good?"]' in prompt
    assert '["say \\"{{topic}}\\" [[topic]]"]' in prompt
    assert '{"qaRating": 0}' in prompt
    assert "qaExplanation" not in prompt
    schema = completer.requests[0].overrides["responseFormat"]
    assert isinstance(schema, dict)
    assert schema["required"] == ["qaRating"]
    assert context.text("qaAnswer") == 'say "{{topic}}" [[topic]]'
    _, completer, _ = await walk(AnswerGrader2(), ["{}"], qaOutputDescription="False")
    assert "qaExplanation" not in completer.requests[0].prompt
    _, completer, _ = await walk(AnswerGrader2(), ["{}"])
    assert "qaExplanation" in completer.requests[0].prompt
    assert not completer.requests[0].overrides


async def test_the_older_grader_has_its_own_keys() -> None:
    with pytest.warns(DeprecationWarning, match="use AnswerGrader2"):
        grader = AnswerGrader(question="Q {{n}}", answer="A")
    context, completer, events = await walk(grader, ['{"qaExplanation": "x"}'], n=1, qaRating="77")
    assert '["Q 1"]' in completer.requests[0].prompt
    assert context.text("questions") == "Q 1"
    assert graded(events) == [(True, GradeOutcome.PASSED, 77)]


async def test_a_skipped_grader_gives_no_mark() -> None:
    def skip(context: Context) -> None:
        context.skip_next = Skip.SKIP

    seen: list[bool] = []

    def decide(_: Context, passed: bool) -> Next:
        seen.append(passed)
        return Next()

    context, completer, events = await walk(AnswerGraderBinary(before=skip, decide=decide), [])
    assert (seen, graded(events), completer.requests) == ([True], [], [])
    assert context.trace.text() == "○, AnswerGraderBinary"


def built(*agents: dict[str, object], **fields: object) -> Flow:
    whole = {"format": "workbench.flow", "version": 1, "name": "F", "inputs": [{"key": "topic"}]}
    return build_flow(read_flow(json.dumps(whole | {"agents": agents} | fields)).spec)


WRITER: dict[str, object] = {
    "name": "Writer",
    "type": "COMPLETION",
    "template": "Write about {{topic}}",
    "handler": {"type": "text", "key": "draft"},
    "routes": [{"to": "Check"}],
}


def check(**fields: object) -> dict[str, object]:
    given = {"question": "About {{topic}}?", "answer": "{{draft}}", "feedback_to": "Writer"}
    routes = [{"when": "passed", "to": "Publish"}, {"to": None, "graded": False}]
    return {"name": "Check", "grader": "AnswerGraderBinary", "with": given, "routes": routes} | fields


PUBLISH: dict[str, object] = {"name": "Publish", "type": "PROCESSING_ONLY"}


async def test_graders_in_files() -> None:
    flow = built(WRITER, check(), PUBLISH)
    context, completer, _ = await walk(flow, ["one", FAIL, "two", PASS], topic="tea")
    assert context.trace.text() == "M, Writer, →, M, Check, ✗, →, M, Writer, →, M, Check, ✓, ○, Publish"
    assert '["About tea?"]' in completer.requests[1].prompt
    context, _, _ = await walk(flow, ["one", FAIL, "two", FAIL], topic="tea")
    assert context.trace.text() == "M, Writer, →, M, Check, ✗, →, M, Writer, →, M, Check, ✗"


async def test_a_feedback_destination_of_another_grader_is_not_taken_over() -> None:
    second = {"name": "Publish", "grader": "AnswerGrader2", "with": {"question": "q", "answer": "a"}}
    context, _, _ = await walk(built(WRITER, check(), second), ["one", PASS, '{"qaRating": 3}'], topic="tea")
    assert context.trace.text() == "M, Writer, →, M, Check, ✓, →, M, Publish, ✗"


async def test_own_words_replace_the_built_in_ones() -> None:
    own = check(
        syntax="jinja",
        system_prompt="Judge {{ topic | upper }}.",
        template="Text: {{ draft }}",
        few_shot=[{"user": "Text: x", "assistant": "{}"}],
        handler={"type": "json", "schema": {"type": "object"}},
        response_format="json_schema",
        after=[{"set": "qaPassed", "to": "score | int > 3"}],
        **{"with": {"question": "{{ topic }}?", "answer": "{{ draft | length }}"}},
    )
    context, completer, _ = await walk(built(WRITER, own, PUBLISH), ["four", '{"score": 4}'], topic="tea")
    turns = completer.requests[1].turns
    assert turns == [["system", "Judge TEA."], ["user", "Text: x"], ["assistant", "{}"], ["user", "Text: four"]]
    assert completer.requests[1].overrides["responseFormat"] == {"type": "object"}
    assert (context.text("qaQuestion"), context.text("qaAnswer")) == ("tea?", "4")
    assert context.trace.text().endswith("Check, ✓, ○, Publish")
    # The built-in prompt stays one with placeholders in braces, whatever the syntax of the others.
    half = check(syntax="jinja", system_prompt="Judge {{ topic }}.")
    _, completer, _ = await walk(built(WRITER, half, PUBLISH), ["four", PASS], topic="tea")
    assert completer.requests[1].turns[0][1] == "Judge tea."
    assert '["four"]' in completer.requests[1].prompt


async def test_muted_feedback_and_a_bypassed_grader() -> None:
    muted = {**PUBLISH, "name": "Mend", "state": "mute", "routes": [{"to": "Check"}]}
    given = {"question": "q", "answer": "a", "feedback_to": "Mend"}
    context, _, _ = await walk(built(WRITER, check(**{"with": given}), PUBLISH, muted), ["one", FAIL], topic="tea")
    assert context.trace.text() == "M, Writer, →, M, Check, ✗"
    context, _, _ = await walk(built(WRITER, check(state="bypass"), PUBLISH), ["one"], topic="tea")
    assert context.trace.text() == "M, Writer, ○, Check, ○, Publish"


@pytest.mark.parametrize(
    ("answers", "votes", "outcome"),
    [
        (["true"], 2, GradeOutcome.PASSED),
        (["True.", ' "TRUE" '], 2, GradeOutcome.PASSED),
        (["false"], 2, GradeOutcome.FAILED),
        (["true", "false", "true", "true"], 4, GradeOutcome.PASSED),
        (["true", "false", "true", "false", "true", "false", "true"], 7, GradeOutcome.PASSED),
        (["false", "true", "false", "true", "false", "true", "no"], 7, GradeOutcome.FAILED),
        (["It is true that"], 2, GradeOutcome.UNPARSABLE),
        ([""], 2, GradeOutcome.UNANSWERED),
    ],
)
async def test_votes(answers: list[Answer], votes: int, outcome: GradeOutcome) -> None:
    completer = ScriptedCompleter(answers)
    vote = await Grader2(completer).assess("Is it {so}?", "It is.")
    assert (len(vote.answers), vote.outcome, bool(vote)) == (votes, outcome, outcome is GradeOutcome.PASSED)
    assert vote.statistic.requests == votes
    assert all(request.skip_cache for request in completer.requests)
    assert "Is it {so}?" in completer.requests[0].prompt


async def test_the_older_vote_asks_the_category_m() -> None:
    asked: list[str] = []

    def answer(request: Request) -> Answer:
        asked.append(request.profile.category)
        return "true"

    with pytest.warns(DeprecationWarning, match="use Grader2"):
        grader = Grader(ScriptedCompleter(answer))
    assert await grader.assess("q", "t")
    assert asked == ["M", "M"]
