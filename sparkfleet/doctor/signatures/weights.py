"""Failures of getting and reading weights."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="F59",
        pattern=r"\b401 Client Error",
        cause="The hub does not know this token, or none was given.",
        fix="Set HF_TOKEN from a file or the environment, then `invoke weights.stage`.",
        source="facts/dgx-spark.md failure 59; seed 5 section 11",
    ),
    Signature(
        id="F59-gated",
        pattern=(
            r"Cannot access gated repo for url"
            r"|Access to model (?P<model>\S+) is restricted and you are not in the authorized list"
        ),
        cause="The model's licence has not been accepted with this token's account.",
        fix="Accept it on the model's page at the hub, then `invoke weights.stage`.",
        source="facts/dgx-spark.md failure 59",
    ),
    Signature(
        id="S5-ngc",
        pattern=r"nvcr\.io.*(?:\b401\b|[Uu]nauthorized)",
        cause="The NGC registry wants a login.",
        fix="Run `docker login nvcr.io` (user $oauthtoken, password the NGC key) on that host.",
        source="seed 5 section 5",
        recorded=False,
    ),
    Signature(
        id="F55",
        pattern=r"outgoing traffic has been disabled",
        cause="The host is offline and does not have this model or revision.",
        fix="Run `invoke weights.stage`: it brings the same commit to every host.",
        source="facts/dgx-spark.md failures 54 and 55",
    ),
    Signature(
        id="F55-path",
        pattern=r"Repo id must be in the form",
        cause="The model was given as a path that this host lacks.",
        fix="Give it as a folder under weights_dir, then `invoke weights.stage`.",
        source="facts/dgx-spark.md failure 55; case C24",
    ),
    Signature(
        id="C42",
        pattern=(
            r"Cannot find any model weights with|weights were not initialized from checkpoint"
            r"|Error while deserializing(?: header)?:|incomplete metadata, file not fully covered"
        ),
        cause="A weight file is missing or cut.",
        fix="Run `invoke weights.verify` to name it, then `invoke weights.stage` to mend it.",
        source="cases C41 and C42",
    ),
    Signature(
        id="F56",
        pattern=r"(?:PermissionError|Permission denied).*(?:huggingface|/hub/|/models\b|\.cache)",
        cause="The weights belong to another user, mostly root, whose container wrote them.",
        fix="Run `sudo chown -R $USER ~/vllm` on that host; `invoke weights.verify` names it.",
        source="facts/dgx-spark.md failure 56; case C39",
        recorded=False,
    ),
    Signature(
        id="F85",
        pattern=r"(?:PermissionError|Permission denied).*modelinfos",
        cause="vLLM's cache of model facts belongs to root, so that an old verdict is reused.",
        fix="Remove that cache folder on the host, and run the container as the user.",
        source="facts/dgx-spark.md failure 85",
        role=FailureRole.WARNING,
        recorded=False,
    ),
    Signature(
        id="V-unstaged",
        pattern=r"Read-only file system: '[^']*/models--(?P<model>[\w.-]+)",
        cause="vLLM would download {model}, which is not staged, into weights that are read-only.",
        fix="Name it in weights_drafts (a draft, an adapter, the code of another model).",
        source="llm-d-incubation/llm-d-modelservice#243; huggingface/huggingface_hub#2797",
    ),
    Signature(
        id="V-code",
        pattern=r"Could not locate the \S+\.py inside (?P<model>[\w.-]+/[\w.-]*\w)",
        cause="The model's Python is in {model}, which is not staged.",
        fix="weights_drafts: [{model}], then `invoke weights.stage`.",
        source="huggingface/sentence-transformers#3043",
    ),
    Signature(
        id="F57",
        pattern=r"rsync: .*\bmkdir\b.*failed",
        cause="The target folder's parent does not exist on that host.",
        fix="Use `invoke weights.stage`, or rsync with --mkpath.",
        source="facts/dgx-spark.md failure 57",
        recorded=False,
    ),
    Signature(
        id="F58",
        pattern=r"(?:rsync|commit hash to ).*?(?P<path>/Users/[^\s\":]+)",
        cause="A path of the control machine was used on a Spark: {path}.",
        fix="Set weights_dir per host; its ~ is expanded there.",
        source="facts/dgx-spark.md failure 58; case C38",
    ),
    Signature(
        id="F60",
        pattern=r"\bneed \d+ GiB",
        cause="The disk has too little room, or what lies there already was not counted.",
        fix="Run `invoke weights.plan`: it subtracts what each host has.",
        source="facts/dgx-spark.md failure 60",
        recorded=False,
    ),
    Signature(
        id="F22",
        pattern=r"[Nn]o space left on device",
        cause="The disk is full; an image copied through /tmp needs its size there.",
        fix="Free space there: `invoke weights.list` shows models, `weights.prune` removes one.",
        source="facts/dgx-spark.md failure 22; case C26",
        recorded=False,
    ),
    Signature(
        id="F21",
        pattern=r"open \S+/blobs/sha256/\w+: no such file or directory",
        cause="Docker misses a layer: a multi-platform index was saved, or /tmp was emptied.",
        fix="Save with `docker save --platform linux/arm64`, or pull the image on that host.",
        source="facts/dgx-spark.md failure 21; case C27",
    ),
    Signature(
        id="F20",
        pattern=r"Docker image mismatch",
        cause="The image's IDs differ; with overlay2 and containerd they do for one image.",
        fix="Compare RepoDigests or RootFS layers, or use one storage driver on all hosts.",
        source="facts/dgx-spark.md failure 20",
        recorded=False,
    ),
)
