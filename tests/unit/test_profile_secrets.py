"""What profiles refer to and what overrides them: placeholders, secrets, overrides, inline profiles."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EngineError, ProfileInvalid
from engine.profile import ModelProfile, Provider
from engine.profile_builder import apply_overrides, inline_profile
from engine.profile_store import ProfileEntry, ProfileStore
from tests.helpers.profile_files import CANARY, MINIMAL, VALUES, no_secrets, profile_folder, store, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return profile_folder(tmp_path)


# --- Placeholders and secrets -----------------------------------------------------------------------------------------


def test_placeholders_are_replaced_in_four_places_only(folder: Path) -> None:
    write(
        folder,
        "p",
        "modelProvider=OAI_CHAT_COMPLETION\nmaxTokens=1\ntemperature=0\ntopP=1\nmodelName=${PATH}\n"
        "apiKey=${K}\nurl=http://${HOST:localhost}/v1\nheader.X=${team}\nteam=a\n",
    )
    found = store(folder, K="1", PATH="/bin")
    profile = found.get("p")
    assert (profile.api_key, profile.url, profile.options.headers, profile.model) == (
        "1",
        "http://localhost/v1",
        {"X": "a"},
        "${PATH}",
    )
    assert [problem.message for problem in found.entry("p").problems] == [
        "modelName: placeholders are not replaced in this key."
    ]


def test_a_missing_placeholder_is_listed_but_not_run(folder: Path) -> None:
    write(folder, "p", MINIMAL + "apiKey=${MY_KEY}\n")
    environ: dict[str, str] = {}
    found = ProfileStore(folder, environ, secrets=no_secrets)
    entry = found.entry("p")
    assert entry.profile is not None
    assert not entry.usable
    assert [problem.severity for problem in entry.problems] == ["warning"]
    with pytest.raises(ProfileInvalid, match=r"p\.properties:6.*apiKey: MY_KEY has no value"):
        found.get("p")
    environ["MY_KEY"] = "1"
    assert found.get("p").api_key == "1"


def test_a_secret_that_is_not_there_is_asked_for_once_in_a_while(folder: Path) -> None:
    for name in ("p", "q"):
        write(folder, name, MINIMAL + "apiKey=${MY_KEY}\n")
    asked: list[str] = []
    secrets: dict[str, str] = {}
    now = [100.0]
    environ: dict[str, str] = {}

    def look(name: str) -> str | None:
        asked.append(name)
        now[0] += 5  # the desktop takes its time
        return secrets.get(name)

    found = ProfileStore(folder, environ, secrets=look, clock=lambda: now[0])

    def missing() -> bool:
        with pytest.raises(ProfileInvalid, match="MY_KEY has no value"):
            found.resolve("p")
        return bool(found.entry("q").missing)

    assert missing()
    assert missing()
    assert asked == ["MY_KEY"]
    now[0] += 29
    assert missing()
    assert asked == ["MY_KEY"]
    now[0] += 2
    assert missing()
    assert asked == ["MY_KEY"] * 2
    environ["MY_KEY"] = "from-environment"
    assert found.resolve("p").api_key == "from-environment"
    secrets["MY_KEY"] = "from-keyring"
    environ.clear()
    assert found.entry("q").missing
    found.reload()
    assert (found.resolve("p").api_key, found.resolve("q").api_key) == ("from-keyring", "from-keyring")


def test_a_profile_without_key_has_none_whatever_was_loaded_before(folder: Path) -> None:
    write(folder, "a", MINIMAL + f"apiKey={CANARY}\nmy.key={CANARY}\n")
    write(folder, "b", MINIMAL)
    write(folder, "c", MINIMAL + "apiKey=${my.key:}\n")
    found = store(folder)
    assert found.get("a").api_key == CANARY
    assert found.get("b").api_key == ""
    assert found.get("c").api_key == ""


def texts_of(entry: ProfileEntry) -> str:
    return repr(entry) + "".join(map(str, entry.problems)) + str(entry.settings) + str(entry.profile)


@pytest.mark.parametrize(
    "line",
    [
        f"apiKey={CANARY}",
        f"apiKey=  {CANARY}  ",
        f"apiKey={CANARY} x",
        f"apiKey={CANARY}\\n",
        f"apiKey={CANARY}\\u00e9",
        f"apiKey={CANARY}\\u12",
        f"apiKey=${{{CANARY}",
        f"apiKey=${{K:{CANARY}}}",
        "apiKey=${ENV}",
        "apiKey=${ENV}\\n",
        f"header.X-Key={CANARY}",
        f"header.X-Key={CANARY}\\r",
        "header.X-Key=${ENV}",
        f"url=http://u:{CANARY}@h/",
        f"url=http://h/?key={CANARY}",
        f"my.key={CANARY}\napiKey=${{my.key}}",
        f"api_key={CANARY}",
    ],
)
def test_keys_are_in_no_text(folder: Path, line: str) -> None:
    write(folder, "p", MINIMAL + line + "\n")
    found = store(folder, ENV=CANARY)
    texts = texts_of(found.entry("p")) + "".join(map(str, found.problems())) + repr(found)
    try:
        profile = found.get("p")
        texts += repr(profile) + repr(apply_overrides(profile, {"maxTokens": 5}))
    except EngineError as error:
        texts += f"{error} {error!r} {error.hint} {error.facts} {getattr(error, 'problems', '')}"
    assert CANARY not in texts


def test_keys_in_overrides_are_in_no_text() -> None:
    profile = ModelProfile(name="p", category="M", provider=Provider.OPENAI_CHAT, url="http://h")
    assert CANARY not in repr(apply_overrides(profile, {"apiKey": CANARY, "header.X": CANARY}))
    for overrides in ({"apiKey": f"{CANARY}\n{CANARY}"}, {"header.X": f"{CANARY}é"}, {"url": f"http://a:{CANARY}@h"}):
        with pytest.raises(ProfileInvalid) as raised:
            apply_overrides(profile, overrides)
        assert CANARY not in f"{raised.value} {raised.value!r} {raised.value.problems}"


# --- Overrides and inline profiles ------------------------------------------------------------------------------------


def test_overrides_as_in_files_and_as_json() -> None:
    profile = inline_profile("p", VALUES | {"extParams": {"a": {"x": 1, "y": 2}, "b": 1}, "apiKey": "k"})
    changed = apply_overrides(
        profile,
        {
            "temperature": 0.25,
            "maxTokens": "20",
            "extParams": {"a": {"y": None, "z": [1]}, "model": "evil"},
            "fallbackProfiles": ["q", "r"],
            "streamUsage": False,
            "reasoningEffort": None,
            "stop": ["x"],
            "responseFormat": {"type": "object"},
            "timeout": 3,
        },
    )
    assert (changed.temperature, changed.max_tokens, changed.api_key) == (0.25, 20, "k")
    assert changed.options.ext_params == {"a": {"x": 1, "y": None, "z": [1]}, "b": 1}
    assert changed.options.fallback_profiles == ("q", "r")
    assert not changed.options.stream_usage
    assert profile.options.ext_params == {"a": {"x": 1, "y": 2}, "b": 1}
    assert apply_overrides(profile, {}) == profile


def test_all_faulty_overrides_are_listed() -> None:
    with pytest.raises(ProfileInvalid) as raised:
        apply_overrides(
            inline_profile("p", VALUES), {"maxToken": 1, "temperature": True, "topP": float("nan"), "url": "${HOME}"}
        )
    assert [problem.path for problem in raised.value.problems] == ["maxToken", "temperature", "topP", "url"]
    assert "Did you mean maxTokens" in raised.value.problems[0].message
    with pytest.raises(ProfileInvalid, match="maxContextLength"):
        apply_overrides(inline_profile("p", VALUES), {"maxContextLength": 20})


def test_a_key_never_goes_to_the_address_of_an_override() -> None:
    profile = inline_profile("p", VALUES | {"apiKey": "k", "header.X": "h"})
    elsewhere = apply_overrides(profile, {"url": "http://elsewhere/v1"})
    assert (elsewhere.api_key, elsewhere.options.headers) == ("", {})
    assert apply_overrides(profile, {"urls": "http://elsewhere/v1"}).api_key == ""
    assert apply_overrides(profile, {"url": "http://elsewhere/v1", "apiKey": "own"}).api_key == "own"
    assert apply_overrides(profile, {"url": profile.url}).api_key == "k"


def test_a_price_is_not_charged_for_the_model_of_an_override() -> None:
    paid = inline_profile("p", VALUES | {"cost1MInTokens": 1, "cost1MOutTokens": 2})
    free = inline_profile("p", VALUES | {"cost1MInTokens": 0, "cost1MOutTokens": 0})
    assert apply_overrides(paid, {"modelName": "other"}).prices.input is None
    assert apply_overrides(paid, {"modelName": "other", "cost1MInTokens": 3}).prices.input == Decimal("0.000003")
    assert apply_overrides(free, {"modelName": "other"}).prices.input == 0


def test_inline_profiles_are_checked_like_files() -> None:
    assert inline_profile("agent", VALUES).category == "agent"
    with pytest.raises(ProfileInvalid) as raised:
        inline_profile("agent", {"temperature": 3, "apiKey": "${K}", "headers": object()})
    assert {"temperature", "apiKey", "modelProvider", "headers"} <= {problem.path for problem in raised.value.problems}


@given(
    temperature=st.floats(0, 2),
    top_p=st.floats(0, 1, exclude_min=True),
    max_tokens=st.integers(1, 2**31 - 1),
    text=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20),
)
def test_values_come_back_as_written(temperature: float, top_p: float, max_tokens: int, text: str) -> None:
    from javaproperties import dumps

    from engine.profile_builder import build_profile
    from engine.profile_file import parse_properties

    values = {"temperature": str(temperature), "topP": str(top_p), "maxTokens": str(max_tokens), "prompts": text}
    written = dumps({"modelProvider": "SCRIPTED", **values}, timestamp=False).encode("ascii")
    built = build_profile("p", parse_properties(written, "p"), environ={}, secrets=no_secrets)
    assert built.profile is not None, built.problems
    assert (built.profile.temperature, built.profile.top_p, built.profile.max_tokens) == (
        temperature,
        top_p,
        max_tokens,
    )
    assert built.profile.prompt_strategy == text.strip()
