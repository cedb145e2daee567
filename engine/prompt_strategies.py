"""Prompt formats of text completions: turns become the exact raw text a model family was trained with, and back.

A reserved mark inside a text (`<|im_end|>` in what a user wrote) could end the turn it stands in. It gets a backslash
behind its first character, `<\\|im_end|>`, which no tokenizer takes for the mark; one with backslashes there gets one
more, so the change can be undone.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.conversation import Role, Turn
from engine.errors import ProfileError
from engine.plugins import entry_points, installed
from engine.raw_answer import ChannelAnswer, PlainAnswer, RawAnswer, ThinkAnswer

_OPTIONAL = re.compile("⟨([^⟩]*)⟩")
_PLACE = re.compile(r"\{(?:s|u|a|both)\}")

_PIPES = ("<", r"\|[A-Za-z0-9_.:-]+\|>")
"""First character and rest of a reserved mark, as regular expressions: `<|name|>`."""
_SENTENCE = ("<", r"/?s>")
_GEMMA = ("<", r"(?:start_of_turn|end_of_turn|start_of_image|end_of_image|image_soft_token|bos|eos|pad|unk|mask)>")
_GEMMA4 = ("<", r"(?:\|[A-Za-z0-9_\"-]+|[A-Za-z0-9_\"-]+\||bos|eos|pad|unk|mask)>")
_INSTRUCTION = (r"\[", r"/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|ARGS)\]")
_HEADINGS = (r"(?m:^)#", r"## (?:Instruction|Input|Response):")
_SPEAKERS = (r"(?:(?m:^)|(?<=</s>))[UA]", r"(?:SER|SSISTANT):")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStrategy:
    """One prompt format.

    In the templates `{s}`, `{u}` and `{a}` stand for system, user and assistant text. What stands between ⟨ and ⟩ is
    left out when a text in it is blank; `{both}` stands for nothing there and needs system and user text.
    """

    name: str
    start: str
    """From the beginning to where the model goes on."""
    following: str
    """Appended for every later round: the assistant's answer, the next user text, and again where the model goes on.
    With `closed` without the answer."""
    ends: tuple[str, ...] = ()
    """What ends a turn; deleted from answers."""
    stops: tuple[str, ...] | None = None
    """Texts at which the server shall stop; None: `ends`."""
    reserved: tuple[tuple[str, str], ...] = ()
    """Marks that texts must not contain: regular expressions of the first character and of the rest."""
    aliases: tuple[str, ...] = ()
    opening: str = ""
    """Where the model goes on, the end of the prompt. An answer replaces it by its own."""
    header: str = ""
    """The part of `opening` that an answer may bring along."""
    closed: "Callable[[PromptStrategy, str], str] | None" = None
    """Closes an answer of the model in its own way; it has the header no more."""
    answer: Callable[[], RawAnswer] | None = None
    """Separates reasoning in the format's own way; None: it has none."""

    def render(self, turns: Sequence[Turn]) -> str:
        """The raw prompt; empty without a user turn. Raises ProfileError for a TOOL turn.

        The last system text before the first user turn counts. Neighbours of one role are joined by a line feed; an
        answer that no user turn follows is left out.
        """
        system, texts = _rounds(turns, self.name)
        if not texts:
            return ""
        system = self.neutralised(system)
        prompt = _filled(self.start, s=system, u=self.neutralised(texts[0]))
        for answer, user in zip(texts[1::2], texts[2::2], strict=False):
            prompt = self._answered(prompt, answer) + _filled(
                self.following, a=self.neutralised(answer), u=self.neutralised(user)
            )
        return prompt

    def _answered(self, prompt: str, answer: str) -> str:
        if self.closed is None:
            return prompt
        body = answer.removeprefix(self.header)
        return prompt.removesuffix(self.opening) + self.header + self.closed(self, body)

    def stop_texts(self) -> tuple[str, ...]:
        """Texts at which the server shall stop."""
        return self.ends if self.stops is None else self.stops

    def answer_reader(self, think_tags: str = "off") -> RawAnswer:
        """A new separator for one answer; `think_tags` on or prefilled splits a leading `<think>` block off.

        A format with reasoning of its own knows better and ignores them.
        """
        if self.answer is not None:
            return self.answer()
        if think_tags in ("on", "prefilled"):
            return ThinkAnswer(ends=self.ends, cuts=False, opened=think_tags == "prefilled")
        return PlainAnswer(self.ends)

    def neutralised(self, text: str) -> str:
        """The text with a backslash in every reserved mark; `restored` undoes it."""
        for first, rest in self.reserved:
            text = _pattern(rf"({first})(\\*)(?={rest})").sub(r"\1\\\2", text)
        return text

    def marks(self, prompt: str) -> list[tuple[int, int]]:
        """Where the marks of the format stand in a raw prompt: start and end of each, in order."""
        spans = [found.span() for first, rest in self.reserved for found in _pattern(first + rest).finditer(prompt)]
        return sorted(spans)

    def restored(self, text: str) -> str:
        """The text before `neutralised`."""
        for first, rest in reversed(self.reserved):
            text = _pattern(rf"({first})\\(\\*)(?={rest})").sub(r"\1\2", text)
        return text


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _filled(template: str, **texts: str) -> str:
    """The template with its texts, which are not looked at again."""
    texts["both"] = "" if not (texts.get("s", "").strip() and texts["u"].strip()) else "yes"
    kept = _OPTIONAL.sub(
        lambda part: part[1] if all(texts[name[1:-1]].strip() for name in _PLACE.findall(part[1])) else "", template
    )
    return _PLACE.sub(lambda place: "" if place[0] == "{both}" else texts[place[0][1:-1]], kept)


