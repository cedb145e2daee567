"""What a person may set about the engine; one file in the data folder, for the window and the command line alike."""

import logging
import re
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from engine.alarms import AlarmLimits
from engine.atomic_file import read_limited, write_atomically
from engine.errors import StorageError
from engine.guards import Spending
from engine.sensitive import SCOPES, STYLES, Masking, custom_rule

log = logging.getLogger(__name__)

SIZE_LIMIT = 1_000_000
_ENVIRONMENT = re.compile(r"[A-Za-z0-9_-]{1,40}")
_PROXY = re.compile(r"http://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Cache, limits, history and logging. Budgets count in currency units of the profiles' prices; None = no limit."""

    cache: bool = True
    """Whether answers are kept and given again."""
    cache_megabytes: int = 200
    """Of kept answers; 1 MB = 1,000,000 bytes."""
    cache_days: int = 30
    """How old a kept answer may be; 0 = any age."""
    requests_per_minute: int = 0
    """Of each endpoint; 0 = only what a profile says itself."""
    tokens_per_minute: int = 0
    """Of each endpoint; 0 = no limit."""
    run_budget: Spending = field(default_factory=Spending)
    """What one run may use."""
    day_budget: Spending = field(default_factory=Spending)
    """What all runs of a day may use, in local time."""
    alarms: AlarmLimits = field(default_factory=AlarmLimits)
    """When to tell of runs that cost much, fail, are slow or lose parts of their prompts."""
    breaker: bool = True
    """Whether an endpoint that fails five times in a row is left alone for a while."""
    logging: bool = False
    """Whether each request is logged as one line, without its text."""
    history_days: int = 0
    """How old a recorded run may be when the window starts; 0 = any age."""
    environment: str = ""
    """Name of the environment whose profiles lie over the others (docs/profiles.md); empty = none."""
    interceptors: tuple[str, ...] = ()
    """Names of interceptors of installed packages, in their order."""
    prompt_language: str = "en"
    """Of the prompts of agents and tools: a language or variant the library has texts in, else English is used."""
    tool_folders: tuple[str, ...] = ()
    """Folders the tool `read_file` may read."""
    tool_hosts: tuple[str, ...] = ()
    """Hosts the tool `http_get` may ask, with a port where it is not the usual one."""
    proxy: str = ""
    """Through which all requests go but those to this machine, as http://host:port; empty = none."""
    ca_file: str = ""
    """Whole path of a PEM file whose certificates all hosts may show, besides the usual ones; empty = none."""
    sensitive_scope: str = "tool_results"
    """What is masked where a profile does not say: `off`, `tool_results` or `all`."""
    sensitive_style: str = "partial"
    """How what is masked looks where a profile does not say: `partial` or `stars`."""
    sensitive_email_domains: tuple[str, ...] = ()
    """Domains whose addresses are never masked."""
    sensitive_patterns: dict[str, str] = field(default_factory=dict)
    """What is masked beside the built-in kinds, in this order: pattern → replacement (docs/sensitive-data.md)."""

    def __post_init__(self) -> None:
        for name in ("cache_megabytes", "cache_days", "requests_per_minute", "tokens_per_minute", "history_days"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more")
        if self.environment and not _ENVIRONMENT.fullmatch(self.environment):
            raise ValueError("environment must be a name of letters, digits, - and _, at most 40")
        if self.proxy and not _PROXY.fullmatch(self.proxy):
            raise ValueError("proxy must be an address like http://host:port, without user and password")
        if self.ca_file and not Path(self.ca_file).is_absolute():
            raise ValueError("ca_file must be the whole path of a file")
        for name, choices in (("sensitive_scope", SCOPES), ("sensitive_style", STYLES)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}")
        for pattern, replacement in self.sensitive_patterns.items():
            try:
                custom_rule(pattern, replacement)
            except re.error as error:
                raise ValueError(f"the sensitive pattern {pattern[:60]!r} is no expression: {error}") from error

    @property
    def max_age(self) -> float | None:
        """Seconds a kept answer may be old; None = any age."""
        return self.cache_days * 86_400.0 if self.cache_days else None

    @property
    def masking(self) -> Masking:
        """How personal data is masked where a profile says nothing else."""
        masking = Masking(style=self.sensitive_style, allow_email_domains=self.sensitive_email_domains)
        return masking.with_patterns(self.sensitive_patterns)

    @classmethod
    def load(cls, path: Path) -> "EngineSettings":
        """Read the settings; a missing or damaged file gives the defaults (the latter with a warning in the log)."""
        if not path.exists():
            return cls()
        try:
            return msgspec.json.decode(read_limited(path, SIZE_LIMIT), type=cls)
        except (StorageError, msgspec.MsgspecError, ValueError) as error:
            log.warning("The settings %s cannot be read, the defaults hold: %s", path.name, error)
            return cls()

    def save(self, path: Path) -> None:
        """Write the settings; raises StorageError."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            hint = f"Check that {path.parent} is a folder that can be written to."
            raise StorageError(
                f"The settings cannot be saved: {error}.", hint=hint, facts={"path": str(path)}
            ) from error
        write_atomically(path, msgspec.json.format(msgspec.json.encode(self), indent=2))
