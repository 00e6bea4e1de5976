"""Nothing that is loaded is unpickled: not where it should be expected, and not where a file asks for it."""

from __future__ import annotations

import ast
import io
import pickle
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bdqn
from bdqn.cli import main
from bdqn.storage.checkpoint_files import CheckpointError
from bdqn.storage.checkpoints import Checkpoints
from support.forging import alone, forge, forge_segment, manifest_of
from support.processes import elsewhere

SOURCE = Path(bdqn.__file__).parent


class Unpickled(BaseException):
    """Not an Exception: no handler of ordinary errors may hide it."""


# --- while every load path runs -------------------------------------------------------------------------------


def forbid(*_: object, **__: object) -> None:
    raise Unpickled


class ForbiddenUnpickler:
    def __init__(self, *_: object, **__: object) -> None:
        raise Unpickled


def forbid_pickle() -> None:
    """For the rest of this process, under whatever name someone has got hold of it."""
    for module in ("pickle", "_pickle", "cloudpickle"):
        with suppress(ImportError):  # the last may not be there
            for name in ("load", "loads"):
                setattr(import_module(module), name, forbid)
    for name in ("Unpickler", "_Unpickler"):
        setattr(pickle, name, ForbiddenUnpickler)
    torch.load = torch.jit.load = torch.hub.load = forbid  # type: ignore[assignment]
    real = np.load

    def load_without_pickle(*args: Any, allow_pickle: bool = False, **kwargs: Any) -> Any:
        return forbid() if allow_pickle else real(*args, **kwargs)

    np.load = load_without_pickle
    # The interpreter itself tells when any unpickler, however it was reached, looks up a class or function.
    sys.addaudithook(lambda event, _: forbid() if event == "pickle.find_class" else None)


def is_forbidden(call: Callable[[], object]) -> bool:
    try:
        call()
    except Unpickled:
        return True
    return False


def use_every_load_path(run: str, saved: str) -> dict[str, Any]:
    """In a process of its own, for what is forbidden stays so. Says how far everything came."""
    unpickler, text = pickle.Unpickler, pickle.dumps(Path)  # a class: it has to be looked up
    forbid_pickle()
    objects = io.BytesIO(text)
    watched = [
        is_forbidden(lambda: pickle.loads(text)),
        is_forbidden(lambda: pickle.load(objects)),
        is_forbidden(lambda: torch.load(objects)),
        is_forbidden(lambda: np.load(objects, allow_pickle=True)),
        is_forbidden(lambda: unpickler(objects).load()),  # one that was imported before
    ]
    newest = max(Path(run, "checkpoints").glob("gen-*"))
    return {
        "watched": watched,
        "load": [bdqn.load(path).num_timesteps for path in (run, newest, newest.parent, saved)],
        "Checkpoints.load": Checkpoints(newest.parent).load().learner.num_timesteps,
        "inspect": [main(["inspect", str(path), "--tensors"]) for path in (run, newest, saved)],
        "evaluate": [main(["evaluate", str(path), "--episodes", "1"]) for path in (run, newest, saved)],
        "resume": main(["resume", run, "--steps", "700", "--quiet"]),
        "resumed to": bdqn.load(run).num_timesteps,
    }


def test_every_load_path_works_where_unpickling_is_forbidden(finished_run: Path, tmp_path: Path) -> None:
    run, saved = tmp_path / "run", tmp_path / "agent"
    shutil.copytree(finished_run, run)
    bdqn.load(run).save(saved)
    answer = elsewhere(use_every_load_path, run, saved)
    assert answer == {
        "watched": [True] * 5,
        "load": [600] * 4,
        "Checkpoints.load": 600,
        "inspect": [0] * 3,
        "evaluate": [0] * 3,
        "resume": 0,
        "resumed to": 700,
    }


# --- files that ask for it --------------------------------------------------------------------------------------


