"""Container images without a registry or an engine: one layer made of local files, as an OCI layout in a tar file."""

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}
NOBODY = 65532


def linked_libraries(program: Path) -> dict[str, Path]:
    """What the dynamic loader would load, by path in the image; empty for a static program."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout if shutil.which("ldd") else ""
    found = re.findall(r"(?:=> )?(/\S+) \(0x", listed)
    return {path: Path(path) for path in found}


def pack(name: str, program: Path, contents: dict[str, Path], out: Path) -> None:
    """Write an image whose entry point is `program`, at the root of the image under its own file name."""
    entry = f"/{program.name}"
    layer = _layer({entry: program, **contents})
    platform_ = {"architecture": _ARCHITECTURE.get(platform.machine(), platform.machine()), "os": "linux"}
    config = _json(
        {
            **platform_,
            "config": {"Entrypoint": [entry], "User": f"{NOBODY}:{NOBODY}", "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _reference("application/vnd.oci.image.config.v1+json", config),
            "layers": [_reference("application/vnd.oci.image.layer.v1.tar", layer)],
        }
    )
    listed = _reference("application/vnd.oci.image.manifest.v1+json", manifest)
    listed |= {"platform": platform_, "annotations": {"io.containerd.image.name": name}}
    with tarfile.open(out, "w") as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json({"schemaVersion": 2, "manifests": [listed]}))
        for blob in (config, manifest, layer):
            _add(archive, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)


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


def _reference(media_type: str, data: bytes) -> dict:
    return {"mediaType": media_type, "digest": _digest(data), "size": len(data)}
