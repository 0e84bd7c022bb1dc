"""Failures of images and of what a container is given."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import Signature

ROWS = (
    Signature(
        id="image-architecture",
        pattern=(
            r"[Ee]xec format error|no matching manifest for linux/arm"
            r"|no match for platform in manifest"
            r"|image'?s? platform \(linux/amd64\) does not match"
            r"|no image found in (?:image index|manifest list) for architecture arm64"
        ),
        cause="This image has no build for arm64, the architecture of a Spark.",
        fix="Use an image with a linux/arm64 build; `docker manifest inspect IMAGE` lists them.",
        source=(
            "mmartial/ComfyUI-Nvidia-Docker#96; vllm-project/vllm#30076; av/harbor#14; "
            "microsoft/TRELLIS.2#32"
        ),
        sample="exec /usr/bin/bash: exec format error",
        near_miss="image platform (linux/arm64) matches",
    ),
    Signature(
        id="container-runtime-missing",
        pattern=(
            r"could not select device driver .{0,20}with capabilities: \[\[gpu\]\]"
            r"|unknown or invalid runtime name: nvidia|unresolvable CDI devices"
            r"|failed to discover GPU vendor from CDI|Unknown runtime specified nvidia"
            r"|stat nvidia\.com/gpu=\S{1,40}: no such file"
        ),
        cause=(
            "This host cannot give a container the GPU: NVIDIA's runtime, or for Podman its CDI "
            "file, is missing."
        ),
        fix=(
            "Install nvidia-container-toolkit there, then run `sudo nvidia-ctk runtime configure "
            "--runtime=docker` and `sudo systemctl restart docker`; for Podman `sudo nvidia-ctk "
            "cdi generate --output=/etc/cdi/nvidia.yaml`."
        ),
        source="hiyouga/LlamaFactory#5268; OpenBMB/XAgent#273",
        sample=(
            'docker: Error response from daemon: could not select device driver "" with '
            "capabilities: [[gpu]]."
        ),
        near_miss="Runtimes: io.containerd.runc.v2 nvidia runc",
    ),
    Signature(
        id="image-entrypoint",
        pattern=r'exec: \\?"(?P<word>[^"\\\n]{1,80})\\?": (?:executable file not found|stat )',
        cause="The image has no program {word}: its entrypoint differs from what the recipe needs.",
        fix="Use the image that the recipe names; `{task:cluster.render}` shows the command.",
        source="vllm-project/vllm#15007; LMCache/LMCache#906; docker/for-mac#4116",
        sample=(
            'OCI runtime create failed: unable to start container process: exec: "vllm": '
            "executable file not found in $PATH: unknown"
        ),
        near_miss='exec: "vllm" started',
    ),
    Signature(
        id="image-not-found",
        pattern=(
            r"manifest unknown|manifest for (?P<image>\S{1,200}) not found"
            r"|pull access denied for|repository does not exist or may require"
        ),
        cause="The registry has no such image or tag, or it requires a login.",
        fix="Correct the image of the recipe, or run `docker login` on that host.",
        source="ivangabriele/dockfish#13; dagucloud/dagu#985",
        sample="Error response from daemon: manifest for vllm/vllm-openai:x not found",
        near_miss="manifest for vllm/vllm-openai:x verified",
    ),
    Signature(
        id="mount-source-missing",
        pattern=r"bind (?:mount )?source path does not exist: (?P<path>\S{1,300})",
        cause="{path} is mounted into the container, but does not exist on this host.",
        fix="Create it on that host, or correct the path in the inventory or recipe.",
        source="devcontainers/cli#613; docker/docs#4709",
        sample=(
            'docker: Error response from daemon: invalid mount config for type "bind": bind '
            "source path does not exist: /srv/models."
        ),
        near_miss="bind source path /srv/models",
    ),
)
