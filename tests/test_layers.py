"""Imports point one way: from what acts to what is known, and torch is loaded only by what needs it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import bdqn

SOURCE = Path(bdqn.__file__).parent
TESTS = Path(__file__).parent


def imported(nodes: list[ast.stmt]) -> Iterator[str]:
    """Names of all that is imported, wherever it stands; what only type checkers see is left out."""
    for node in nodes:
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from imported(node.orelse)
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                assert node.level == 0, "relative imports hide where they point"
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            case _:
                yield from imported(list(ast.iter_child_nodes(node)))  # type: ignore[misc]


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


IMPORTS = {module_name(path): set(imported(ast.parse(path.read_text()).body)) for path in SOURCE.rglob("*.py")}


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def rule_of(package: str) -> tuple[set[str], set[str]]:
    """What a package's docstring says that it may import of the project, and what it never imports."""
    text = " ".join((ast.get_docstring(ast.parse((SOURCE / package / "__init__.py").read_text())) or "").split())
    parts = {}
    for key in ("May import", "Never"):
        found = re.search(rf"{key}: ([\w.]+(?:, [\w.]+)*)\.", text)
        parts[key] = set(found.group(1).split(", ")) if found else set()
    return parts["May import"] - {"nothing"}, parts["Never"]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_what_its_docstring_says(package: str) -> None:
    may, never = rule_of(package)
    assert package == "cli" or "May import:" in (SOURCE / package / "__init__.py").read_text()
    allowed = [f"bdqn.{name}" for name in {package, *may}]
    for name, imports in IMPORTS.items():
        if within(name, f"bdqn.{package}"):
            up = {i for i in imports if within(i, "bdqn") and not within(i, *allowed)} if package != "cli" else set()
            assert not up, f"{name} imports {up}"
            if package != "agents":  # recipes import what they need when they are called
                wrong = {i for i in imports if within(i, *never)}
                assert not wrong, f"{name} imports {wrong}"


def test_the_rule_of_a_package_is_read_from_its_docstring() -> None:
    assert rule_of("networks") == ({"bayes", "config"}, {"gymnasium"})
    assert rule_of("bayes") == (set(), {"torch", "gymnasium"})


# Single modules that must know less than their package: what they must not import, and what is excepted from that.
RULES: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [
    ("bdqn.qlearning.rules", ("bdqn", "torch", "gymnasium"), ()),
    ("bdqn.envs.interaction", ("bdqn", "torch", "gymnasium"), ()),
    ("bdqn.config.settings", ("bdqn", "torch", "gymnasium"), ()),
    ("bdqn.config.extras", ("bdqn", "torch", "gymnasium"), ()),
    ("bdqn.config.seeding", ("bdqn", "torch", "gymnasium"), ()),
    ("bdqn.storage.atomic", ("bdqn", "torch", "gymnasium"), ()),
    ("bdqn.storage.state_files", ("bdqn", "torch", "gymnasium"), ()),
    ("bdqn.storage.safe_files", ("bdqn", "torch", "gymnasium"), ("bdqn.config.memory", "bdqn.config.settings")),
    ("bdqn.storage.checkpoint_files", ("bdqn", "torch", "gymnasium"), ("bdqn.storage",)),
    ("bdqn.storage.replay_segments", ("torch", "gymnasium", "bdqn.learner"), ()),
    ("bdqn.runs.recording", ("bdqn", "torch", "gymnasium"), ()),
    ("bdqn.learner", ("bdqn.tune", "bdqn.sweep", "bdqn.report"), ()),
    ("bdqn.tune.space", ("torch", "gymnasium", "optuna", "bdqn.learner"), ()),
    ("bdqn.tune.study", ("torch", "gymnasium", "bdqn.learner"), ()),
    ("bdqn.tune.frozen", ("optuna", "bdqn.sweep", "bdqn.report", "bdqn.tune.space", "bdqn.tune.study"), ()),
]


@pytest.mark.parametrize(("module", "forbidden", "excepted"), RULES, ids=[rule[0] for rule in RULES])
def test_imports_never_point_up(module: str, forbidden: tuple[str, ...], excepted: tuple[str, ...]) -> None:
    for name, imports in IMPORTS.items():
        if within(name, module):
            wrong = {i for i in imports if within(i, *forbidden) and not within(i, *excepted)}
            assert not wrong, f"{name} imports {wrong}"


def test_nothing_imports_the_command_line_but_the_entry_point() -> None:
    importers = {name for name, imports in IMPORTS.items() if any(within(i, "bdqn.cli") for i in imports)}
    assert {name for name in importers if not within(name, "bdqn.cli")} <= {"bdqn.__main__"}


def loads(module: str, other: str) -> bool:
    program = f"import sys, {module}; sys.exit({other!r} in sys.modules)"
    return bool(subprocess.run([sys.executable, "-c", program], check=False).returncode)


@pytest.mark.parametrize(
    "module", ["bdqn", "bdqn.config.resolve", "bdqn.agents", "bdqn.bayes.posterior", "bdqn.cli", "bdqn.linear"]
)
def test_torch_is_not_loaded_before_it_is_needed(module: str) -> None:
    if module == "bdqn.cli" and find_spec(module) is None:
        pytest.skip("there is no command line")
    assert not loads(module, "torch")


def test_the_agent_runs_without_gymnasium() -> None:
    assert not loads("bdqn.qlearning.agent", "gymnasium")


def test_linear_agents_run_without_gymnasium() -> None:
    assert not loads("bdqn.linear", "gymnasium")
    assert not loads("bdqn.linear.continuous", "gymnasium")  # it takes environments, but needs none of its own


def test_the_test_of_loading_can_fail() -> None:
    assert loads("bdqn.networks.torsos", "torch")


def test_tests_share_helpers_through_support_alone() -> None:
    """No test module and no conftest is imported by another module, and helpers stand nowhere else."""
    others = {path.stem for path in TESTS.iterdir() if path.is_dir() or path.suffix == ".py"} - {"support"}
    for path in TESTS.rglob("*.py"):
        wrong = {name for name in imported(ast.parse(path.read_text()).body) if within(name, *others)}
        assert not wrong, f"{path} imports {wrong}"
        helper = path.name not in ("__init__.py", "conftest.py") and not path.name.startswith("test_")
        assert not helper or path.parent == TESTS / "support", f"{path} belongs to tests/support"
