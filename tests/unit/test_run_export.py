"""Reports of recorded runs: whole, readable, and harmless wherever they are opened."""

import json
from html.parser import HTMLParser

import pytest

from engine.errors import StorageError
from engine.export_page import visible
from engine.flow.agent import Agent, AgentType, Next
from engine.flow.flow import Flow
from engine.history_queries import RecordedRun
from engine.run_comparison import compare_runs
from engine.run_export import export_run
from tests.helpers.recorded import RecordedWalk, stored
from tests.helpers.scripted_completer import Reply, Request, ScriptedCompleter

NASTY = "<script>alert(1)</script> `tick` ```fence``` \u202eabc\u200b \x1b[31m https://x.example/a.png"


async def recorded(answer: str = NASTY, template: str = "Tell {{topic}}") -> RecordedRun:
    flow = Flow(
        name="A <b>flow</b>",
        agents=(
            Agent("First", AgentType.COMPLETION, template=template, choose_next=lambda _: Next.to("Second")),
            Agent("Second", AgentType.COMPLETION, template="Again [[item]]"),
        ),
        outputs=("response",),
    )

    def reply(request: Request) -> Reply:
        return Reply(content=answer if request.prompt.startswith("Tell") else f"{request.prompt}!", reasoning="hm")

    values: dict[str, object] = {"topic": "the <i>sea</i>", "item": ["x", "y"]}
    walk = await RecordedWalk(flow, ScriptedCompleter(reply), values).to_end()
    return stored(walk.told, flow=flow.name).run


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [str(value) for name, value in attributes if name in ("src", "href", "srcset", "action")]

    def handle_data(self, data: str) -> None:
        self.text += data


async def test_the_page_loads_and_runs_nothing_and_shows_what_hides() -> None:
    page = Page()
    text = export_run(await recorded(), "html")
    page.feed(text)
    assert not {"script", "img", "link", "iframe", "a", "form", "object"} & set(page.tags)
    assert page.addresses == []
    assert "default-src 'none'" in text
    assert "<script>alert(1)</script>" in page.text
    assert "⟨U+202E⟩" in page.text
    assert "⟨U+001B⟩[31m" in page.text
    assert not {"\u202e", "\u200b", "\x1b"} & set(text)
    assert "A <b>flow</b>" in page.text
    assert "Second 2/2" in page.text
    assert "prefers-color-scheme:dark" in text
    assert "@import" not in text
    assert "url(" not in text


async def test_markdown_fences_what_models_wrote() -> None:
    text = export_run(await recorded(), "md")
    assert f"````text\n{visible(NASTY)}\n````" in text
    assert text.startswith(r"# A \<b\>flow\</b\>")


async def test_the_document_holds_every_attempt() -> None:
    document = json.loads(export_run(await recorded(), "json"))
    assert document["format"] == "workbench.run"
    assert [(one["agent"], one["branch"]) for one in document["branches"]] == [
        ("First", ""),
        ("Second", "1/2"),
        ("Second", "2/2"),
    ]
    first = document["branches"][0]["attempts"][0]
    assert first["content"] == NASTY
    assert first["turns"] == [["user", "Tell the <i>sea</i>"]]
    assert document["branches"][0]["values"]["response"] == [NASTY]


@pytest.mark.parametrize("form", ["json", "md", "html"])
async def test_a_run_with_a_key_in_it_is_not_exported(form: str) -> None:
    shaped = await recorded("my key is sk-abcdefghijklmnopqrstuvwxyz123456")
    with pytest.raises(StorageError, match="looks like a key"):
        export_run(shaped, form)
    with pytest.raises(StorageError, match="is a key") as caught:
        export_run(await recorded("it is canary-1234"), form, secrets=["canary-1234"])
    assert "canary" not in str(caught.value)
    export_run(await recorded(), form, secrets=["canary-1234"])


async def test_two_runs_are_compared_agent_by_agent() -> None:
    first, second = await recorded("one\ntwo"), await recorded("one\nthree", "Tell me {{topic}}")
    compared = compare_runs(first, second)
    pair = compared.pairs[0]
    assert (pair.agent, pair.prompt_changed, pair.changed_keys) == ("First", True, ("response",))
    assert pair.answer_difference == ("@@ -1,2 +1,2 @@", " one", "-two", "+three")
    assert [pair.same for pair in compared.pairs[1:]] == [True, True]
    assert compared.output_difference == {}
    assert all(pair.same for pair in compare_runs(first, first).pairs)
