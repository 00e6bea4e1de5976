"""States as files: nested dictionaries become one JSON file and one safetensors file.

A state holds NumPy arrays, torch tensors and JSON values, in dictionaries and lists. The arrays go to the safetensors
file; the JSON file has a placeholder for each of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

_PLACEHOLDER = "$array"


def to_files(state: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Serialize a state to JSON and safetensors. Equal states give equal bytes."""
    arrays: dict[str, NDArray[Any]] = {}
    values = _take_arrays(state, "", arrays)
    try:
        return to_json(values), save(arrays)
    except SafetensorError as error:  # objects, strings, complex numbers
        raise TypeError(f"a state cannot hold this array: {error}") from error


def from_files(text: bytes, tensors: bytes) -> Any:
    """Restore the state given to ``to_files``. Its arrays are NumPy arrays that own their memory."""
    arrays = read_arrays(tensors)
    return _put_arrays(json.loads(text), arrays)


def to_json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, default=_plain) + "\n").encode()


def read_arrays(data: bytes) -> dict[str, NDArray[Any]]:
    """Read the arrays of a safetensors file by name, as copies."""
    try:
        return {name: array.copy() for name, array in load(data).items()}
    except (SafetensorError, KeyError, TypeError) as error:  # KeyError: a dtype that NumPy lacks
        raise ValueError(f"not a readable safetensors file: {error}") from error


def require_like(name: str, value: Any, own: Any) -> None:
    """Refuse a state whose names, types or shapes differ from the agent's own. An empty mapping allows any."""
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
            if not isinstance(key, str) or key == _PLACEHOLDER:
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
        # A scalar keeps its dtype too: a float32 that came back as a Python float would compute differently.
        return {_PLACEHOLDER: path} if isinstance(node, np.ndarray) else {_PLACEHOLDER: path, "scalar": True}
    return node


def _put_arrays(node: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(node, dict):
        if _PLACEHOLDER in node:
            if node[_PLACEHOLDER] not in arrays:
                raise ValueError(f"the array {node[_PLACEHOLDER]!r} is missing.")
            return arrays[node[_PLACEHOLDER]][()] if "scalar" in node else arrays[node[_PLACEHOLDER]]
        return {key: _put_arrays(item, arrays) for key, item in node.items()}
    if isinstance(node, list):
        return [_put_arrays(item, arrays) for item in node]
    return node


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a state cannot hold a value of type {type(value).__name__}.")  # a repr may hold an address
