"""Variables of weights and engines."""

from __future__ import annotations

from sparkfleet.variables.variable import Kind, Variable

ROWS = (
    Variable(
        name="weights_dir",
        kind=Kind.TEXT,
        help="folder of models on this host, HF_HOME; ~ is expanded on the host",
        default="~/vllm",
    ),
    Variable(
        name="cluster_dir",
        kind=Kind.TEXT,
        help="folder of locks, scripts, logs and state on a local disk of this host; unset: "
        "weights_dir/.sparkfleet, or ~/.local/state/sparkfleet/clusters where weights_strategy is "
        "shared",
    ),
    Variable(
        name="weights_source",
        kind=Kind.TEXT,
        help="folder on the control machine to push the model from, instead of the Hub",
    ),
    Variable(
        name="weights_strategy",
        kind=Kind.TEXT,
        help="fanout (one node downloads the model, the others copy it over the fabric), each "
        "(every node downloads it), push (from the control machine to each node), shared (one "
        "store that all nodes mount: only verified), present (only verified)",
        default="fanout",
        choices=("fanout", "each", "push", "shared", "present"),
    ),
    Variable(
        name="weights_revision",
        kind=Kind.TEXT,
        help="branch, tag or commit of the model on the Hub; only a commit pins it",
        default="main",
    ),
    Variable(
        name="weights_allow",
        kind=Kind.LIST,
        help="patterns of the model's files to stage, such as *.safetensors; configs, tokenizer, "
        "chat template and code are always included; unset: all",
    ),
    Variable(
        name="weights_ignore",
        kind=Kind.LIST,
        help="patterns of the model's files to skip, such as original/*",
    ),
    Variable(
        name="weights_drafts",
        kind=Kind.LIST,
        help="draft models and adapters to stage as well: ORG/NAME@COMMIT, or a local folder",
    ),
    Variable(
        name="weights_files",
        kind=Kind.LIST,
        help="files to stage directly in weights_dir (parser plugins, chat templates, patches): a "
        "local path, or ORG/NAME@COMMIT:FILE",
    ),
    Variable(
        name="weights_caches",
        kind=Kind.LIST,
        help="folders of this host, outside weights_dir, whose matching files are linked or copied "
        "instead of sent; never changed",
        default=("~/.cache/huggingface",),
    ),
    Variable(
        name="weights_offline",
        kind=Kind.FLAG,
        help="never connect to the Hub: use only local files and files on nodes",
        default=False,
    ),
    Variable(
        name="engine",
        kind=Kind.TEXT,
        help="what runs vLLM and Ray; unset: native if engine_venv is set, else docker",
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
        help="copy (one node has or pulls the image, the others copy it from there), pull (each "
        "node pulls it), none (it must be present)",
        default="copy",
        choices=("copy", "pull", "none"),
    ),
    Variable(
        name="engine_pip",
        kind=Kind.LIST,
        help="packages to add to the image, in pip's syntax; builds a derived image",
    ),
    Variable(
        name="engine_program",
        kind=Kind.TEXT,
        help="program that serves in the container: vllm (`vllm serve` with vllm_args), or image "
        "(the image's own program, configured with vllm_env; one host only)",
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
        help="how containers get the GPU: all (--gpus all), cdi, none, or auto (by the host)",
        default="auto",
        choices=("auto", "all", "cdi", "none"),
    ),
    Variable(
        name="engine_user",
        kind=Kind.TEXT,
        help="user in the containers: host (the SSH user), or UID:GID; unset: the image's",
    ),
    Variable(
        name="engine_privileged",
        kind=Kind.FLAG,
        help="run containers with all the rights of root on the host",
        default=False,
    ),
    Variable(
        name="engine_shm_size",
        kind=Kind.SIZE,
        help="size of the containers' own shared memory; unset: the host's /dev/shm",
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
        help="folder of this host for compiled kernels; on a local disk, never shared",
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
        help="additional mounts in containers: HOST:CONTAINER or HOST:CONTAINER:ro; HOST may be a "
        "name of weights_files",
    ),
    Variable(
        name="engine_args",
        kind=Kind.LIST,
        help="more options of `docker run`, one word each, after those of sparkfleet",
    ),
)