def _rounds(turns: Sequence[Turn], name: str) -> tuple[str, list[str]]:
    """System text, and user and assistant texts in turn, beginning with a user's."""
    system, texts = "", list[str]()
    last: Role | None = None
    for turn in turns:
        if turn.role is Role.TOOL:
            raise ProfileError(
                f"The prompt format {name} cannot hold the result of a tool.",
                hint="Use a chat profile for agents with tools, or functionCallType=none.",
            )
        if turn.role is Role.SYSTEM:
            system = turn.text if last is None else system
        elif turn.role is last:
            texts[-1] += f"\n{turn.text}"
        elif last is not None or turn.role is Role.USER:
            texts.append(turn.text)
            last = turn.role
    return system, texts


def _with_end(strategy: PromptStrategy, answer: str) -> str:
    """An answer, its end on a line of its own; one that brings its end along is not closed twice."""
    (end,) = strategy.ends
    body = answer.removesuffix("\n").removesuffix(end)
    if len(answer.removesuffix("\n")) > len(body):
        return f"{strategy.neutralised(body)}{end}\n"
    answer = strategy.neutralised(answer)
    return f"{answer}{'' if answer.endswith(chr(10)) else chr(10)}{end}\n"


_FINAL = "<|channel|>final<|message|>"
_FOREIGN_START = re.compile(r"(<)(\\*)(?=\|start\|>(?!assistant))")


def _with_channel(strategy: PromptStrategy, answer: str) -> str:
    """An answer in the final channel; one that brings its channels along stays, but cannot speak for others."""
    if _FINAL not in answer:
        return f"{_FINAL}{strategy.neutralised(answer)}<|end|>"
    answer = _FOREIGN_START.sub(r"\1\\\2", answer)
    return answer if answer.endswith("<|end|>") else f"{answer}<|end|>"


_IM_USER = "⟨<|im_start|>user\n{u}<|im_end|>\n⟩"
_IM_SYSTEM = "⟨<|im_start|>system\n{s}<|im_end|>\n⟩"
_IM_ASSISTANT = "<|im_start|>assistant\n"
_L3_USER = "<|start_header_id|>user<|end_header_id|>\n\n{u}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n"
_L4_USER = "<|header_start|>user<|header_end|>\n\n{u}<|eot|><|header_start|>assistant<|header_end|>\n"

