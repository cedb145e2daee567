"""A flow as a text for elsewhere: a Python script, or a Mermaid diagram."""

from collections.abc import Collection

from engine.errors import FlowInvalid
from engine.export_page import refuse_keys
from engine.flow.export_mermaid import mermaid_text
from engine.flow.export_python import python_text
from engine.flow.flow_check import check_flow
from engine.flow.flow_file import LoadedFlow, flow_text
from engine.flow.subflow_files import FlowFiles

TEXTS = ("python", "mermaid")
"""The formats there are."""


def refuse_keys_in(loaded: LoadedFlow, secrets: Collection[str]) -> None:
    """Raise StorageError when one of `secrets`, or what looks like a key, stands in the flow: it does not leave so."""
    refuse_keys(flow_text(loaded.spec), secrets, "The flow was not exported", hint="Take it out of the flow.")


def export_text(loaded: LoadedFlow, form: str) -> str:
    """The flow in one of TEXTS. Raises FlowInvalid when it is to be a script and has errors."""
    if form == "mermaid":
        return mermaid_text(loaded.spec)
    problems = check_flow(loaded.spec, files=FlowFiles(loaded.origin))
    if any(problem.severity == "error" for problem in problems):
        raise FlowInvalid.of(problems)
    return python_text(loaded.spec, origin=loaded.origin)
