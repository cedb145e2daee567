"""Makes plug-ins look installed: modules and the metadata of a package in a folder on sys.path."""

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    monkeypatch: pytest.MonkeyPatch, folder: Path, groups: Mapping[str, Mapping[str, str]], **modules: str
) -> None:
    """Write the modules, and a distribution whose entry points are `groups` (kind → name → object)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    info = folder / "test_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: test-plugins\nVersion: 1.0\n")
    lines = []
    for kind, entries in groups.items():
        lines += [f"[flow_workbench.{kind}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    for name in modules:
        monkeypatch.delitem(sys.modules, name, raising=False)