_TABLE = (
    PromptStrategy(
        name="alpaca",
        start="⟨### Instruction:\n{s}\n\n⟩### Input:\n{u}\n\n### Response:\n",
        following="{a}\n\n### Input:\n{u}\n\n### Response:\n",
        ends=("</s>",),
        reserved=(_HEADINGS, _SENTENCE),
    ),
    PromptStrategy(
        name="chatml",
        start="⟨<|im_start|>system\n{s}<|im_end|>\n⟩<|im_start|>user\n{u}<|im_end|>\n<|im_start|>assistant\n",
        following="{a}<|im_end|>\n<|im_start|>user\n{u}<|im_end|>\n<|im_start|>assistant\n",
        ends=("<|im_end|>",),
        reserved=(_PIPES,),
    ),
    PromptStrategy(
        name="gemma2,3",
        aliases=("gemma", "gemma2", "gemma3"),
        start="<start_of_turn>user\n⟨{s}\n\n⟩{u}<end_of_turn>\n<start_of_turn>model\n",
        following="{a}<end_of_turn>\n<start_of_turn>user\n{u}<end_of_turn>\n<start_of_turn>model\n",
        ends=("<end_of_turn>",),
        reserved=(_GEMMA,),
    ),
    PromptStrategy(
        name="gemma4",
        start="⟨<|turn>system\n{s}<turn|>\n⟩⟨<|turn>user\n{u}<turn|>\n⟩<|turn>model\n",
        following="⟨<|turn>user\n{u}<turn|>\n⟩<|turn>model\n",
        ends=("<turn|>",),
        reserved=(_GEMMA4,),
        opening="<|turn>model\n",
        header="<|turn>model\n",
        closed=_with_end,
        answer=lambda: ThinkAnswer("<|channel>thought", "<channel|>", header="<|turn>model\n", ends=("<turn|>",)),
    ),
    PromptStrategy(
        name="gpt-oss",
        start="⟨<|start|>system<|message|>{s}<|end|>⟩<|start|>user<|message|>{u}<|end|><|start|>assistant",
        following="<|start|>user<|message|>{u}<|end|><|start|>assistant",
        ends=("<|end|>", "<|return|>"),
        stops=("<|return|>",),  # `<|end|>` also ends the analysis, before the answer
        reserved=(_PIPES,),
        opening="<|start|>assistant",
        header="<|start|>assistant",
        closed=_with_channel,
        answer=ChannelAnswer,
    ),
    PromptStrategy(
        name="llama3",
        start=f"<|begin_of_text|>⟨<|start_header_id|>system<|end_header_id|>\n\n{{s}}<|eot_id|>⟩{_L3_USER}",
        following=f"{{a}}<|eot_id|>{_L3_USER}",
        ends=("<|eot_id|>",),
        reserved=(_PIPES,),
    ),
    PromptStrategy(
        name="llama4",
        start=f"<|begin_of_text|>⟨<|header_start|>system<|header_end|>\n\n{{s}}<|eot|>⟩{_L4_USER}",
        following=f"{{a}}<|eot|>{_L4_USER}",
        ends=("<|eot|>",),
        reserved=(_PIPES,),
    ),
    PromptStrategy(
        name="mistral",
        start="<s>[INST]⟨{s}⟩⟨{both}\n⟩{u} [/INST]",
        following=" {a}</s> [INST] {u} [/INST]",
        ends=("</s>", "<|im_end|>"),
        reserved=(_INSTRUCTION, _SENTENCE, _PIPES),
    ),
    PromptStrategy(
        name="mistralNemo",
        start="<s>[INST]⟨{s}⟩⟨{both}\n⟩{u}[/INST]",
        following="{a}</s>[INST]{u}[/INST]",
        ends=("</s>", "<|im_end|>"),
        reserved=(_INSTRUCTION, _SENTENCE, _PIPES),
    ),
    PromptStrategy(name="noop", aliases=("no",), start="⟨{s}\n⟩⟨{u}⟩", following="{a}\n{u}"),
    PromptStrategy(
        name="phi3",
        start="<|user|>\n⟨{s}\n⟩{u} <|end|>\n<|assistant|>",
        following="\n{a}<|user|>\n{u}<|end|>\n<|assistant|>",
        ends=("<|end|>",),
        reserved=(_PIPES,),
    ),
    PromptStrategy(
        name="phi4",
        start="⟨<|im_start|>system<|im_sep|>\n{s}<|im_end|>\n⟩<|im_start|>user<|im_sep|>\n{u}<|im_end|>\n"
        "<|im_start|>assistant<|im_sep|>",
        following="\n{a}<|im_end|>\n<|im_start|>user<|im_sep|>\n{u}<|im_end|>\n<|im_start|>assistant<|im_sep|>",
        ends=("<|im_end|>",),
        reserved=(_PIPES,),
    ),
    PromptStrategy(
        name="qwen3",
        start=_IM_SYSTEM + _IM_USER + _IM_ASSISTANT,
        following=_IM_USER + _IM_ASSISTANT,
        ends=("<|im_end|>",),
        reserved=(_PIPES,),
        opening=_IM_ASSISTANT,
        header=_IM_ASSISTANT,
        closed=_with_end,
        answer=lambda: ThinkAnswer(header=_IM_ASSISTANT, ends=("<|im_end|>",)),
    ),
    PromptStrategy(
        name="qwen3.5",
        start=f"{_IM_SYSTEM}{_IM_USER}{_IM_ASSISTANT}<think>\n",
        following=f"{_IM_USER}{_IM_ASSISTANT}<think>\n",
        ends=("<|im_end|>",),
        reserved=(_PIPES,),
        opening=f"{_IM_ASSISTANT}<think>\n",
        header=_IM_ASSISTANT,
        closed=_with_end,
        answer=lambda: ThinkAnswer(header=_IM_ASSISTANT, ends=("<|im_end|>",), opened=True),
    ),
    PromptStrategy(
        name="vicuna",
        start="⟨{s}\n⟩USER: {u}\nASSISTANT:",
        following=" {a}</s>USER: {u}\nASSISTANT:",
        ends=("</s>",),
        reserved=(_SPEAKERS, _SENTENCE),
    ),
)

