"""Model profiles: how to reach one model, its limits, sampling and prices."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from engine.statistics import Prices


class Provider(StrEnum):
    """Wire dialects; the values are those of `modelProvider` in profile files."""

    OPENAI_CHAT = "OAI_CHAT_COMPLETION"
    OPENAI_TEXT = "OAI_TEXT_COMPLETION"
    OPENAI_RESPONSES = "OAI_RESPONSES"
    OPENROUTER = "OPENROUTER"
    OLLAMA = "OLLAMA"
    ANTHROPIC = "ANTHROPIC_MESSAGES"
    AZURE = "AZURE_CHAT_COMPLETION"
    SCRIPTED = "SCRIPTED"


@dataclass(frozen=True, slots=True)
class Category:
    """A size or temperament label, mapped to a profile in `categories.properties`."""

    key: str
    """Property key (`profile.model.m`), or a profile name for a custom category."""
    label: str
    """Short name shown in the trace: S M L XL HOT COLD or your own."""

    SMALL: ClassVar["Category"]
    MEDIUM: ClassVar["Category"]
    LARGE: ClassVar["Category"]
    XLARGE: ClassVar["Category"]
    HOT: ClassVar["Category"]
    COLD: ClassVar["Category"]

    def __post_init__(self) -> None:
        if not self.key or not self.label:
            raise ValueError("a category needs a key and a label")

    @classmethod
    def named(cls, label: str) -> "Category":
        """The predefined category of this label, else a custom one whose key is the label."""
        return PREDEFINED_CATEGORIES.get(label) or cls(label, label)


Category.SMALL = Category("profile.model.s", "S")
Category.MEDIUM = Category("profile.model.m", "M")
Category.LARGE = Category("profile.model.l", "L")
Category.XLARGE = Category("profile.model.xl", "XL")
Category.HOT = Category("profile.model.hot", "HOT")
Category.COLD = Category("profile.model.cold", "COLD")

PREDEFINED_CATEGORIES: Mapping[str, Category] = MappingProxyType(
    {
        category.label: category
        for category in (
            Category.SMALL,
            Category.MEDIUM,
            Category.LARGE,
            Category.XLARGE,
            Category.HOT,
            Category.COLD,
        )
    }
)
"""The six categories every installation has, by label, in order of size."""

EMBEDDED_URL = "embedded"
"""The `url` of profiles that are served by the embedded server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """The optional keys of a profile (docs/profiles.md), one field each: seconds for times, tokens for budgets."""

    interface_url: str = ""
    api_version: str = ""
    auth_scheme: str = "auto"
    max_input_tokens: int = 0
    function_call_type: str = "function_call"
    parallel_tool_calls: bool = True
    ext_params: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    system_role: str = "system"
    max_tokens_param: str = "auto"
    omit_sampling: str = "auto"
    stream_usage: bool = True
    thinking_mode: str = "off"
    thinking_budget: int = 4000
    supports_images: bool = True
    supports_tools: bool = True
    supports_streaming: bool = True
    image_base_tokens: int = 85
    image_tile_tokens: int = 170
    image_max_edge: int = 1568
    image_max_tokens: int = 1600
    token_scale: float = 1.0
    ca_file: str = ""
    """Certificates that are trusted besides the usual ones."""
    key_over_http: bool = False
    """Whether the key may be sent unencrypted to another machine."""
    connect_timeout: float = 10.0
    first_token_timeout: float = 300.0
    idle_timeout: float = 120.0
    total_timeout: float = 0.0
    message_interval: tuple[int, int] = (1, 3)
    think_tags: str = "auto"
    max_retries: int = 2
    retry_base_delay: float = 1.0
    retry_max_delay: float = 30.0
    urls: tuple[tuple[str, int], ...] = ()
    """Endpoints with their weights."""
    lb_strategy: str = "round_robin"
    max_concurrent: int = 4
    requests_per_minute: int = 0
    fallback_profiles: tuple[str, ...] = ()
    sensitive_scope: str = ""
    """Empty: as the settings say; the style likewise."""
    sensitive_style: str = ""
    sensitive_allow_email_domains: tuple[str, ...] = ()
    """Besides those of the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """A resolved, valid profile. Value semantics: equal when all fields are."""

    name: str
    category: str
    """Short name shown in the trace."""
    provider: str
    """A `Provider`, or the name of a plug-in client."""
    model: str = ""
    """Empty: the first model the server lists."""
    url: str = ""
    api_key: str = field(default="", repr=False)
    key_variable: str = ""
    """The environment variable the file names for the key; empty: it names none."""
    max_tokens: int = 1024
    """Limit of the answer in tokens."""
    max_context: int = 0
    """Context length in tokens; 0 = unknown, not checked."""
    temperature: float = 0.0
    top_p: float = 1.0
    prices: Prices = field(default_factory=Prices)
    prompt_strategy: str = ""
    tokenizer: str = ""
    encoding: str = ""
    reasoning_effort: str | None = None
    reasoning_summary: str | None = None
    options: ProfileOptions = ProfileOptions()

    @property
    def origin(self) -> str:
        """Provider and model: what one signs or encrypts, no other can read."""
        return f"{self.provider} {self.model}"

    @property
    def sends_reasoning(self) -> bool:
        """Whether the thinking of earlier answers goes along as text, since the template of the model takes it."""
        return self.tokenizer == "llamaServer"

    @property
    def embedded(self) -> bool:
        """Whether the embedded server answers for this profile."""
        return self.url == EMBEDDED_URL


ProfileRef = ModelProfile | Category | str
"""A profile, a category, or the name of a profile."""

Overrides = Mapping[str, object]
"""Profile keys as written in files (`temperature`, `maxTokens`, `extParams`, …) with values for one call; also
`stop` (list of texts), `responseFormat` (JSON schema), `timeout` (seconds, total)."""
