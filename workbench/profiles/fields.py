"""The fields of the form: which key stands where, what it is called, what helps, and whose it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from engine.profile import Provider
from engine.profile_keys import KEYS

translate = QCoreApplication.translate

CHAT = frozenset({Provider.OPENAI_CHAT, Provider.OPENROUTER, Provider.AZURE})
OPENAI = CHAT | {Provider.OPENAI_RESPONSES}
SERVED = frozenset(Provider) - {Provider.SCRIPTED}


@dataclass(frozen=True, slots=True)
class Field:
    """One key in the form."""

    key: str
    label: str
    help: str = ""
    providers: frozenset[str] = frozenset(Provider)
    """Whose profiles have it; one that is set is always shown."""

    @property
    def choices(self) -> tuple[str, ...]:
        """The values there are, where they are few."""
        return KEYS[self.key].choices


@dataclass(frozen=True, slots=True)
class Group:
    """A section of the form."""

    title: str
    fields: Sequence[Field]
    is_open: bool = False


def groups() -> tuple[Group, ...]:
    """All sections, in the language of the window."""
    return (
        Group(translate("profiles", "Connection"), _connection(), is_open=True),
        Group(translate("profiles", "Sampling"), _sampling(), is_open=True),
        Group(translate("profiles", "Price, $ per million tokens"), _prices(), is_open=True),
        Group(translate("profiles", "Limits"), _limits(), is_open=True),
        Group(translate("profiles", "Abilities"), _abilities()),
        Group(translate("profiles", "Time and repeats"), _times()),
        Group(translate("profiles", "Several servers, masking"), _others()),
    )


def _connection() -> tuple[Field, ...]:
    return (
        Field(
            "modelProvider", translate("profiles", "Provider"), translate("profiles", "The protocol its server speaks")
        ),
        Field(
            "url",
            translate("profiles", "Address"),
            translate("profiles", "http(s)://…, mostly up to /v1; embedded is the built-in model"),
            SERVED,
        ),
        Field(
            "modelName",
            translate("profiles", "Model"),
            translate("profiles", "Empty: the first one the server lists. Test fills the list"),
        ),
        Field("apiKey", translate("profiles", "Key"), "", SERVED),
        Field("apiVersion", translate("profiles", "API version"), "", frozenset({Provider.AZURE, Provider.ANTHROPIC})),
        Field("authScheme", translate("profiles", "Key is sent as"), "", SERVED),
        Field(
            "category",
            translate("profiles", "Short name"),
            translate("profiles", "How the trace names it, M for instance"),
        ),
    )


def _sampling() -> tuple[Field, ...]:
    return (
        Field(
            "temperature", translate("profiles", "Temperature"), translate("profiles", "0 repeats itself, 1 is lively")
        ),
        Field("topP", translate("profiles", "Top-p"), translate("profiles", "1 leaves nothing out")),
        Field("maxTokens", translate("profiles", "Answer limit"), translate("profiles", "Tokens, thinking included")),
        Field("reasoningEffort", translate("profiles", "Reasoning effort"), "", OPENAI),
        Field("thinkingMode", translate("profiles", "Thinking"), "", frozenset({Provider.ANTHROPIC})),
        Field(
            "thinkingBudget",
            translate("profiles", "Thinking budget"),
            translate("profiles", "Tokens, 1024 at least"),
            frozenset({Provider.ANTHROPIC}),
        ),
        Field(
            "prompts",
            translate("profiles", "Prompt format"),
            translate("profiles", "chatml, llama3, …: how turns become one text"),
            frozenset({Provider.OPENAI_TEXT}),
        ),
    )


def _prices() -> tuple[Field, ...]:
    return (
        Field("cost1MInTokens", translate("profiles", "In")),
        Field("cost1MCachedInTokens", translate("profiles", "Cached in"), translate("profiles", "Empty: as others")),
        Field("cost1MOutTokens", translate("profiles", "Out")),
        Field("cost1MReasoningOutTokens", translate("profiles", "Reasoning")),
    )


def _limits() -> tuple[Field, ...]:
    return (
        Field(
            "maxContextLength",
            translate("profiles", "Context length"),
            translate("profiles", "Tokens of prompt and answer together; 0: unknown"),
        ),
        Field("maxInputTokens", translate("profiles", "Prompt limit"), translate("profiles", "Tokens; 0: derived")),
        Field(
            "maxConcurrent",
            translate("profiles", "Requests at once"),
            translate("profiles", "Others wait in the queue and say so; 0: no limit"),
        ),
        Field("requestsPerMinute", translate("profiles", "Requests a minute"), translate("profiles", "0: no limit")),
        Field("tokenizer", translate("profiles", "Tokens counted by")),
        Field("tokenEncoding", translate("profiles", "Vocabulary")),
    )


def _abilities() -> tuple[Field, ...]:
    return (
        Field("functionCallType", translate("profiles", "Tools are called")),
        Field("supportsTools", translate("profiles", "Tools")),
        Field("parallelToolCalls", translate("profiles", "Several calls at once")),
        Field("supportsImages", translate("profiles", "Images")),
        Field("supportsStreaming", translate("profiles", "Streaming")),
        Field("streamUsage", translate("profiles", "Ask for usage"), "", CHAT | {Provider.OPENAI_TEXT}),
        Field("systemRole", translate("profiles", "Role of system prompts"), "", OPENAI),
        Field("maxTokensParam", translate("profiles", "Limit is sent as"), "", CHAT),
        Field("omitSampling", translate("profiles", "Leave sampling out"), "", SERVED),
        Field("thinkTags", translate("profiles", "Thinking tags"), "", SERVED),
        Field(
            "extParams",
            translate("profiles", "More parameters"),
            translate("profiles", 'A JSON object, {"top_k": 40} for instance'),
            SERVED,
        ),
    )


def _times() -> tuple[Field, ...]:
    seconds = translate("profiles", "Seconds")
    return (
        Field("connectTimeout", translate("profiles", "Connecting"), seconds, SERVED),
        Field("firstTokenTimeout", translate("profiles", "First token"), seconds, SERVED),
        Field("idleTimeout", translate("profiles", "Between tokens"), seconds, SERVED),
        Field(
            "totalTimeout",
            translate("profiles", "The whole answer"),
            translate("profiles", "Seconds; 0: no limit"),
            SERVED,
        ),
        Field(
            "maxRetries",
            translate("profiles", "Repeats"),
            translate("profiles", "After failures that may pass"),
            SERVED,
        ),
        Field(
            "fallbackProfiles",
            translate("profiles", "Fall back to"),
            translate("profiles", "Names of profiles, separated by commas"),
            SERVED,
        ),
    )


def _others() -> tuple[Field, ...]:
    return (
        Field(
            "urls",
            translate("profiles", "Addresses"),
            translate("profiles", "Instead of one: with weights, http://a/v1|2, http://b/v1|1"),
            SERVED,
        ),
        Field("lbStrategy", translate("profiles", "Chosen by"), "", SERVED),
        Field(
            "interfaceUrl",
            translate("profiles", "Path"),
            translate("profiles", "For gateways with other paths"),
            SERVED,
        ),
        Field("caFile", translate("profiles", "Certificates"), translate("profiles", "A PEM file of your own"), SERVED),
        Field("keyOverHttp", translate("profiles", "Key over http://"), "", SERVED),
        Field("sensitiveScope", translate("profiles", "Mask"), ""),
        Field("sensitiveStyle", translate("profiles", "Masked as"), ""),
        Field(
            "sensitiveAllowEmailDomains",
            translate("profiles", "Mail domains"),
            translate("profiles", "Addresses of these are not masked"),
        ),
    )


def provider_names() -> dict[str, str]:
    """What the dialects are called."""
    return {
        Provider.OPENAI_CHAT: translate("profiles", "OpenAI-compatible, chat completions"),
        Provider.OPENAI_TEXT: translate("profiles", "OpenAI-compatible, text completions"),
        Provider.OPENAI_RESPONSES: translate("profiles", "OpenAI, responses"),
        Provider.OPENROUTER: translate("profiles", "OpenRouter"),
        Provider.OLLAMA: translate("profiles", "Ollama"),
        Provider.ANTHROPIC: translate("profiles", "Anthropic, messages"),
        Provider.AZURE: translate("profiles", "Azure OpenAI"),
        Provider.SCRIPTED: translate("profiles", "Scripted, for tests"),
    }
