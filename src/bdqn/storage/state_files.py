"""States as nested dictionaries, and how they become files: arrays apart from everything else.

A state holds NumPy arrays, torch tensors and what JSON can say, in dictionaries and lists. On disk its arrays are a
safetensors file, and its JSON has a place-holder where each array stood.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

_PLACE = "$array"


def to_files(state: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """A state as JSON and safetensors. The same state always gives the same bytes."""
    arrays: dict[str, NDArray[Any]] = {}
    values = _take_arrays(state, "", arrays)
    try:
        return to_json(values), save(arrays)
    except SafetensorError as error:  # objects, texts, complex numbers
        raise TypeError(f"a state cannot hold such an array: {error}") from error


def from_files(text: bytes, tensors: bytes) -> Any:
    """The state that ``to_files`` was given; its arrays are NumPy's, and own their memory."""
    arrays = read_arrays(tensors)
    return _put_arrays(json.loads(text), arrays)


def to_json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, default=_plain) + "\n").encode()


def read_arrays(data: bytes) -> dict[str, NDArray[Any]]:
    """Named arrays of a safetensors file, in memory of their own."""
    try:
        return {name: array.copy() for name, array in load(data).items()}
    except (SafetensorError, KeyError, TypeError) as error:  # KeyError: a kind of number that NumPy lacks
        raise ValueError(f"this is no safetensors file that can be read here: {error}") from error


def require_like(name: str, value: Any, own: Any) -> None:
    """Refuse what has other names, kinds or shapes than an agent's own; where that is empty, it may have any."""
    if isinstance(own, Mapping):
        if own and value.keys() != own.keys():
            raise ValueError(f"{name} holds {sorted(value)}, but this agent needs {sorted(own)}.")
        for key, item in own.items():
            require_like(f"{name}/{key}", value[key], item)
    elif hasattr(own, "shape"):
        kind, needed = (f"{str(array.dtype).removeprefix('torch.')} {tuple(array.shape)}" for array in (value, own))
        if kind != needed:
            raise ValueError(f"{name} is {kind}, but this agent needs {needed}.")
    elif type(value) is not type(own):
        raise ValueError(f"{name} is {value!r:.80}, but this agent needs a {type(own).__name__}.")


def _take_arrays(node: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(node, Mapping):
        for key in node:
            if not isinstance(key, str) or key == _PLACE:
                raise TypeError(f"a state cannot hold the key {key!r}.")
        return {key: _take_arrays(item, f"{path}/{key}" if path else key, arrays) for key, item in node.items()}
    if isinstance(node, list | tuple):
        return [_take_arrays(item, f"{path}/{i}", arrays) for i, item in enumerate(node)]
    if hasattr(node, "detach"):  # a torch tensor
        node = node.detach().cpu().numpy()
    if isinstance(node, np.ndarray | np.generic) and not isinstance(node, str):
        if path in arrays:
            raise ValueError(f"Two arrays of a state are called {path}.")
        arrays[path] = np.ascontiguousarray(node).reshape(node.shape)
        # A scalar keeps its kind too: float32 that came back as Python's float would compute otherwise.
        return {_PLACE: path} if isinstance(node, np.ndarray) else {_PLACE: path, "scalar": True}
    return node


def _put_arrays(node: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(node, dict):
        if _PLACE in node:
            if node[_PLACE] not in arrays:
                raise ValueError(f"the array {node[_PLACE]!r} is missing.")
            return arrays[node[_PLACE]][()] if "scalar" in node else arrays[node[_PLACE]]
        return {key: _put_arrays(item, arrays) for key, item in node.items()}
    if isinstance(node, list):
        return [_put_arrays(item, arrays) for item in node]
    return node


def _plain(value: Any) -> Any:
    """NumPy's scalars as JSON's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a state cannot hold a value of type {type(value).__name__}.")  # repr may tell an address
