"""What the thinking did to an answer, and the answer inside of a thinking."""

import pytest

from engine.completion import Completion, FinishReason, ReasoningAudit
from engine.conversation import ToolCall
from engine.reasoning_audit import answer_inside, audit, thinking_as_answer
from engine.statistics import CompletionStatistics

LIMIT = FinishReason.TOKEN_LIMIT_REACHED


def answered(content: str, reasoning: str, finish: FinishReason = FinishReason.DONE, **more: object) -> Completion:
    return Completion(content=content, reasoning=reasoning, finish_reason=finish, **more)  # type: ignore[arg-type]


def used(out: int, thought: int) -> CompletionStatistics:
    return CompletionStatistics(requests=1, out_tokens=out, reasoning_out_tokens=thought)


@pytest.mark.parametrize(
    ("completion", "found"),
    [
        (answered("Paris", "hm"), None),
        (answered("", ""), None),
        (answered("", "", LIMIT), None),
        (answered(" \n", "I think"), ReasoningAudit.ANSWER_EMPTY),
        (answered("", "I think", LIMIT), ReasoningAudit.LIMIT_SPENT),
        (answered("", "I think\nFinal answer: Paris"), ReasoningAudit.ANSWER_INSIDE),
        (answered("", "I think</think>Paris", LIMIT), ReasoningAudit.ANSWER_INSIDE),
        (answered("Par", "I think", LIMIT, statistics=used(10, 90)), ReasoningAudit.LIMIT_SPENT),
        (answered("Par", "I think", LIMIT, statistics=used(90, 10)), None),
        (answered("Par", "I think", LIMIT), None),
        (answered("", "I think", FinishReason.STOPPED), None),
        (answered("", "I think", FinishReason.ERROR), None),
        (answered("", "I think", FinishReason.CONTENT_FILTERED), None),
        (answered("", "I call", tool_calls=(ToolCall(id="1", name="t", arguments="{}"),)), None),
        (answered("", "I think", from_thinking=True), None),
    ],
)
def test_what_is_wrong_with_an_answer(completion: Completion, found: ReasoningAudit | None) -> None:
    assert audit(completion) is found


@pytest.mark.parametrize(
    ("thinking", "answer"),
    [
        ("so it is</think>\n\nParis", "Paris"),
        ("a</think>b</thinking> c", "c"),
        ("we end</think>", ""),
        ("Answer: no\nbut wait\n**Final answer:** Paris\nin France", "Paris\nin France"),
        ("> Answer: 42", "42"),
        ("the answer: is unclear to me", "is unclear to me"),
        ("I look for an answer: none", ""),
        ("最终答案：巴黎", "巴黎"),
        ('I build it\n```json\n{"a": 1}\n```\n', '{"a": 1}'),
        ("```\ncode\n```\nand more thinking", ""),
        ("nothing of the kind", ""),
    ],
)
def test_a_thinking_may_say_what_its_answer_is(thinking: str, answer: str) -> None:
    assert answer_inside(thinking) == answer
    assert thinking_as_answer(f" {thinking} ") == (answer or thinking.strip())
