"""Data sets by name: on the Hugging Face hub, and the two that the paper's authors published.

hub:owner/name                   a data set repository
hub:owner/name/folder@revision   a folder of it, as of a branch, tag or commit
memory-maze-9x9-30M              of the paper; its files are put into the cache by hand

A data set is fetched once, and each file is compared with the hub's checksum. From then on it is used as it
is, without asking the hub: a newer one is another `@revision`.
"""

import concurrent.futures
import contextlib
import dataclasses
import glob
import hashlib
import json
import os
import re
from collections.abc import Generator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

from memory_maze.data.schema import DataError
from memory_maze.system.extras import missing
from memory_maze.system.files import cache_folder, replacing
from memory_maze.system.locks import lock

if TYPE_CHECKING:
    from huggingface_hub.hf_api import HfApi, RepoFile

PREFIX = "hub:"
PUBLISHED = {"memory-maze-9x9-30M": "9x9", "memory-maze-15x15-30M": "15x15"}
AUTHORS = "https://github.com/jurgisp/memory-maze"
_FORM = re.compile(r"hub:(\w[\w.-]*/\w[\w.-]*)((?:/[^/@]+)*)/?(?:@(.+))?")
_PATTERNS = ("dataset.json", "*.npz", "*.zip", "*-*.json")
_THREADS = 4
_PATIENCE = 10.0  # seconds until the hub counts as out of reach


def is_name(name: str) -> bool:
    """Whether it names a data set that is to be fetched; a folder beside you comes first."""
    return name.startswith(PREFIX) or (name in PUBLISHED and not Path(name).exists())


def fetch(name: str) -> Path:
    """The folder of a data set by its name, fetched if it is not there yet."""
    if name in PUBLISHED:
        return _find_published(name)
    wanted = parse_name(name)
    if (found := _find_verified(wanted)) is not None:
        return found
    with _alone(wanted.place):
        return _find_verified(wanted) or _download(wanted)


def explain_missing(name: str) -> str:
    """What to tell about a path that is not there."""
    return (
        f"{name} not found. A data set is a directory, a zip file, {PREFIX}owner/name on the Hugging Face "
        f"hub, or {' or '.join(PUBLISHED)}, those of the paper. {_advise()}"
    )


@dataclasses.dataclass(frozen=True)
class Name:
    """What a name asks for."""

    text: str
    repository: str
    folder: str
    """Within the repository; empty for all of it."""
    revision: str

    @property
    def place(self) -> Path:
        return cache_folder("hub") / self.repository

    @property
    def record(self) -> Path:
        """The file that says that it was fetched and verified."""
        return self.place / "fetched" / f"{quote(f'{self.folder}@{self.revision}', safe='@')}.json"

    @property
    def patterns(self) -> list[str]:
        folder = glob.escape(self.folder + "/") if self.folder else ""
        return [folder + pattern for pattern in _PATTERNS]


def parse_name(text: str) -> Name:
    """Takes hub:owner/name/folder@revision apart."""
    match = _FORM.fullmatch(text)
    if match is None or {".", ".."} & set(match[2].split("/")):
        raise ValueError(
            f"{text!r} is not the name of a data set: it should be like {PREFIX}owner/name, "
            f"{PREFIX}owner/name/folder or {PREFIX}owner/name@revision"
        )
    return Name(text, match[1], match[2].strip("/"), match[3] or "main")


def _find_published(name: str) -> Path:
    folder = cache_folder("published") / name
    if any(path.suffix in (".npz", ".zip") for path in folder.rglob("*")):
        return folder
    raise FileNotFoundError(
        f"{name} not found. Its authors publish it on {AUTHORS}, about 100 GB of zip files: "
        f"put them, without extracting, into {folder} to load it by name. {_advise(PUBLISHED[name])}"
    )


def _advise(task: str = "9x9") -> str:
    command = f"memory-maze collect --task {task} --episodes 30000 --steps 1000 --out DIR"
    return f"To make the same kind of data yourself: {command}"


def _find_verified(wanted: Name) -> Path | None:
    """Where it is, if it was fetched before and nothing has been lost since."""
    try:
        record = json.loads(wanted.record.read_text())
        root = wanted.place / record["commit"]
        if all((root / path).stat().st_size == size for path, size in record["files"].items()):
            return root / wanted.folder
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # a record that is damaged is as none
    return None


