"""`workbench trust`: what a flow can do, in words, and the question whether it may."""

import sys
from typing import Literal

import typer

from engine.cli_input import flow_file, open_flow, usage
from engine.cli_options import Options, print_json
from engine.cli_text import DONE, FAILED, INVALID, Terminal
from engine.code_process import USER_RIGHTS
from engine.flow_access import Access, FlowAccess
from engine.trust import TrustStore

_STATES = {
    "harmless": "It holds nothing that needs trust.",
    "trusted": "It is trusted.",
    "foreign": "It was not made or trusted here.",
    "changed": "It has changed since it was trusted.",
}


def show_trust(
    options: Options, name: str, task: Literal["show", "trust", "revoke"], *, ask: bool, as_json: bool
) -> int:
    """Show, trust or revoke; the exit status: 1 when the answer was no, 2 when there is nobody to ask."""
    flow = open_flow(name)
    decider = FlowAccess(TrustStore(options.folders.root))
    file = flow_file(name)
    access = decider.look_at(flow.spec, file, made_here=file is None)
    if task == "revoke":
        revoked = decider.revoke(access)
        options.terminal.note("Trust was taken back." if revoked else "It was not trusted.")
        return DONE
    if as_json and task == "trust" and ask:
        usage("--json needs --show or --yes: it cannot ask.")
    if not as_json:
        _describe(access, options.terminal)
    status = DONE
    if task == "trust" and not access.trust.trusted:
        status = _decide(decider, access, options.terminal, ask=ask)
        access = decider.look_at(flow.spec, file)
    if as_json:
        print_json(_document(access))
    return status


def _decide(decider: FlowAccess, access: Access, terminal: Terminal, *, ask: bool) -> int:
    if ask:
        if not sys.stdin.isatty():
            terminal.error("error: Nobody is there to ask; `--yes` trusts all of this.")
            return INVALID
        if not typer.confirm("Trust all of this, until it changes?", default=False, err=True):
            terminal.note("It stays restricted.")
            return FAILED
    decider.trust(access)
    terminal.note("Trusted, until anything of this changes.")
    return DONE


def _describe(access: Access, terminal: Terminal) -> None:
    terminal.result(f"{access.name}: {_STATES[access.trust.state]}")
    for ability in access.abilities:
        terminal.result(f"  {'!' if ability.restricted else '-'} {ability.kind}: {ability.text}")
    if access.folder is not None:
        files = ", ".join(f"{name} ({len(content):,} bytes)" for name, content in sorted(access.folder.files.items()))
        terminal.result(f"\nIts code is in {access.folder.path}: {files}")
    if access.has_code:
        terminal.result(f"\n{USER_RIGHTS}")
    if access.trust.difference:
        terminal.result(f"\nWhat has changed:\n{access.trust.difference}")


def _document(access: Access) -> dict[str, object]:
    return {
        "flow": access.name,
        "state": access.trust.state,
        "restricted": access.restricted,
        "abilities": [
            {"kind": ability.kind, "text": ability.text, "agent": ability.agent, "restricted": ability.restricted}
            for ability in access.abilities
        ],
        "parts": access.parts,
        "difference": access.trust.difference,
    }
