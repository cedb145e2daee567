"""Profiles as people write them: values, faults, layers, categories."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import bundled
from engine.errors import ProfileInvalid, ProfileNotFound
from engine.profile import Category, ModelProfile, Provider
from engine.profile_builder import inline_profile
from engine.profile_store import ProfileStore, check_file
from tests.helpers.profile_files import CANARY, MINIMAL, VALUES, faults, no_secrets, profile_folder, store, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return profile_folder(tmp_path)


# --- Bundled profiles -------------------------------------------------------------------------------------------------


def test_every_bundled_profile_is_without_faults_but_for_keys_of_the_environment() -> None:
    names = [name for name in bundled.names("profiles", suffix=".properties") if name != "categories"]
    found = store()
    assert found.names() == names
    for entry in found.profiles():
        assert entry.profile is not None
        assert [problem.message for problem in entry.problems] == list(entry.missing)
    assert {entry.name for entry in found.profiles() if not entry.usable} == {
        "anthropic",
        "azure",
        "deepseek",
        "gemini",
        "groq",
        "mistral",
        "openai",
        "openai-responses",
        "openrouter",
    }
    assert {"local-chatcompletion", "local-completion"} <= set(names)
    assert all(problem.severity == "warning" for problem in found.problems())


def test_every_category_is_mapped_to_the_embedded_model() -> None:
    assert store().categories() == dict.fromkeys(["S", "M", "L", "XL", "HOT", "COLD"], "embedded-chat")
    profile = store().resolve(Category.HOT)
    assert (profile.name, profile.category, profile.embedded) == ("embedded-chat", "HOT", True)


# --- Values -----------------------------------------------------------------------------------------------------------


def test_all_known_values(folder: Path) -> None:
    text = """
category = XL
modelProvider: ollama
modelName   llama 3
url = http://localhost:11434/
maxTokens = 256\x20\x20
temperature=0
topP=.9
cost1MInTokens=1.25
cost1MOutTokens=10
header.X-Team=a b
extParams={"a": {"b": [1, 2.5]}, \\
  "c": null}
