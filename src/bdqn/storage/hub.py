"""Agents on the Hugging Face hub, by its own client (extra `hub`).

The client reads where the hub is, who you are, and whether it may use the network (HF_HUB_OFFLINE) from its own
variables and files. What it downloads, it keeps in its cache.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bdqn.config.extras import missing
from bdqn.config.settings import SettingError

PREFIX = "hf://"
REFUSALS = (401, 403)  # HTTP's codes for those who have not said who they are, or may not do this
_ADDRESS = re.compile(rf"{PREFIX}([\w.-]+/[\w.-]+)")


class Hub:
    """A repository of models on the hub that holds one agent, in the files of these names."""

    def __init__(self, address: str, names: Set[str]) -> None:
        match = _ADDRESS.fullmatch(address)
        if not match:
            raise SettingError(f"{address} names no repository of the hub: write {PREFIX}owner/name.")
        self.repo, self.names = match[1], names

    def __str__(self) -> str:
        return f"{PREFIX}{self.repo}"

    @property
    def address(self) -> str:
        """What `bdqn pull` takes, from everywhere."""
        return str(self)

    @property
    def name(self) -> str:
        return self.repo.split("/")[1]

    @contextmanager
    def opened(self) -> Iterator[Path]:
        """Give a directory with the agent's files for the duration of the block; download what is not in the cache."""
        client = self._client()
        with self._one_sentence("pulled from"):
            cache = Path(client.snapshot_download(self.repo, allow_patterns=sorted(self.names)))
        with TemporaryDirectory() as folder:
            for name in self.names:
                with suppress(FileNotFoundError):  # the cache has links to files, of which agents have none
                    shutil.copyfile(cache / name, Path(folder, name))
            try:
                yield Path(folder)
            except (OSError, ValueError) as error:
                raise SettingError(str(error).replace(folder, str(self))) from error

    def write(self, files: Mapping[str, bytes], *, replace: bool) -> None:
        """Write the files in one commit. Creates the repository if needed; other files in it stay as they are."""
        client = self._client()
        present = self._present() & self.names
        if present and not replace:
            raise SettingError(f"{self} has {', '.join(sorted(present))}: choose another name, or pass --replace.")
        with self._one_sentence("pushed to"):
            client.create_repo(self.repo, exist_ok=True)
            client.HfApi(library_name="bdqn").create_commit(
                self.repo,
                [
                    *(client.CommitOperationDelete(name) for name in sorted(present - files.keys())),
                    *(client.CommitOperationAdd(name, data) for name, data in files.items()),
                ],
                commit_message="Add an agent of bdqn",
            )

    def _present(self) -> set[str]:
        """The names of the repository's files; none if it does not exist."""
        client = self._client()
        with self._one_sentence("pushed to"), suppress(client.errors.RepositoryNotFoundError):
            return set(client.HfApi().list_repo_files(self.repo))
        return set()

    def _client(self) -> Any:
        try:
            import huggingface_hub
            import huggingface_hub.errors
        except ImportError as error:
            raise SettingError(missing(f"{self}", "hub", error)) from error
        return huggingface_hub

    @contextmanager
    def _one_sentence(self, done: str) -> Iterator[None]:
        """Say in one sentence what the client could not do. Its own messages take several lines."""
        errors = self._client().errors
        try:
            yield
        except errors.OfflineModeIsEnabled as error:
            reason = "HF_HUB_OFFLINE forbids the network. Unset it, or name a directory"
            raise SettingError(f"{self} cannot be {done}: {reason}.") from error
        except errors.LocalEntryNotFoundError as error:
            reason = (
                "it is not in the hub's cache on this machine, and the hub cannot be reached (HF_HUB_OFFLINE is set?)"
            )
            raise SettingError(f"{self} cannot be {done}: {reason}.") from error
        except errors.RepositoryNotFoundError as error:
            reason = "there is no such repository, or none that you may use. Check its name, and log in (hf auth login)"
            raise SettingError(f"{self} cannot be {done}: {reason}.") from error
        except (errors.HTTPError, OSError, ValueError) as error:
            first = str(error).strip().partition("\n")[0]
            if isinstance(error, errors.HfHubHTTPError) and error.response.status_code in REFUSALS:
                first = f"{first.rstrip('.')}. Log in with a token that may do this (hf auth login)."
            raise SettingError(f"{self} cannot be {done}: {first}") from error
