"""Prompt formats, tokenizers, clients and interceptors of installed packages; faulty ones are told by name."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.clients import client_for
from engine.completion import Completion
from engine.conversation import Conversation
from engine.errors import PluginError, ProfileError, ProfileInvalid
from engine.interceptors import Interceptor, PluggedInterceptor
from engine.profile import ModelProfile, Provider
from engine.profile_builder import inline_profile
from engine.prompt_strategies import strategy_named
from engine.tokenizers import Tokenizers
from tests.helpers.installed_plugins import install

SOURCE = """
from dataclasses import replace
from engine.clients.openai_chat import OpenAIChatClient
from engine.conversation import Conversation
from engine.prompt_strategies import strategy_named

plain = replace(strategy_named("noop"), name="plain", aliases=())

class Letters:
    name = "letters"
    async def encode(self, text): return [ord(letter) for letter in text]
    async def decode(self, tokens): return "".join(map(chr, tokens))

class Fails(Letters):
    async def encode(self, text): raise RuntimeError("no")

class Mine(OpenAIChatClient): pass

class Polite:
    async def before(self, profile, conversation): return Conversation.create("", "Please: hello")
    async def after(self, profile, conversation, completion): return completion
"""
GROUPS = {
    "prompt_strategies": {"plain": "parts_plugged:plain", "wrong": "parts_plugged:Letters"},
    "tokenizers": {"letters": "parts_plugged:Letters", "fails": "parts_plugged:Fails", "gone": "parts_plugged:nothing"},
    "clients": {"MINE": "parts_plugged:Mine", "wrong": "parts_plugged:plain"},
    "interceptors": {"polite": "parts_plugged:Polite", "wrong": "parts_plugged:Letters"},
}
PROFILE = ModelProfile(name="p", category="M", provider=Provider.OPENAI_CHAT, url="http://localhost")


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path / "site", GROUPS, parts_plugged=SOURCE)


def test_prompt_formats() -> None:
    assert strategy_named("plain").name == "plain"
    with pytest.raises(PluginError, match="a Letters is no PromptStrategy"):
        strategy_named("wrong")
    with pytest.raises(ProfileError, match="no prompt format"):
        strategy_named("unheard")


async def test_tokenizers() -> None:
    tokenizers = Tokenizers()
    counted = await tokenizers.count(replace(PROFILE, tokenizer="letters"), "four")
    assert (counted.tokens, counted.approximate) == (4, False)
    assert await tokenizers.find(replace(PROFILE, tokenizer="letters")).decode([97]) == "a"
    for name in ("fails", "gone"):  # it cannot count, so it is estimated
        assert (await tokenizers.count(replace(PROFILE, tokenizer=name), "four")).approximate
    with pytest.raises(ProfileInvalid, match="unheard"):
        tokenizers.find(replace(PROFILE, tokenizer="unheard"))


def test_clients() -> None:
    values = {"modelProvider": "MINE", "url": "http://localhost", "maxTokens": 5, "temperature": 0, "topP": 1}
    profile = inline_profile("p", values)
    assert profile.provider == "MINE"
    assert "parts_plugged" not in sys.modules
    assert type(client_for(profile)).__name__ == "Mine"
    with pytest.raises(PluginError, match="no Client"):
        client_for(replace(profile, provider="wrong"))
    with pytest.raises(ProfileError, match="cannot talk to"):
        client_for(replace(profile, provider="unheard"))
    with pytest.raises(ProfileInvalid):
        inline_profile("p", values | {"modelProvider": "unheard"})


async def test_interceptors() -> None:
    polite = PluggedInterceptor("polite")
    assert isinstance(polite, Interceptor)
    assert "parts_plugged" not in sys.modules
    conversation = await polite.before(PROFILE, Conversation.create("", "hello"))
    assert conversation.turns[-1].text == "Please: hello"
    completion = Completion(content="x")
    assert await polite.after(PROFILE, conversation, completion) is completion
    for name, words in (("wrong", "is no interceptor"), ("unheard", "which no installed package has")):
        with pytest.raises(PluginError, match=words):
            await PluggedInterceptor(name).before(PROFILE, conversation)