_by_name: dict[str, PromptStrategy] = {}


def register_strategy(strategy: PromptStrategy) -> None:
    """Make a prompt format known under its name and aliases; raises ValueError when one of them is taken."""
    names = [name.lower() for name in (strategy.name, *strategy.aliases)]
    if taken := [name for name in names if name in _by_name]:
        raise ValueError(f"there is a prompt format {taken[0]} already")
    _by_name.update(dict.fromkeys(names, strategy))


def strategy_names() -> list[str]:
    """The names of all prompt formats, without aliases."""
    return sorted({strategy.name for strategy in _by_name.values()})


def is_strategy(name: str) -> bool:
    """Whether there is a prompt format of this name or alias; imports nothing."""
    return name.strip().lower() in _by_name or name.strip() in entry_points("prompt_strategies")


def strategy_named(name: str) -> PromptStrategy:
    """The prompt format of this name or alias, in any case; raises ProfileError.

    Names that are not built in are looked up among the plug-ins; PluginError when one cannot be loaded.
    """
    found = _by_name.get(name.strip().lower())
    if found is None and name.strip():
        plugged = installed("prompt_strategies", name.strip(), PromptStrategy, what="PromptStrategy")
        found = plugged if isinstance(plugged, PromptStrategy) else None
    if found is None:
        what = f'There is no prompt format "{name}".' if name.strip() else "No prompt format is chosen."
        raise ProfileError(
            what, hint=f"Set prompts to one of: {', '.join(strategy_names())}.", facts={"key": "prompts", "value": name}
        )
    return found


for _strategy in _TABLE:
    register_strategy(_strategy)
