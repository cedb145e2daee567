"""Writes profile files and reads them without the environment and the keyring."""

from pathlib import Path

from engine.profile_store import ProfileStore, check_file

CANARY = "CANARY-7f3a91"
MINIMAL = "modelProvider=OAI_CHAT_COMPLETION\nurl=http://localhost:1/v1\nmaxTokens=100\ntemperature=0.5\ntopP=1\n"
VALUES = {
    "modelProvider": "OAI_CHAT_COMPLETION",
    "url": "http://localhost:1/v1",
    "maxTokens": 10,
    "temperature": 0,
    "topP": 1,
}


def no_secrets(name: str) -> None:
    return None


def profile_folder(parent: Path) -> Path:
    path = parent / "profiles"
    path.mkdir()
    return path


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.properties"
    path.write_text(text, encoding="iso-8859-1", newline="")
    return path


def store(folder: Path | None = None, **environ: str) -> ProfileStore:
    return ProfileStore(folder, environ, secrets=no_secrets)


def faults(folder: Path, text: str) -> list[tuple[int, str, str]]:
    """Line, key and message of every error, in order."""
    entry = check_file(write(folder, "p", text), {})
    return [(problem.line, problem.path, problem.message) for problem in entry.problems if problem.severity == "error"]
