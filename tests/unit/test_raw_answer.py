"""Raw answers taken apart: each format by its rule, and however the text is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.prompt_strategies import strategy_named, strategy_names
from engine.raw_answer import separated

FINAL, ANALYSIS = "<|channel|>final<|message|>", "<|channel|>analysis<|message|>"


@pytest.mark.parametrize(
    ("name", "raw", "response", "reasoning"),
    [
        ("chatml", " a <|im_end|> b <|im_end|>\n", "a  b", None),
        ("mistral", "x</s><|im_end|>", "x", None),
        ("noop", "\n <s>x ", "<s>x", None),
        ("llama3", " \n<|eot_id|> ", "", None),
        ("qwen3", "Yes", "Yes", None),
        ("qwen3", "<think>\n\n</think>\n\nYes", "Yes", None),
        ("qwen3", "<think>half a", "", "half a"),
        ("qwen3", "<|im_start|>assistant\n<think>t</think>Yes<|im_end|>\n<|im_start|>user\nmore", "Yes", "t"),
        ("qwen3", "The tag </think> ends <think>ing.", "The tag </think> ends <think>ing.", None),
        ("qwen3", "<think>a <think> b</think>c</think>d", "c</think>d", "a <think> b"),
        ("qwen3.5", "<think>\nt</think>Yes<|im_end|>", "Yes", "t"),
        ("qwen3.5", "\nthinking on", "", "thinking on"),
        ("qwen3.5", "Yes<|im_end|>", "Yes", None),
        ("qwen3.5", "</think>Yes", "Yes", None),
        ("gemma4", "<|channel>thought\nhm", "", "hm"),
        ("gemma4", "<|channel>thought\n<channel|>Yes<turn|>rest", "Yes", None),
        ("gemma4", "<|turn>model\nYes", "Yes", None),
        ("gpt-oss", "plain <b>text</b>", "plain <b>text</b>", None),
        ("gpt-oss", f"{ANALYSIS}t<|end|><|start|>assistant{FINAL}a<|end|><|start|>assistant{FINAL}b", "a", "t"),
        ("gpt-oss", "<|channel|>commentary json<|message|>{}<|call|>", "", None),
        ("gpt-oss", f" to=functions.f<|channel|>commentary<|message|>x<|end|><|start|>assistant{FINAL}a", "a", None),
        ("gpt-oss", "to=you", "to=you", None),
        ("gpt-oss", "to be", "to be", None),
        ("gpt-oss", "t", "t", None),
        ("gpt-oss", f"{ANALYSIS}t{FINAL}a", "a", "t"),
        ("gpt-oss", "<|message|>a", "a", None),
        ("gpt-oss", "<|channel|>ana", "", None),
    ],
)
def test_by_the_rule(name: str, raw: str, response: str, reasoning: str | None) -> None:
    assert separated(strategy_named(name).answer_reader(), raw) == (response, reasoning)


@pytest.mark.parametrize(
    ("tags", "raw", "expected"),
    [
        ("on", " <think>t</think> a <think>b</s>", ("a <think>b", "t")),
        ("on", "a", ("a", None)),
        ("prefilled", "t</think>a", ("a", "t")),
        ("auto", "<think>t</think>a", ("<think>t</think>a", None)),
    ],
)
def test_think_tags_when_asked_for(tags: str, raw: str, expected: tuple[str, str | None]) -> None:
    assert separated(strategy_named("vicuna").answer_reader(tags), raw) == expected


def test_a_thought_cut_off_is_no_answer() -> None:
    answer = strategy_named("qwen3.5").answer_reader()
    thought, text = answer.feed("Let me see, the ")
    assert (thought, text) == ("Let me see, the", "")  # shown while it comes
    answer.cut_off = True
    assert answer.close() == ("", "")
    assert not answer.moved


PIECES = [
    "<think>", "</think>", "<|im_end|>", "<|im_start|>assistant\n", "<|channel>thought\n", "<channel|>", "<turn|>",
    "<|turn>model\n", "<|channel|>", "final", "analysis", "<|message|>", "<|start|>", "<|end|>", "<|return|>", "</s>",
    "<|eot_id|>", "<end_of_turn>", "assistant", " to=f", "a", "é", " ", "\n", "<", "|", "<|", "</", "<|im_",
]  # fmt: skip


@given(st.sampled_from(strategy_names()), st.lists(st.sampled_from(PIECES), max_size=14), st.data())
def test_cutting_makes_no_difference(name: str, parts: list[str], data: st.DataObject) -> None:
    raw = "".join(parts)
    whole = separated(strategy_named(name).answer_reader(), raw)
    places = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    answer = strategy_named(name).answer_reader()
    reasoning = content = ""
    for start, end in zip([0, *places], [*places, len(raw)], strict=True):
        thought, text = answer.feed(raw[start:end])
        reasoning, content = reasoning + thought, content + text
    thought, text = answer.close()
    reasoning, content = reasoning + thought, content + text
    assert (content, "" if answer.moved else reasoning) == (whole[0], whole[1] or "")
    assert (content, reasoning) == (content.strip(), reasoning.strip())


@given(st.sampled_from(["qwen3", "qwen3.5", "gemma4", "gpt-oss"]), st.text("ab \n<", max_size=8), st.text("ab \n<"))
def test_thought_and_answer_come_apart(name: str, thought: str, text: str) -> None:
    raw = {
        "qwen3": f"<think>{thought}</think>{text}<|im_end|>",
        "qwen3.5": f"{thought}</think>{text}<|im_end|>",
        "gemma4": f"<|channel>thought\n{thought}\n<channel|>{text}<turn|>",
        "gpt-oss": f"{ANALYSIS}{thought}<|end|><|start|>assistant{FINAL}{text}<|return|>",
    }[name]
    expected = (text.strip(), thought.strip() or None)
    assert separated(strategy_named(name).answer_reader(), raw) == expected
