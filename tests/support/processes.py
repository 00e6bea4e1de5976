"""Functions of tests in new processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


def elsewhere(function: Callable[..., Any], *arguments: Any, timeout: float = 600, **environ: str) -> Any:
    """What a test module's function returns in a new process; arguments and answer go through JSON."""
    code = (
        f"import json, sys; from {function.__module__} import {function.__name__} as f\n"
        "print(json.dumps(f(*json.loads(sys.argv[1]))))"
    )
    command = [sys.executable, "-c", code, json.dumps(arguments, default=str)]
    done = subprocess.run(
        command, cwd=TESTS, env={**os.environ, **environ}, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