messageInterval=2, 5
urls=https://a/v1|3, https://b/v1
fallbackProfiles=embedded-chat, ollama
tokenizer=TIKTOKEN
tokenEncoding=None
supportsTools=FALSE
thinkTags=Prefilled
"""
    write(folder, "p", text)
    profile = store(folder).get("p")
    assert (profile.category, profile.provider, profile.model) == ("XL", Provider.OLLAMA, "llama 3")
    assert (profile.url, profile.max_tokens, profile.temperature, profile.top_p) == (
        "http://localhost:11434/",
        256,
        0,
        0.9,
    )
    assert profile.prices.input == Decimal("0.00000125")
    assert profile.prices.cached_input is None
    assert profile.prices.output == Decimal("0.00001")
    assert profile.prices.reasoning == 0
    assert (profile.tokenizer, profile.encoding) == ("jTokkit", "")
    options = profile.options
    assert options.headers == {"X-Team": "a b"}
    assert options.ext_params == {"a": {"b": [1, 2.5]}, "c": None}
    assert options.message_interval == (2, 5)
    assert options.urls == (("https://a/v1", 3), ("https://b/v1", 1))
    assert options.fallback_profiles == ("embedded-chat", "ollama")
    assert not options.supports_tools
    assert options.think_tags == "prefilled"


def test_missing_and_written_prices(folder: Path) -> None:
    write(folder, "unknown", MINIMAL)
    write(folder, "free", MINIMAL + "cost1MInTokens=0\ncost1MOutTokens=0.00\n")
    assert store(folder).get("unknown").prices.input is None
    assert store(folder).get("unknown").prices.output is None
    assert store(folder).get("free").prices.input == 0
    assert store(folder).get("free").prices.output == 0


@given(st.decimals(min_value=0, max_value=1_000_000, places=9, allow_nan=False, allow_infinity=False))
def test_prices_are_exact(price: Decimal) -> None:
    profile = inline_profile("p", VALUES | {"cost1MInTokens": str(price)})
    assert profile.prices.input is not None
    assert profile.prices.input * 1_000_000 == price


def test_anthropic_has_defaults_of_its_own(folder: Path) -> None:
    write(folder, "p", MINIMAL.replace("OAI_CHAT_COMPLETION", "ANTHROPIC_MESSAGES"))
    options = store(folder).get("p").options
    assert (options.api_version, options.token_scale) == ("2023-06-01", 1.25)


# --- Faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("temperature=NaN", "from 0 to 2"),
        ("temperature=Infinity", "from 0 to 2"),
        ("temperature=-0.1", "from 0 to 2"),
        ("temperature=2.1", "from 0 to 2"),
        ("temperature=0,7", "decimal point"),
        ("temperature=1e999", "from 0 to 2"),
        ("temperature=", "found nothing"),
        ("topP=0", "above 0 to 1"),
        ("maxTokens=0", "from 1"),
        ("maxTokens=abc", 'found "abc"'),
        ("maxTokens=0x10", "whole number"),
        ("maxTokens=1_000", "whole number"),
        ("maxTokens=٣", "whole number"),
        ("maxTokens=2147483648", "to 2147483647"),
        ("maxTokens=99999999999999999999", "to 2147483647"),
        ("maxTokens=10.5", "whole number"),
        ("maxContextLength=-1", "from 0"),
        ("maxContextLength=115", "more than maxTokens + 15 (115)"),
        ("modelProvider=OAI_CHAT", "did you mean OAI_CHAT_COMPLETION"),
        ("url=ftp://x", "http://"),
        ("url=localhost:8080", "http://"),
        ("url=http://", "http://"),
        ("url=http://x:99999/", "http://"),
        ("url=http://user:pass@x/", "without user and password"),
        ("url=http://x/?key=1", "without ? and #"),
        ("url=http://x y/", "without blanks"),
        ("url=http://é/", "ASCII"),
        ("url=${", "placeholders of the form"),
        ("urls=https://a|0", "from 1"),
        ("apiKey=a\\nb", "printable ASCII"),
        ("apiKey=a b", "without blanks"),
        ("header.X=a\\r\\nb", "printable ASCII"),
        ("header.a\\ b=1", "header name"),
        ("header.=1", "header name"),
        ("extParams=[1]", "JSON object"),
        ("extParams={a:1}", "JSON object"),
        ('extParams={"a": NaN}', "JSON object"),
        ("extParams=" + '{"a":' * 5000, "JSON object"),
        ("cost1MInTokens=-1", "price"),
        ("cost1MInTokens=1,5", "decimal point"),
        ("cost1MInTokens=1e99", "price"),
        ("messageInterval=1", "two whole numbers"),
        ("messageInterval=0,3", "two whole numbers"),
        ("thinkingBudget=1000", "from 1024"),
        ("streamUsage=yes", "true or false"),
        ("authScheme=basic", "one of auto"),
        ("tokenizer=magic", "one of jTokkit"),
        ("tokenEncoding=cl100k", "did you mean cl100k_base"),
        ("reasoningEffort=huge", "one of none"),
    ],
)
def test_each_fault_names_line_key_found_and_expected(folder: Path, line: str, expected: str) -> None:
    found = check_file(write_utf8(folder, "p", MINIMAL + line + "\n"), {}).problems
    errors = [problem for problem in found if problem.severity == "error"]
    assert len(errors) == 1, found
    assert errors[0].line == 6
    assert line.replace("\\ ", " ").startswith(errors[0].path)
    assert expected in errors[0].message
    assert errors[0].file.endswith("p.properties")


def write_utf8(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.properties"
    path.write_bytes(text.encode())
    return path


def test_twelve_faults_are_listed_together_in_the_order_of_their_lines(folder: Path) -> None:
    text = """maxTokens=-1
