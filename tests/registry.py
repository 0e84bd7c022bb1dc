"""A registry of one image, in the form that `docker pull` asks for; read-only, plain HTTP.

Run with the folder of an unpacked `docker save`, the image's name and a port. Registry API v2:
manifests and blobs by digest.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def contents(folder: Path) -> dict[str, bytes]:
    """Return every blob by digest, and the manifest under "manifest"."""
    (saved,) = json.loads((folder / "manifest.json").read_text())
    config = (folder / saved["Config"]).read_bytes()
    layers = [gzip.compress((folder / name).read_bytes(), mtime=0) for name in saved["Layers"]]
    blobs = {digest(data): data for data in (config, *layers)}
    rows = [{"mediaType": LAYER, "size": len(data), "digest": digest(data)} for data in layers]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "size": len(config), "digest": digest(config)},
        "layers": rows,
    }
    text = json.dumps(manifest).encode()
    return {**blobs, "manifest": text, digest(text): text}


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    blobs: dict[str, bytes]
    name: str

    def do_GET(self) -> None:
        """Answer with a manifest, a blob, or that it is not there."""
        tail = self.path.removeprefix(f"/v2/{self.name}/")
        kind, _, wanted = tail.partition("/")
        known = wanted if wanted.startswith("sha256:") else "manifest"
        data = b"{}" if self.path == "/v2/" else self.blobs.get(known)
        if data is None or (self.path != "/v2/" and tail == self.path):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Docker-Content-Digest", digest(data))
        is_manifest = kind == "manifests"
        self.send_header("Content-Type", MANIFEST if is_manifest else "application/octet-stream")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET  # noqa: N815 - the base class's name


if __name__ == "__main__":
    Handler.blobs = contents(Path(sys.argv[1]))
    Handler.name = sys.argv[2]
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3])), Handler).serve_forever()
