"""Profiles, flow files and the answers that scripted servers give to the sample release-announcement."""

import json
from pathlib import Path
from typing import Any

from engine.folders import Folders
from tests.helpers.fake_server import EVENT_STREAM, Answer, Received, chat

FEATURES = ["Wash the dishes", "Cut the vegetables", "Bake the bread", "Clean the floor"]
SUMMARY = "It helps in the kitchen."
ANNOUNCEMENT = "Meet KitchenRobot! It washes, cuts, bakes and cleans."


def write_profile(folders: Folders, name: str, url: str, *, category: str = "", **settings: str) -> Path:
    """Write a profile of the user; with a category it answers for that one."""
    folders.profiles.mkdir(parents=True, exist_ok=True)
    lines = {
        "category": "M",
        "modelProvider": "OAI_CHAT_COMPLETION",
        "modelName": "test-model",
        "url": f"{url}/v1",
        "tokenizer": "fallback",
        "maxTokens": "200",
        "maxContextLength": "8192",
        "temperature": "0",
        "topP": "1",
        "maxConcurrent": "4",
        "maxRetries": "0",
        "cost1MInTokens": "2",
        "cost1MOutTokens": "8",
    } | settings
    path = folders.profiles / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), "latin-1")
    if category:
        with (folders.profiles / "categories.properties").open("a", encoding="latin-1") as file:
            file.write(f"profile.model.{category.lower()}={name}\n")
    return path


def prompt_of(request: Received) -> str:
    """The last user message of a request."""
    return str(request.json()["messages"][-1]["content"])


def announcement_answers(request: Received) -> Answer:
    """What a model might answer to each agent of the sample release-announcement."""
    prompt = prompt_of(request)
    if prompt.startswith("Which four things"):
        return chat(json.dumps({"feature": FEATURES}), usage=(40, 20))
    if prompt.startswith("A robot can"):
        feature = prompt.removeprefix("A robot can ").partition(".")[0]
        return chat("This saves ", f"the time to {feature}.", usage=(20, 10))
    if prompt.startswith("Name:"):
        words = ANNOUNCEMENT.split(" ")
        return chat(*(f"{word} " for word in words[:-1]), words[-1], usage=(50, 12))
    return chat(*[f"{word} " for word in SUMMARY.split(" ")[:-1]], SUMMARY.split(" ")[-1], usage=(30, 6))


def stalled(*pieces: bytes) -> Answer:
    """An answer that begins and then never ends."""
    return Answer(headers=EVENT_STREAM, pieces=list(pieces), end="stall")


def flow_file(path: Path, *agents: dict[str, Any], name: str = "Test flow", **members: Any) -> Path:
    """Write a flow file with these agents; each needs a name and a template only."""
    complete = []
    for number, agent in enumerate(agents):
        after = agents[number + 1]["name"] if number + 1 < len(agents) else None
        complete.append({"type": "COMPLETION", "model": {"category": "M"}, "routes": [{"to": after}]} | agent)
    document = {"format": "workbench.flow", "version": 1, "name": name, "start": complete[0]["name"]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document | members | {"agents": complete}, indent=2), "utf-8")
    return path
