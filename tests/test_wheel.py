"""The wheel that ``make dist`` builds needs nothing of the repository, and its version is the one that files name."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SOURCES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")

# What a new user does.
COMMANDS = (
    "presets show paper",
    "train --env CartPole-v1 --steps 400 --learning-starts 100 --features 16 --out run --quiet",
    "evaluate run --episodes 1",
    "report run --out report.html",
    "watch run --out watch.html --max-steps 20",
    "linear --mdp linear-q:horizon=2 --episodes 5 --seeds 2 --out regret --quiet",
)
WRITTEN = ("run/config.toml", "report.html", "watch.html", "regret/regret.png")
USE = """
import sys
from pathlib import Path

import bdqn
from bdqn.cli import main
from bdqn.config.extras import how_to_install

assert Path(bdqn.__file__).is_relative_to(sys.prefix), bdqn.__file__
assert how_to_install("tune").endswith("-m pip install 'optuna>=4'"), how_to_install("tune")
for line in sys.stdin:
    assert main(line.split()) == 0, line
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, by way of the source archive, as ``make dist`` does."""
    copy = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src" / "bdqn", copy / "src" / "bdqn", ignore=shutil.ignore_patterns("__pycache__"))
    for name in SOURCES:
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "build", "--no-isolation", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = copy.glob("dist/*.whl")
    return built


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def check_that_it_works(environment: Path, elsewhere: Path) -> None:
    """Run the commands outside the repository, isolated from the caller's paths and variables."""
    script = [python_of(environment), "-I", "-c", USE]
    done = subprocess.run(script, cwd=elsewhere, input="\n".join(COMMANDS), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all((elsewhere / name).stat().st_size > 0 for name in WRITTEN)
    command = [environment / "bin" / "bdqn", "--version"]
    assert subprocess.run(command, cwd=elsewhere, capture_output=True, text=True).stdout == f"bdqn {VERSION}\n"


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    package = ROOT / "src"
    files = {str(path.relative_to(package)) for path in (package / "bdqn").rglob("*") if path.is_file()}
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(f"bdqn-{VERSION}.dist-info/")}
    assert names == {name for name in files if "__pycache__" not in name}


def test_the_wheel_works_outside_the_repository(wheel: Path, tmp_path: Path) -> None:
    """Its dependencies are those of this environment, which has bdqn only as a link to the repository."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    install = [sys.executable, "-m", "pip", "--python", python_of(environment), "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--no-index", wheel], check=True)
    scheme = {"base": str(environment), "platbase": str(environment)}
    packages = Path(sysconfig.get_path("purelib", "venv", scheme))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    check_that_it_works(environment, tmp_path)


@pytest.mark.long
def test_the_wheel_works_with_nothing_but_python(wheel: Path, tmp_path: Path) -> None:
    """Everything is downloaded: several hundred megabytes."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    install = [python_of(environment), "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, wheel], check=True)
    check_that_it_works(environment, tmp_path)


def test_files_that_name_the_version_name_the_same() -> None:
    named = {
        "CITATION.cff": rf"^version: {re.escape(VERSION)}$",
        "CHANGELOG.md": rf"^## \[{re.escape(VERSION)}\]",
        "README.md": rf"Status: {re.escape(VERSION)}\b",
    }
    for name, pattern in named.items():
        assert re.search(pattern, (ROOT / name).read_text(), re.MULTILINE), f"{name} does not name {VERSION}"
