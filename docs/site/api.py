"""The API reference: a page for each package, filled from docstrings when Sphinx reads it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import bdqn

PACKAGE = Path(bdqn.__file__).parent
HIDDEN = {"cli"}  # its reference is the command line


def api_pages() -> dict[str, str]:
    """Pages by path: one that lists what is public, and one for each package."""
    packages = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)
    shown = [path for path in packages if path.relative_to(PACKAGE).parts[0] not in HIDDEN]
    names = {path: ".".join(("bdqn", *path.relative_to(PACKAGE).parts)) for path in shown}
    pages = {f"reference/api/{name}.md": package_page(name, modules_of(path, name)) for path, name in names.items()}
    top = modules_of(PACKAGE, "bdqn")
    listed = "\n".join(["api/bdqn", *(f"api/{name}" for name in names.values())])
    return {
        "reference/api.md": f"{OVERVIEW}\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n",
        "reference/api/bdqn.md": package_page("bdqn", top),
        **pages,
    }


OVERVIEW = """# API

`import bdqn` gives what most programs need. [What is public](../docs/promises.md) has its own page.

| name | what it is |
|---|---|
| `bdqn.make` | makes a learner: an agent in its environments |
| `bdqn.Learner` | learns, predicts, says how sure it is, saves |
| `bdqn.QPosterior` | what it believes about every action |
| `bdqn.load` | loads a saved agent, or the newest checkpoint of a run |
| `bdqn.Checkpoints` | a directory of checkpoints that continue bit for bit |
| `bdqn.check_env` | finds mistakes in an environment |
| `bdqn.envs` | environments |
| `bdqn.linear` | linear agents with exact regret |

The pages below have everything, package by package, as its docstrings describe it.
"""


def modules_of(folder: Path, package: str) -> list[str]:
    """The modules of a package, itself first; the entry point does nothing but run."""
    stems = sorted(path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "__main__"))
    return [package, *(f"{package}.{stem}" for stem in stems)]


def package_page(package: str, modules: list[str]) -> str:
    """A package's own description with the names that it offers, then its modules."""
    names = [f"`{package}.{name}`" for name in getattr(import_module(package), "__all__", ()) if name[0] != "_"]
    parts = [f"# {package}", f"```{{eval-rst}}\n.. automodule:: {package}\n   :no-members:\n```"]
    parts += [f"It offers {', '.join(names)}."] if names else []
    parts += [f"## {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n```" for module in modules[1:]]
    return "\n\n".join(parts) + "\n"