@contextlib.contextmanager
def _alone(place: Path) -> Generator[None]:
    """Waits until no other process fetches from the same repository."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("a") as file:
        lock(file.fileno())
        yield


def _download(wanted: Name) -> Path:
    try:
        from huggingface_hub import HfApi
    except ModuleNotFoundError as error:
        raise missing("downloading needs huggingface_hub", error.name, "hub") from error

    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    with _explaining(wanted):
        commit, files = _list_files(api, wanted)
        root = wanted.place / commit
        _remove_leftovers(root)
        api.snapshot_download(
            wanted.repository,
            repo_type="dataset",
            revision=commit,
            # A cache of its own: what was damaged elsewhere must not come back from there.
            cache_dir=wanted.place,
            local_dir=root,
            allow_patterns=wanted.patterns,
        )
    _verify(root, files, wanted)
    record = {"commit": commit, "files": {file.path: _size(file) for file in files}}
    with replacing(wanted.record) as path:
        path.write_text(json.dumps(record) + "\n")
    return root / wanted.folder


def _list_files(api: "HfApi", wanted: Name) -> tuple[str, list["RepoFile"]]:
    """The commit that is meant, and those of its files that belong to the data set."""
    from huggingface_hub.hf_api import RepoFile
    from huggingface_hub.utils import filter_repo_objects

    commit = api.dataset_info(wanted.repository, revision=wanted.revision, timeout=_PATIENCE).sha
    assert commit is not None, wanted
    tree = api.list_repo_tree(wanted.repository, repo_type="dataset", revision=commit, recursive=True)
    listed = [entry for entry in tree if isinstance(entry, RepoFile)]
    files = list(filter_repo_objects(listed, allow_patterns=wanted.patterns, key=lambda file: file.path))
    for file in files:
        if file.path.startswith("/") or ".." in PurePosixPath(file.path).parts:
            raise DataError(f"{wanted.text}: the path {file.path!r} is outside of the data set")
    if not files:
        raise DataError(f"{wanted.text}: it has no data: no NPZ or zip files")
    return commit, files


def _remove_leftovers(root: Path) -> None:
    """The client begins a file anew and leaves what a killed process had of it."""
    for path in (root / ".cache").rglob("*.incomplete"):
        path.unlink()


@contextlib.contextmanager
def _explaining(wanted: Name) -> Generator[None]:
    """Says in one paragraph why a data set could not be fetched, and what to do without it."""
    import httpx2
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        yield
    except GatedRepoError as error:
        raise PermissionError(
            f"{wanted.text}: access is restricted: request access on its page on the hub, then run hf auth "
            f"login. {_advise()}"
        ) from error
    except RepositoryNotFoundError as error:
        raise FileNotFoundError(
            f"{wanted.text}: the hub has no such data set, or it is private: then run hf auth login. "
            f"{_advise()}"
        ) from error
    except RevisionNotFoundError as error:
        raise FileNotFoundError(f"{wanted.text}: the data set has no revision {wanted.revision!r}") from error
    except (httpx2.HTTPError, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise OSError(
            f"{wanted.text} could not be downloaded: {reason}. Load it again when the hub is reachable: "
            f"completed files are kept. {_advise()}"
        ) from error


def _verify(root: Path, files: list["RepoFile"], wanted: Name) -> None:
    """Compares all files with the hub's checksums, and removes those that are not the same."""
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        same = list(pool.map(lambda file: _is_same(root / file.path, file), files))
    wrong = [root / file.path for file, good in zip(files, same, strict=True) if not good]
    for path in wrong:
        path.unlink(missing_ok=True)
    if wrong:
        others = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise DataError(
            f"{wrong[0]}{others}: wrong checksum for {wanted.text}, removed: load it again to download it"
        )


def _is_same(path: Path, file: "RepoFile") -> bool:
    """By the SHA-256 of large files, and by git's SHA-1 of the others."""
    if not path.is_file() or path.stat().st_size != _size(file):
        return False
    with path.open("rb") as handle:
        os.fsync(handle.fileno())  # once it is on record, it is not looked at again
        if file.lfs is not None:
            return hashlib.file_digest(handle, "sha256").hexdigest() == file.lfs.sha256
        digest = hashlib.sha1(b"blob %d\0" % _size(file), usedforsecurity=False)
        return hashlib.file_digest(handle, lambda: digest).hexdigest() == file.blob_id


def _size(file: "RepoFile") -> int:
    return file.size if file.lfs is None else file.lfs.size
