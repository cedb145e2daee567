"""Finds profiles and categories: bundled files, and over them the user's own."""

import contextlib
import copy
import difflib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from engine import bundled
from engine.api_keys import SecretLookup, is_reference, keyring_secret
from engine.atomic_file import read_limited, write_atomically
from engine.errors import Problem, ProfileInvalid, ProfileNotFound, StorageError
from engine.profile import PREDEFINED_CATEGORIES, Category, ModelProfile, ProfileRef
from engine.profile_builder import TOKENIZER_STRATEGY, Built, build_profile, invalid
from engine.profile_edit import with_property
from engine.profile_file import SIZE_LIMIT, PropertiesFile, parse_properties, read_file
from engine.profile_keys import KEYS, Fault, key_named

SUFFIX = ".properties"
CATEGORIES_FILE = "categories"
DEFAULTS_FILE = "default"

LOOK_SECONDS = 1.0
"""How often the user's files are looked at for changes while they are in use."""

MISS_SECONDS = 30.0
"""How long a secret that the keyring does not have is not asked for again: each look may wait for the desktop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEntry:
    """One profile file as it is listed."""

    name: str
    path: Path | None
    """None for a bundled profile."""
    profile: ModelProfile | None
    """None when the file has an error. Without its key when `missing` is not empty: for show only."""
    problems: tuple[Problem, ...] = ()
    """All faults and warnings of the file, missing placeholders last."""
    missing: tuple[str, ...] = ()
    """Messages about placeholders without a value."""
    settings: tuple[tuple[str, str], ...] = ()
    """Keys and values as written, in the order of the file; secrets are `***`, placeholders stay."""

    @property
    def bundled(self) -> bool:
        """Whether the profile came with the workbench."""
        return self.path is None

    @property
    def usable(self) -> bool:
        """Whether a run may use the profile now."""
        return self.profile is not None and not self.missing


class ProfileStore:
    """Profiles by name and by category. Files are read at first use, and again when they change or after `reload`.

    `user_dir` holds the user's own `.properties` files (it need not exist; None: bundled profiles only); a file there
    replaces the bundled one of the same name. Placeholders are looked up in the file, then in `environ` (None: that of
    the process), then by `secrets`; what those do not have is not asked for again within `MISS_SECONDS` (seconds of
    `clock`). A faulty file never keeps others from being used.
    """

    def __init__(
        self,
        user_dir: Path | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        secrets: SecretLookup = keyring_secret,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        found = _Secrets(secrets, clock)
        self._secrets = found
        self._files = _Files(user_dir, os.environ if environ is None else environ, found, clock)
        self._mapped: Mapping[str, str] = {}
        self._only = ""

    @property
    def environment(self) -> str:
        """Which environment's folder, `profiles.NAME` beside that of the user, lies over the profiles; empty: none.

        Its files replace single keys of the profiles of the same name. Secrets are then looked up as `NAME/KEY` only.
        """
        return self._files.environment

    @environment.setter
    def environment(self, name: str) -> None:
        if name != self._files.environment:
            self._files.environment = self._secrets.environment = name
            self.reload()

    def names(self) -> list[str]:
        """The names of all profiles, sorted."""
        return sorted(self._files.read().profiles.keys() | self._files.added.keys())

    def profiles(self) -> list[ProfileEntry]:
        """Every profile with its faults, sorted by name."""
        return [self.entry(name) for name in self.names()]

    def secrets(self) -> frozenset[str]:
        """The keys and header values of all profiles: what no export may hold."""
        found = (entry.profile for entry in self.profiles() if entry.profile is not None)
        return frozenset(text for one in found for text in (one.api_key, *one.options.headers.values()) if text)

    def entry(self, name: str) -> ProfileEntry:
        """One profile with its faults; raises ProfileNotFound."""
        self._require(name)
        if (added := self._files.added.get(name)) is not None:
            return ProfileEntry(name=name, path=None, profile=added)
        return _entry(name, self._files.paths.get(name), self._files.read().profiles[name], self._files.build(name))

    def check_text(self, name: str, data: bytes) -> ProfileEntry:
        """What the file of a profile would say with this text, without writing it; there need be no such profile."""
        file = parse_properties(data, f"{name}{SUFFIX}")
        return _entry(name, None, file, self._files.checked(name, file))

    def get(self, name: str) -> ModelProfile:
        """The profile of this name, ready for a run; raises ProfileNotFound, or ProfileInvalid with all its faults."""
        profile = self._load(name)
        return profile if profile.category else replace(profile, category=name)

    def categories(self) -> dict[str, str]:
        """The profile name for each category label: the predefined ones by size, then custom ones as written."""
        mapping = self._files.read().mapping
        labels = {category.key: label for label, category in PREDEFINED_CATEGORIES.items()}
        known = {label: mapping[key] for key, label in labels.items() if key in mapping}
        custom = {key: name for key, name in mapping.items() if key not in labels}
        return known | custom | dict(self._mapped)

    def resolve(self, ref: ProfileRef) -> ModelProfile:
        """Find the profile for a category, a name or a profile itself; raises ProfileNotFound or ProfileInvalid."""
        label = ref.label if isinstance(ref, Category) else ""
        if self._only:
            name = self._only
        elif isinstance(ref, ModelProfile):
            if not ref.category:
                raise ProfileInvalid(f"Profile {ref.name} has no category.", hint="Give it a category, for instance M.")
            return ref
        else:
            name = self._name_for(ref) if isinstance(ref, Category) else ref
        profile = self._load(name)
        return profile if profile.category else replace(profile, category=label or name)

    def problems(self) -> list[Problem]:
        """All faults: those of `categories.properties`, then those of every profile."""
        return [*self._category_problems(), *(problem for entry in self.profiles() for problem in entry.problems)]

    def with_map(self, mapping: Mapping[str, str]) -> "ProfileStore":
        """A view for one run in which these category labels (or keys) have other profiles; raises ProfileNotFound."""
        labels = {category.key: label for label, category in PREDEFINED_CATEGORIES.items()}
        for name in mapping.values():
            self._require(name)
        view = copy.copy(self)
        view._mapped = dict(self._mapped) | {labels.get(label, label): name for label, name in mapping.items()}
        return view

    def with_profile(self, name: str) -> "ProfileStore":
        """A view for one run in which every agent gets this profile; raises ProfileNotFound."""
        self._require(name)
        view = copy.copy(self)
        view._only = name
        return view

    def reload(self) -> None:
        """Forget what was read; the next use reads files, environment and keyring again, for all views."""
        self._files.forget()

    def add(self, profile: ModelProfile) -> None:
        """Offer a profile made in the program under its name, before any file of that name; for all views."""
        if not profile.name or not profile.category:
            raise ProfileInvalid("A profile made in the program needs a name and a category.", hint="Set both.")
        self._files.added[profile.name] = profile

    def map_category(self, label: str, name: str | None) -> None:
        """Write into the user's `categories.properties` which profile answers for a category; None: as bundled.

        The label is a predefined one (`M`) or that of a category of your own. Raises ProfileNotFound, StorageError, and
        ProfileInvalid for a label that is none.
        """
        key = Category.named(label).key if label.strip() == label and label else ""
        if not key or key == TOKENIZER_STRATEGY:
            raise ProfileInvalid(f'"{label[:60]}" is not a category.', hint="Name one, for instance M.")
        folder = self._files.user_dir
        if folder is None:
            raise ProfileInvalid("These profiles have no folder to write to.", hint="Give the store a user_dir.")
        if name is not None:
            self._require(name)
        path = folder / f"{CATEGORIES_FILE}{SUFFIX}"
        old = read_limited(path, SIZE_LIMIT) if path.exists() else b""
        new = with_property(old, key, name)
        if new != old:
            try:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise StorageError(f"The folder {folder} cannot be made: {error.strerror or error}.") from error
            write_atomically(path, new)
            self.reload()

    def _name_for(self, category: Category) -> str:
        name = self.categories().get(category.label) or self._files.read().mapping.get(category.key)
        if name:
            return name
        if category.key in self.names():
            return category.key
        raise ProfileNotFound(
            f"No profile is mapped to category {category.label}: {category.key} has no line in categories.properties.",
            hint=f"Write {category.key}=<profile> there, or choose a profile for the agent.",
            facts={"category": category.label, "key": category.key},
        )

    def _load(self, name: str) -> ModelProfile:
        self._require(name)
        if (added := self._files.added.get(name)) is not None:
            return added
        built = self._files.build(name)
        if built.profile is not None and not built.missing:
            return built.profile
        faults = [problem for problem in built.problems if problem.severity == "error"]
        faults += [replace(problem, severity="error") for problem in built.missing]
        hint = "Set the named variable, or write the key into the profile, then reload." if built.missing else ""
        raise invalid(f"Profile {name}", faults, hint=hint)

    def _require(self, name: str) -> None:
        known = self.names()
        if name in known:
            return
        raise ProfileNotFound(
            f'There is no profile "{name[:100]}".{_meant(name, known)}',
            hint=f"Profiles: {', '.join(sorted(known))}.",
            facts={"profile": name[:100]},
        )

    def _category_problems(self) -> Iterable[Problem]:
        files = self._files.read()
        yield from files.problems
        for key, name in files.mapping.items():
            if name not in files.profiles:
                entry = files.mapping_entries[key]
                meant = _meant(name, files.profiles)
                yield Problem(
                    severity="error",
                    message=f'{key}: found "{name[:100]}", expected the name of a profile.{meant}',
                    file=entry[0],
                    line=entry[1],
                    path=key,
                )


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]}?" if close else ""


def check_file(path: Path, environ: Mapping[str, str] | None = None) -> ProfileEntry:
    """Read and check one profile file anywhere, without the defaults and names of a store."""
    file = read_file(path)
    environ = os.environ if environ is None else environ
    return _entry(
        path.name.removesuffix(SUFFIX),
        path,
        file,
        build_profile(path.stem, file, environ=environ, secrets=keyring_secret),
    )


@dataclass(slots=True)
class _Read:
    """What all files say, before placeholders are replaced."""

    profiles: dict[str, PropertiesFile]
    defaults: PropertiesFile | None
    mapping: dict[str, str]
    mapping_entries: dict[str, tuple[str, int]]
    problems: list[Problem]
    tokenizer: str = ""


class _Secrets:
    """Looks up secrets, and remembers for a while which are not there."""

    def __init__(self, lookup: SecretLookup, clock: Callable[[], float]) -> None:
        self._lookup = lookup
        self._clock = clock
        self.environment = ""
        self._missed: dict[str, float] = {}
        """Name → when it was not found."""

    def __call__(self, name: str) -> str | None:
        missed = self._missed.get(name)
        if missed is not None and self._clock() < missed + MISS_SECONDS:
            return None
        secret = self._lookup(f"{self.environment}/{name}" if self.environment else name)
        if not secret:
            self._missed[name] = self._clock()  # after the look, which may have taken long
        return secret

    def forget(self) -> None:
        self._missed.clear()


class _Files:
    """The files of a store, shared by its views."""

    def __init__(
        self, user_dir: Path | None, environ: Mapping[str, str], secrets: _Secrets, clock: Callable[[], float]
    ) -> None:
        self.user_dir = user_dir
        self._environ = environ
        self._secrets = secrets
        self._clock = clock
        self._next_look = 0.0
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._read: _Read | None = None
        self._built: dict[str, Built] = {}
        self.paths: dict[str, Path] = {}
        self.environment = ""
        self.added: dict[str, ModelProfile] = {}
        """Profiles made in the program, by name."""

    def forget(self) -> None:
        self._read = None
        self._built = {}
        self._secrets.forget()

    def read(self) -> _Read:
        # Several threads may ask: what one of them has read is good for all.
        read = self._read
        if read is not None and self._clock() >= self._next_look:
            self._next_look = self._clock() + LOOK_SECONDS
            if self._look() != self._seen:
                self.forget()
                read = None
        if read is None:
            self._next_look = self._clock() + LOOK_SECONDS
            self._seen = self._look()  # before reading: a change meanwhile is seen next time
            read = self._read = self._read_all()
        return read

    def _look(self) -> dict[str, tuple[int, int, int]]:
        """What tells that a file of the user has changed: inode, size and time of each."""
        found = {}
        for folder in (self.user_dir, self._environment_dir):
            with contextlib.suppress(OSError):
                for path in folder.glob(f"*{SUFFIX}") if folder is not None else ():
                    status = path.stat()
                    found[str(path)] = (status.st_ino, status.st_size, status.st_mtime_ns)
        return found

    def build(self, name: str) -> Built:
        built = self._built.get(name)
        if built is None:
            built = self.checked(name, self.read().profiles[name])
            if not built.missing:  # what is missing may have come meanwhile
                self._built[name] = built
        return built

    def checked(self, name: str, file: PropertiesFile) -> Built:
        """Build a profile of what a file of this name says, beside the others as they are."""
        read = self.read()
        built = build_profile(
            name,
            file,
            environ=self._environ,
            secrets=self._secrets,
            defaults=None if name == DEFAULTS_FILE else read.defaults,
            tokenizer=read.tokenizer,
        )
        if built.profile is not None:
            faults = _fallback_problems(name, {**read.profiles, name: file})
            if faults:
                built = replace(built, profile=None, problems=(*built.problems, *faults))
        return built

    def _read_all(self) -> _Read:
        files = {
            name: parse_properties(bundled.read_bytes("profiles", name + SUFFIX), name + SUFFIX)
            for name in bundled.names("profiles", suffix=SUFFIX)
        }
        layers = [files.pop(CATEGORIES_FILE)]
        problems: list[Problem] = []
        self.paths = _paths_in(self.user_dir, problems)
        files |= {name: read_file(path) for name, path in self.paths.items()}
        if CATEGORIES_FILE in self.paths:
            layers.append(files.pop(CATEGORIES_FILE))
        for name, path in _paths_in(self._environment_dir, problems).items():
            if name == CATEGORIES_FILE:
                layers.append(read_file(path))
                continue
            files[name] = _overlaid(files.get(name), read_file(path))
            self.paths.setdefault(name, path)
        defaults = files.get(DEFAULTS_FILE)
        if defaults is not None and not defaults.text("modelProvider"):
            del files[DEFAULTS_FILE]  # a file of defaults only, not a profile
        read = _Read(files, defaults, {}, {}, problems)
        for layer in layers:
            _map_categories(layer, read)
        return read

    @property
    def _environment_dir(self) -> Path | None:
        folder = self.user_dir
        return folder.with_name(f"{folder.name}.{self.environment}") if folder and self.environment else None


def _paths_in(folder: Path | None, problems: list[Problem]) -> dict[str, Path]:
    """The profile files of a folder by the names of their profiles."""
    if folder is None or not folder.exists():
        return {}
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        message = f"The profiles cannot be read: {error.strerror or error}."
        problems.append(Problem(severity="error", message=message, file=str(folder)))
        return {}
    return {
        path.name.removesuffix(SUFFIX): path
        for path in paths
        if path.name.endswith(SUFFIX) and not path.name.startswith(".")
    }


def _overlaid(below: PropertiesFile | None, above: PropertiesFile) -> PropertiesFile:
    """A profile with the keys of an environment; each entry knows its own file."""
    if below is None:
        return above
    entries = {**below.entries, **above.entries}
    return replace(below, entries=entries, problems=(*below.problems, *above.problems))


def _map_categories(layer: PropertiesFile, read: _Read) -> None:
    read.problems += layer.problems
    for key, entry in layer.entries.items():
        value = entry.value.strip()
        if key == TOKENIZER_STRATEGY:
            try:
                read.tokenizer = str(KEYS["tokenizer"].parse(value)) if value else ""
            except Fault as fault:
                message = f'{key}: found "{value[:60]}", expected {fault}.'
                read.problems.append(
                    Problem(severity="error", message=message, file=entry.file, line=entry.line, path=key)
                )
        elif value:
            read.mapping[key] = value.removesuffix(SUFFIX)
            read.mapping_entries[key] = (entry.file, entry.line)
        else:
            read.mapping.pop(key, None)


def _fallback_problems(name: str, files: Mapping[str, PropertiesFile]) -> list[Problem]:
    """Names in `fallbackProfiles` that do not exist, or that lead back to this profile."""
    key = "fallbackProfiles"
    entry = files[name].entries.get(key)
    if entry is None:
        return []
    found = [
        f'{key}: found "{other}", expected the name of a profile.'
        for other in _fallbacks(name, files)
        if other not in files
    ]
    reached, ahead = set[str](), list(_fallbacks(name, files))
    while ahead:
        other = ahead.pop()
        if other in files and other not in reached:
            reached.add(other)
            ahead += _fallbacks(other, files)
    if name in reached:
        found.append(f"{key}: the profiles named here lead back to {name}.")
    return [Problem(severity="error", message=text, file=entry.file, line=entry.line, path=key) for text in found]


def _fallbacks(name: str, files: Mapping[str, PropertiesFile]) -> list[str]:
    return [item.strip() for item in files[name].text("fallbackProfiles").split(",") if item.strip()]


def _entry(name: str, path: Path | None, file: PropertiesFile, built: Built) -> ProfileEntry:
    profile = built.profile
    if profile is not None and not profile.category:
        profile = replace(profile, category=name)
    return ProfileEntry(
        name=name,
        path=path,
        profile=profile,
        problems=(*built.problems, *built.missing),
        missing=tuple(problem.message for problem in built.missing),
        settings=tuple((key, _written(key, entry.value.strip())) for key, entry in file.entries.items()),
    )


def _written(key: str, value: str) -> str:
    known = key_named(key)
    hidden = known is None or known.secret or (known.expands and ("@" in value or "?" in value))
    return "***" if hidden and value and not is_reference(value) else value