maxContextLength=x
temperature=NaN
topP=2
modelProvider=NONE_SUCH
url=gopher://x
cost1MInTokens=abc
cost1MOutTokens=-2
extParams=7
messageInterval=a,b
maxRetries=1.5
thinkTags=maybe
"""
    found = faults(folder, text)
    assert [(line, key) for line, key, _ in found] == [
        (number, line.partition("=")[0]) for number, line in enumerate(text.splitlines(), 1)
    ]
    with pytest.raises(ProfileInvalid) as raised:
        store(folder).get("p")
    assert len(raised.value.problems) == 12
    assert "p.properties:1" in str(raised.value)
    assert "11 more" in str(raised.value)


def test_required_keys_without_a_value_are_named(folder: Path) -> None:
    assert [key for _, key, _ in faults(folder, "modelName=x\n")] == [
        "modelProvider",
        "maxTokens",
        "temperature",
        "topP",
        "url",
    ]
    assert faults(folder, "modelProvider=OPENROUTER\nmaxTokens=1\ntemperature=0\ntopP=1\n") == []


def test_unknown_keys_are_warnings_with_the_closest_key(folder: Path) -> None:
    entry = check_file(write(folder, "p", MINIMAL + "max_tokens=3\ntemprature=1\nzzz=1\n"), {})
    assert entry.usable
    assert [(problem.severity, problem.line, problem.message) for problem in entry.problems] == [
        ("warning", 6, "Unknown key max_tokens. Did you mean maxTokens?"),
        ("warning", 7, "Unknown key temprature. Did you mean temperature?"),
        ("warning", 8, "Unknown key zzz."),
    ]


@pytest.mark.parametrize(("name", "said"), [("wat", 'found "wat"'), ("", "found nothing"), ("gemma", ""), ("no", "")])
def test_an_unknown_prompt_format_of_a_text_completion_is_told_before_its_first_request(
    folder: Path, name: str, said: str
) -> None:
    lines = MINIMAL.replace("OAI_CHAT_COMPLETION", "OAI_TEXT_COMPLETION") + f"prompts={name}\n"
    entry = check_file(write(folder, "p", lines), {})
    assert entry.usable
    told = [problem for problem in entry.problems if problem.path == "prompts"]
    assert [problem.severity for problem in told] == ["warning"] * bool(said)
    assert not told or f"prompts: {said}, expected one of alpaca; chatml; " in told[0].message


def test_protected_parameters_are_dropped_with_a_warning(folder: Path) -> None:
    write(folder, "p", MINIMAL + 'extParams={"model": "x", "stream": false, "top_k": 4}\n')
    entry = store(folder).entry("p")
    assert entry.profile is not None
    assert entry.profile.options.ext_params == {"top_k": 4}
    assert [problem.severity for problem in entry.problems] == ["warning", "warning"]


def test_a_faulty_file_does_not_affect_others(folder: Path) -> None:
    write(folder, "bad", "temperature=x\n")
    write(folder, "good", MINIMAL)
    (folder / "folder.properties").mkdir()
    found = store(folder)
    assert found.get("good").max_tokens == 100
    assert found.entry("bad").profile is None
    assert found.entry("folder").profile is None
    assert not found.entry("bad").usable


def test_fallbacks_must_exist_and_form_no_circle(folder: Path) -> None:
    write(folder, "a", MINIMAL + "fallbackProfiles=b\n")
    write(folder, "b", MINIMAL + "fallbackProfiles=c, embedded-chat\n")
    write(folder, "c", MINIMAL + "fallbackProfiles=a, nope\n")
    write(folder, "d", MINIMAL + "fallbackProfiles=a\n")
    found = store(folder)
    assert ["lead back" in str(problem) for problem in found.entry("a").problems] == [True]
    assert len(found.entry("c").problems) == 2
    assert found.entry("d").usable


# --- Layers, names and categories -------------------------------------------------------------------------------------


def test_the_users_file_replaces_the_bundled_one_as_a_whole(folder: Path) -> None:
    path = write(folder, "openai", MINIMAL)
    entry = store(folder).entry("openai")
    assert entry.path == path
    assert not entry.bundled
    assert entry.profile is not None
    assert entry.profile.api_key == ""
    assert entry.profile.prices.input is None
    write(folder, "openai", "temperature=x")
    with pytest.raises(ProfileInvalid):
        store(folder).get("openai")


def test_reload_reads_again(folder: Path) -> None:
    found = ProfileStore(folder, {}, secrets=no_secrets, clock=lambda: 0)
    assert "p" not in found.names()
    write(folder, "p", MINIMAL)
    assert "p" not in found.names()
    found.reload()
    assert found.get("p").temperature == 0.5


def test_changes_on_the_disk_are_seen_within_a_second(folder: Path) -> None:
    now = [0.0]
    found = ProfileStore(folder, {}, secrets=no_secrets, clock=lambda: now[0])
    view = found.with_map({"M": "ollama"})
    assert "p" not in found.names()
    write(folder, "p", MINIMAL)
    assert "p" not in found.names()
    now[0] += 1
    assert (found.get("p").temperature, view.get("p").temperature) == (0.5, 0.5)
    write(folder, "p", MINIMAL.replace("0.5", "0.75"))
    now[0] += 1
    assert found.get("p").temperature == 0.75
    write(folder, "p", "temperature=x")
    now[0] += 1
    with pytest.raises(ProfileInvalid):
        found.get("p")
    (folder / "p.properties").unlink()
    now[0] += 1
    with pytest.raises(ProfileNotFound):
        found.get("p")


def test_a_profile_made_in_the_program_answers_to_its_name_and_to_categories(folder: Path) -> None:
    write(folder, "categories", "profile.model.m=mine\n")
    found = store(folder)
    mine = ModelProfile(name="mine", category="M", provider=Provider.SCRIPTED)
    found.add(mine)
    assert found.resolve("mine") is mine
    assert found.resolve(Category.MEDIUM) is mine
    assert "mine" in found.names()
    assert found.entry("mine").usable
    with pytest.raises(ProfileInvalid, match="a name and a category"):
        found.add(ModelProfile(name="other", category="", provider=Provider.SCRIPTED))


def test_a_category_is_mapped_in_the_users_file_and_the_rest_of_it_stays(folder: Path) -> None:
    path = write(folder, "categories", "# mine\r\nprofile.model.m = ollama\r\nreviewer=lm-studio")
    found = store(folder)
    found.map_category("M", "openai")
    found.map_category("S", "lm-studio")
    assert path.read_bytes() == (
        b"# mine\r\nprofile.model.m=openai\r\nreviewer=lm-studio\r\nprofile.model.s=lm-studio\r\n"
    )
    assert {label: found.categories()[label] for label in ("S", "M", "L", "reviewer")} == {
        "S": "lm-studio",
        "M": "openai",
        "L": "embedded-chat",
        "reviewer": "lm-studio",
    }
    found.map_category("M", None)
    assert found.categories()["M"] == "embedded-chat"
    with pytest.raises(ProfileNotFound, match="Did you mean openai"):
        found.map_category("M", "opena")
    for label in ("", " M", "tokenizer.strategy"):
        with pytest.raises(ProfileInvalid, match="is not a category"):
            found.map_category(label, "openai")
    with pytest.raises(ProfileInvalid, match="no folder"):
        store().map_category("M", "openai")


def test_mapping_a_category_makes_the_folder(tmp_path: Path) -> None:
    found = store(tmp_path / "new" / "profiles")
    found.map_category("reviewer", "openai")
    assert found.categories()["reviewer"] == "openai"


def test_unknown_names_get_a_suggestion(folder: Path) -> None:
    with pytest.raises(ProfileNotFound, match="Did you mean embedded-chat"):
        store(folder).get("embeded-chat")
    for name in ("../profiles/p", "", "categories", "/etc/passwd"):
        with pytest.raises(ProfileNotFound):
            store(folder).get(name)


def test_the_users_categories_win_line_by_line(folder: Path) -> None:
    write(
        folder, "categories", "profile.model.m=ollama\nreviewer=lm-studio\nprofile.model.xl=\nprofile.model.hot=nope\n"
    )
    found = store(folder)
    assert found.categories() == {
        "S": "embedded-chat",
        "M": "ollama",
        "L": "embedded-chat",
        "HOT": "nope",
        "COLD": "embedded-chat",
        "reviewer": "lm-studio",
    }
    assert found.resolve(Category.named("reviewer")).name == "lm-studio"
    with pytest.raises(ProfileNotFound, match=r"profile\.model\.xl"):
        found.resolve(Category.XLARGE)
    errors = [problem for problem in found.problems() if problem.severity == "error"]
    assert [(problem.line, problem.path) for problem in errors] == [(4, "profile.model.hot")]


def test_the_category_of_the_file_wins_else_the_one_used_for_loading_else_the_name(folder: Path) -> None:
    write(folder, "own", MINIMAL + "category=TINY\n")
    write(folder, "none", MINIMAL)
    write(folder, "categories", "profile.model.s=own\nprofile.model.m=none\n")
    found = store(folder)
    assert found.resolve(Category.SMALL).category == "TINY"
    assert found.resolve(Category.MEDIUM).category == "M"
    assert found.resolve("none").category == "none"
    assert found.get("none").category == "none"


def test_a_custom_category_falls_back_to_the_file_of_its_name(folder: Path) -> None:
    write(folder, "critic", MINIMAL)
    profile = store(folder).resolve(Category("critic", "CRIT"))
    assert (profile.name, profile.category) == ("critic", "CRIT")
    with pytest.raises(ProfileNotFound):
        store(folder).resolve(Category.named("nobody"))


def test_a_profile_itself_is_taken_as_it_is() -> None:
    profile = ModelProfile(name="mine", category="Q", provider=Provider.SCRIPTED)
    assert store().resolve(profile) is profile
    with pytest.raises(ProfileInvalid, match="category"):
        store().resolve(replace(profile, category=""))


def test_views_for_one_run_leave_the_store_alone(folder: Path) -> None:
    found = store(folder)
    mapped = found.with_map({"M": "ollama"}).with_map({"profile.model.l": "lm-studio", "critic": "ollama"})
    assert mapped.resolve(Category.MEDIUM).name == "ollama"
    assert mapped.resolve(Category.LARGE).name == "lm-studio"
    assert mapped.resolve(Category.named("critic")).name == "ollama"
    only = found.with_profile("embedded-chat")
    assert only.resolve("ollama").name == "embedded-chat"
    assert only.resolve(Category.LARGE).category == "L"
    assert found.resolve(Category.MEDIUM).name == "embedded-chat"
    with pytest.raises(ProfileNotFound):
        found.with_map({"M": "nope"})
    with pytest.raises(ProfileNotFound):
        found.with_profile("nope")


def test_defaults_are_taken_per_key_but_never_what_belongs_to_another_host(folder: Path) -> None:
    write(
        folder,
        "default",
        "maxTokens=77\ntemperature=0.1\ntopP=0.5\nidleTimeout=9\nmodelName=other\napiKey="
        + CANARY
        + "\nurl=http://other/v1\nheader.X=1\ncost1MInTokens=4\n",
    )
    write(folder, "p", "modelProvider=OAI_CHAT_COMPLETION\nurl=http://localhost:1\ntopP=1\n")
    found = store(folder)
    assert "default" not in found.names()
    profile = found.get("p")
    assert (profile.max_tokens, profile.temperature, profile.top_p, profile.options.idle_timeout) == (77, 0.1, 1, 9)
    assert (profile.model, profile.api_key, profile.options.headers, profile.prices.input) == ("", "", {}, None)


def test_the_old_global_key_for_the_tokenizer(folder: Path) -> None:
    write(folder, "categories", "tokenizer.strategy=fallback\n")
    write(folder, "p", MINIMAL)
    assert store(folder).get("p").tokenizer == "fallback"
    assert store(folder).get("embedded-chat").tokenizer == "llamaServer"
