"""An environment's folder lies over the profiles, key by key; its secrets are its own."""

from pathlib import Path

import pytest

from engine import Engine, EngineSettings
from engine.errors import ProfileInvalid
from engine.folders import Folders
from engine.profile_store import ProfileStore

BASE = """category=M
modelName=small
modelProvider=OAI_CHAT_COMPLETION
url=http://127.0.0.1:1/v1
apiKey=${MY_KEY}
tokenizer=fallback
maxTokens=200
maxContextLength=1000
temperature=0
topP=1
"""


def store_in(home: Path, **over: str) -> ProfileStore:
    folders = {"profiles": {"mine": BASE}, "profiles.prod": over}
    for folder, files in folders.items():
        (home / folder).mkdir()
        for name, text in files.items():
            (home / folder / f"{name}.properties").write_text(text)
    secrets = {"MY_KEY": "plain-secret", "prod/MY_KEY": "prod-secret"}
    return ProfileStore(home / "profiles", environ={}, secrets=secrets.get)


def test_keys_of_the_environment_win_one_by_one(tmp_path: Path) -> None:
    store = store_in(tmp_path, mine="modelName=large\n", only=BASE, categories="profile.model.m=only\n")
    assert (store.get("mine").model, store.get("mine").api_key) == ("small", "plain-secret")
    assert "only" not in store.names()
    store.environment = "prod"
    mine = store.get("mine")
    assert (mine.model, mine.url, mine.api_key) == ("large", "http://127.0.0.1:1/v1", "prod-secret")
    assert store.categories()["M"] == "only"
    assert store.with_profile("only").resolve("mine").name == "only"
    store.environment = ""
    assert store.get("mine").model == "small"


def test_a_secret_never_comes_from_another_environment(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.environment = "test"
    with pytest.raises(ProfileInvalid, match="MY_KEY has no value"):
        store.get("mine")


def test_a_fault_in_the_environment_names_its_file(tmp_path: Path) -> None:
    store = store_in(tmp_path, mine="maxContextLength=many\n")
    store.environment = "prod"
    (problem, *_) = [problem for problem in store.problems() if problem.severity == "error"]
    assert problem.file == str(tmp_path / "profiles.prod" / "mine.properties")
    assert problem.line == 1


async def test_the_settings_choose_the_environment(tmp_path: Path) -> None:
    store_in(tmp_path, mine="modelName=large\napiKey=k\n")
    EngineSettings(environment="prod").save(Folders(tmp_path).engine_settings)
    async with Engine.on_folders(Folders(tmp_path)) as engine:
        assert engine.resolve("mine").model == "large"
        engine.apply(EngineSettings())
        assert engine.profiles.entry("mine").settings[1] == ("modelName", "small")


def test_an_environment_that_would_leave_the_folder_is_refused() -> None:
    with pytest.raises(ValueError, match="environment must be a name"):
        EngineSettings(environment="../x")
