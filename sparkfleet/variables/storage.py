"""Weights, and what runs on a host."""

from __future__ import annotations

from sparkfleet.variables.variable import Kind, Variable

ROWS = (
    Variable(
        name="weights_dir",
        kind=Kind.TEXT,
        help="where models live on this host, HF_HOME; ~ is expanded there",
        default="~/vllm",
    ),
    Variable(
        name="cluster_dir",
        kind=Kind.TEXT,
        help="where locks, scripts, logs and state are on this host, on a disk of its own; unset: "
        "weights_dir/.sparkfleet, or ~/.local/state/sparkfleet/clusters where weights_strategy is "
        "shared",
    ),
    Variable(
        name="weights_source",
        kind=Kind.TEXT,
        help="folder on the control machine to push the model from, instead of the hub",
    ),
    Variable(
        name="weights_strategy",
        kind=Kind.TEXT,
        help="fanout (one node gets the model, the others from it over the fabric), each (every "
        "node downloads), push (from the control machine to each), shared (one store that all "
        "mount: only verified), present (only verified)",
        default="fanout",
        choices=("fanout", "each", "push", "shared", "present"),
    ),
    Variable(
        name="weights_revision",
        kind=Kind.TEXT,
        help="branch, tag or commit of the model on the Hub; a commit pins it for good",
        default="main",
    ),
    Variable(
        name="weights_allow",
        kind=Kind.LIST,
        help="patterns of the model's files that are wanted, such as *.safetensors; configs, "
        "tokenizer, chat template and code come along; unset: all",
    ),
    Variable(
        name="weights_ignore",
        kind=Kind.LIST,
        help="patterns of the model's files that are not wanted, such as original/*",
    ),
    Variable(
        name="weights_drafts",
        kind=Kind.LIST,
        help="draft models and adapters to stage too: ORG/NAME@COMMIT, or a folder here",
    ),
    Variable(
        name="weights_files",
        kind=Kind.LIST,
        help="files to stage right below weights_dir (parser plugins, chat templates, patches): a "
        "path here, or ORG/NAME@COMMIT:FILE",
    ),
    Variable(
        name="weights_caches",
        kind=Kind.LIST,
        help="folders of this host, outside weights_dir, whose files are used where they hold what "
        "is wanted: linked or copied, not sent; nothing is changed there",
        default=("~/.cache/huggingface",),
    ),
    Variable(
        name="weights_offline",
        kind=Kind.FLAG,
        help="never ask the Hub: only what is here or on a node counts",
        default=False,
    ),
    Variable(
        name="engine",
        kind=Kind.TEXT,
        help="what runs vLLM and Ray; unset: native where engine_venv is set, else docker",
        choices=("docker", "podman", "native"),
    ),
    Variable(
        name="engine_venv",
        kind=Kind.TEXT,
        help="Python environment with vLLM and Ray on this host (engine: native)",
    ),
    Variable(
        name="engine_image",
        kind=Kind.TEXT,
        help="image with vLLM, and Ray for several nodes: NAME:TAG or NAME@sha256:DIGEST",
    ),
    Variable(
        name="engine_image_source",
        kind=Kind.TEXT,
        help="copy (one node has or pulls the image, the others get it from there), pull (each "
        "node pulls), none (it must be there)",
        default="copy",
        choices=("copy", "pull", "none"),
    ),
    Variable(
        name="engine_pip",
        kind=Kind.LIST,
        help="packages to add to the image, as pip takes them; makes an image of its own",
    ),
    Variable(
        name="engine_program",
        kind=Kind.TEXT,
        help="what serves in the container: vllm (`vllm serve` with vllm_args), or image (the "
        "image's own program, which vllm_env tells what to serve); image is for one host",
        default="vllm",
        choices=("vllm", "image"),
    ),
    Variable(
        name="engine_mods",
        kind=Kind.LIST,
        help="scripts, or folders with a run.sh, to run in every container before its program",
    ),
    Variable(
        name="engine_gpus",
        kind=Kind.TEXT,
        help="how containers get the GPU: all (--gpus all), cdi, none, or auto (what the host has)",
        default="auto",
        choices=("auto", "all", "cdi", "none"),
    ),
    Variable(
        name="engine_user",
        kind=Kind.TEXT,
        help="user in the containers: host (the one that logs in), UID:GID; unset: the image's",
    ),
    Variable(
        name="engine_privileged",
        kind=Kind.FLAG,
        help="give containers every right of the host's root",
        default=False,
    ),
    Variable(
        name="engine_shm_size",
        kind=Kind.SIZE,
        help="shared memory of the containers' own; unset: the host's /dev/shm",
        minimum=67108864,
    ),
    Variable(
        name="engine_memory",
        kind=Kind.SIZE,
        help="memory that each container may use, swap included; unset: all",
        minimum=1073741824,
    ),
    Variable(
        name="engine_cache_dir",
        kind=Kind.TEXT,
        help="folder of this host for compiled kernels; on a disk of its own, never shared",
        default="~/.cache/sparkfleet",
    ),
    Variable(
        name="engine_weights_readonly",
        kind=Kind.FLAG,
        help="containers cannot write to weights_dir",
        default=True,
    ),
    Variable(
        name="engine_mounts",
        kind=Kind.LIST,
        help="more of the host in containers: HOST:CONTAINER or HOST:CONTAINER:ro; HOST may be "
        "a name of weights_files",
    ),
    Variable(
        name="engine_args",
        kind=Kind.LIST,
        help="more options of `docker run`, one word each, after ours",
    ),
)
