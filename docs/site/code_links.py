"""What the API reference needs beyond autodoc: links from names as they are written, and docstrings as plain text.

Pages and docstrings name objects where users find them (``bdqn.networks.heads.BayesianHead``); the reference has them
where they are defined. Annotations name what their module imported (``Learner``), often for type checkers only.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

NAME = re.compile(r"bdqn(?:\.\w+)+")
MARKED = re.compile(r"(`+[^`]*`+)")


class LinkCode(SphinxTransform):
    """Let ``bdqn.some.name`` in backticks lead to its place in the reference, if it is there."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            name = literal.astext()
            if NAME.fullmatch(name) and not isinstance(literal.parent, nodes.reference | pending_xref):
                target = defined(name)[0]
                link = pending_xref(refdomain="py", reftype="obj", reftarget=target, refdoc=self.env.docname)
                link["if_documented"] = True
                literal.replace_self(link)
                link += breakable(literal)


def breakable(literal: nodes.literal) -> nodes.literal:
    """The same, with places in a long name where a line may break."""
    first, *rest = literal.astext().split(".")
    literal.children.clear()
    literal += nodes.Text(first)
    for part in rest:
        literal += [nodes.raw("", "<wbr>", format="html"), nodes.Text(f".{part}")]
    return literal


class CompleteAnnotations(SphinxTransform):
    """Let names in annotations mean what they mean in their module."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for link in self.document.findall(pending_xref):
            if link["refdomain"] == "py" and not NAME.fullmatch(link["reftarget"]):
                module = link.get("py:module") or "bdqn"
                first, dot, rest = str(link["reftarget"]).partition(".")
                meant = imports_of(module).get(first, f"{module}.{first}")
                name, found = defined(f"{meant}{dot}{rest}")
                link["reftarget"] = name if found is not None else link["reftarget"]


@cache
def imports_of(module: str) -> dict[str, str]:
    """What the names that a module imports stand for, also those that it imports for type checkers only."""
    source = Path(str(import_module(module).__file__)).read_text()
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in found for alias in node.names}


def defined(name: str) -> tuple[str, Any]:
    """The full name of an object where it is defined, and the object if it can be had."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            if not hasattr(found, part):
                return name, None  # such as a field without default
            found = getattr(found, part)
        qualified = getattr(found, "__qualname__", None)
        return (f"{found.__module__}.{qualified}" if qualified else name), found
    return name, None


def resolve_otherwise(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """Names that the reference does not have by intention: other packages', private ones, aliases of types.

    A field that has no description of its own leads to its class.
    """
    if node.get("refdomain") != "py":
        return None
    name, found = defined(str(node["reftarget"]))
    if node.get("if_documented"):
        around = name.rpartition(".")[0]
        link = env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", around, node, content)
        return link if isinstance(link, nodes.Element) else content
    is_ours = NAME.fullmatch(name) and (found is None or isinstance(found, type | FunctionType | ModuleType))
    return None if is_ours else content


def as_plain_text(app: Sphinx, kind: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are written to be read in the source: outside backticks, their signs stand for themselves."""
    for number, line in enumerate(lines):
        parts = MARKED.split(line)
        parts[::2] = [re.sub(r"([*|])", r"\\\1", part) for part in parts[::2]]
        lines[number] = "".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(LinkCode)
    app.add_transform(CompleteAnnotations)
    app.connect("missing-reference", resolve_otherwise)
    app.connect("autodoc-process-docstring", as_plain_text, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