class Malicious:
    """Unpickled, it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self.mark,))


def pickled(mark: Path) -> bytes:
    return pickle.dumps(Malicious(mark))


def torch_saved(mark: Path) -> bytes:
    file = io.BytesIO()
    torch.save({"online": Malicious(mark)}, file)
    return file.getvalue()


def numpy_saved(mark: Path) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([Malicious(mark)], dtype=object), allow_pickle=True)
    return file.getvalue()


def numpy_archived(mark: Path) -> bytes:
    file = io.BytesIO()
    np.savez(file, online=np.array([Malicious(mark)], dtype=object))
    return file.getvalue()


FORMATS = {"pickle": pickled, "torch": torch_saved, "npy": numpy_saved, "npz": numpy_archived}


@pytest.mark.parametrize("kind", FORMATS)
def test_these_files_are_dangerous_where_they_are_unpickled(tmp_path: Path, kind: str) -> None:
    data = io.BytesIO(FORMATS[kind](tmp_path / "mark"))
    if kind == "pickle":
        pickle.load(data)
    elif kind == "torch":
        torch.load(data, weights_only=False)
    elif kind == "npy":
        np.load(data, allow_pickle=True)
    else:
        np.load(data, allow_pickle=True)["online"]
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_member_that_is_a_pickle_is_rejected_without_side_effects(
    finished_run: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "mark"
    data = FORMATS[kind](mark)
    names = [entry["name"] for entry in manifest_of(max(finished_run.glob("checkpoints/gen-*")))["members"]]
    for i, name in enumerate(names):
        newest = alone(finished_run, tmp_path / f"run-{i}")
        forge(newest, members={name: data})  # and the manifest vouches for it
        with pytest.raises(CheckpointError):
            Checkpoints(newest.parent).load()
        assert main(["resume", str(newest.parents[1])]) == 2
        if name.startswith("agent."):
            with pytest.raises(CheckpointError):
                bdqn.load(newest)
            assert main(["evaluate", str(newest), "--episodes", "1"]) == 2
        assert main(["inspect", str(newest)]) == int(name.endswith(".safetensors"))
    assert "Traceback" not in capsys.readouterr().err
    assert not mark.exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_segment_that_is_a_pickle_is_rejected_without_side_effects(
    finished_run: Path, tmp_path: Path, kind: str
) -> None:
    mark = tmp_path / "mark"
    newest = alone(finished_run, tmp_path / "run")
    data = np.frombuffer(FORMATS[kind](mark), np.uint8)
    forge_segment(newest, 0, lambda _: {"frames": data})  # inside a sound file
    with pytest.raises(CheckpointError, match="holds"):
        Checkpoints(newest.parent).load()
    assert not mark.exists()


def test_pickles_that_lie_beside_a_checkpoint_are_not_looked_at(finished_run: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    newest = alone(finished_run, tmp_path / "run")
    for folder in (newest, newest.parent, newest.parents[1], newest.parent / "replay"):
        for name in ("agent.pkl", "agent.pt", "__init__.py", "data.npy"):
            (folder / name).write_bytes(pickled(mark))
    assert Checkpoints(newest.parent).load().learner.num_timesteps == 600
    assert not mark.exists()


# --- the source ---------------------------------------------------------------------------------------------------

MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "jsonpickle", "yaml"}
CALLS = {"eval", "exec", "compile", "__import__"}
# Loaders that unpickle, by the module that they are taken from; ``json.load`` and others stay allowed.
LOADERS = {("torch", "load"), ("np", "load"), ("numpy", "load"), ("jit", "load"), ("hub", "load"), ("np", "fromfile")}


def misuses(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            top = (node.module or "").split(".")[0]
            names = {alias.name for alias in node.names}
            if top in MODULES or (top in ("torch", "numpy") and names & {"load", "fromfile"}):
                yield f"from {node.module} import {', '.join(names)}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if (owner, node.attr) in LOADERS:
                yield f"{owner}.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield node.func.id
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            yield "allow_pickle"


def test_the_source_names_no_way_to_unpickle_or_to_run_text() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 50
    assert {str(path): found for path in files if (found := list(misuses(ast.parse(path.read_text()))))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import torch, pickle as p",
        "from cloudpickle import loads",
        "import torch\ntorch.load(f)",
        "from torch import load",
        "import numpy as np\nnp.load(f)",
        "x(f, allow_pickle=True)",
        "import torch\ntorch.jit.load(f)",
        "eval('1')",
        "def f():\n    import marshal",
    ],
)
def test_the_check_of_the_source_finds_what_it_looks_for(text: str) -> None:
    assert list(misuses(ast.parse(text)))
