"""Container images without a registry or an engine: one layer made of local files, as an OCI layout in a tar file.

Equal files give an equal image: no times, no owners, entries in order of their names."""

import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}
NOBODY = 65532

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"


def here() -> str:
    """This machine's architecture, as images name it."""
    return _ARCHITECTURE.get(platform.machine(), platform.machine())


def linked_libraries(program: Path) -> dict[str, Path]:
    """What the dynamic loader would load, by path in the image; empty for a static program."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout if shutil.which("ldd") else ""
    found = re.findall(r"(?:=> )?(/\S+) \(0x", listed)
    return {path: Path(path) for path in found}


@dataclass(frozen=True)
class Content:
    """What an image holds, for one architecture."""

    entry: str
    files: dict[str, Path]
    architecture: str = field(default_factory=here)
    labels: dict[str, str] = field(default_factory=dict)


def pack(name: str, program: Path, contents: dict[str, Path], out: Path) -> None:
    """Write an image whose entry point is `program`, at the root of the image under its own file name."""
    entry = f"/{program.name}"
    write(name, [Content(entry, {entry: program, **contents})], out)


def write(name: str, variants: list[Content], out: Path, compress: bool = False) -> str:
    """Write an image for one or more architectures; returns its digest."""
    blobs: dict[str, bytes] = {}

    def add(media_type: str, data: bytes) -> dict:
        blobs[hashlib.sha256(data).hexdigest()] = data
        return {"mediaType": media_type, "digest": _digest(data), "size": len(data)}

    listed = [_variant(each, add, compress) for each in variants]
    if len(listed) > 1:
        listed = [add(_INDEX, _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": listed}))]
    top = listed[0] | {"annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}}
    with tarfile.open(out, "w") as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json({"schemaVersion": 2, "manifests": [top]}))
        for digest, blob in sorted(blobs.items()):
            _add(archive, f"blobs/sha256/{digest}", blob)
    return top["digest"]


def _variant(content: Content, add, compress: bool) -> dict:
    layer = _layer(content.files)
    system = {"architecture": content.architecture, "os": "linux"}
    config = _json(
        {
            **system,
            "config": {
                "Entrypoint": [content.entry], "User": f"{NOBODY}:{NOBODY}", "WorkingDir": "/", "Labels": content.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    kind = "application/vnd.oci.image.layer.v1.tar"
    stored = add(f"{kind}+gzip", gzip.compress(layer, 6, mtime=0)) if compress else add(kind, layer)
    manifest = {
        "schemaVersion": 2, "mediaType": _MANIFEST,
        "config": add("application/vnd.oci.image.config.v1+json", config), "layers": [stored],
    }
    return add(_MANIFEST, _json(manifest)) | {"platform": system}


def _layer(contents: dict[str, Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        made = set()
        for target, source in sorted(contents.items()):
            parts = target.strip("/").split("/")
            for depth in range(1, len(parts)):
                if (directory := "/".join(parts[:depth])) not in made:
                    made.add(directory)
                    entry = tarfile.TarInfo(directory)
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(entry)
            _add(archive, "/".join(parts), source.read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def _json(value: dict) -> bytes:
    return json.dumps(value).encode()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
