"""Failures of getting and reading weights."""

from __future__ import annotations

import re

from sparkfleet.doctor.signatures.row import Clues, Signature

_TRACEBACK = 4_000  # characters
_TOOL_CALL = ("extracting tool call", "streaming tool call", "/tool_parsers/")


def _is_of_file(match: re.Match[str], _clues: Clues) -> bool:
    """Return False where the JSON is a tool call that a model wrote."""
    begin = max(0, match.start() - _TRACEBACK)
    return all(match.string.find(words, begin, match.start()) < 0 for words in _TOOL_CALL)


ROWS = (
    Signature(
        id="hub-unauthorized",
        pattern=r"\b401 Client Error",
        cause="The Hub rejects this token, or no token is set.",
        fix="Set HF_TOKEN from a file or the environment, then run `{task:weights.stage}`.",
        source="NVIDIA/dgx-spark-playbooks vllm README; eugr/spark-vllm-docker#202",
        leads_to=("model-config-missing",),
        near_miss="404 Client Error. (Request ID: Root=1)",
    ),
    Signature(
        id="hub-gated",
        pattern=(
            r"Cannot access gated repo for url|trying to access a gated repo"
            r"|(?:Access to|Repo) model (?P<model>\S+) is (?:gated\. You must be authenticated"
            r"|restricted(?: and you are not in the authorized list|\. You must ))"
        ),
        cause="The model's licence has not been accepted with this token's account.",
        fix="Accept it on the model's page on the Hub, then run `{task:weights.stage}`.",
        source="NVIDIA/dgx-spark-playbooks vllm README; eugr/spark-vllm-docker#202",
        leads_to=("hub-unauthorized", "model-config-missing"),
        near_miss="Access to model a/b is granted",
    ),
    Signature(
        id="ngc-unauthorized",
        pattern=(
            r"nvcr\.io.{0,60}(?:\b401\b|[Uu]nauthorized)|unauthorized: authentication required"
            r"|failed to fetch anonymous token: .{0,40}\b401\b"
        ),
        cause="The image registry, usually NVIDIA's nvcr.io, requires a login.",
        fix="Run `docker login nvcr.io` (user $oauthtoken, password the NGC key) on that host.",
        source="XingangPan/DragGAN#149; dusty-nv/jetson-containers#186; NVlabs/stylegan3#167",
        near_miss="nvcr.io/nvidia/vllm:26.04-py3: Pulling from nvidia/vllm",
    ),
    Signature(
        id="hub-offline",
        pattern=r"outgoing traffic has been disabled|OfflineModeIsEnabled: Cannot reach",
        cause="The host is offline and does not have this model or revision.",
        fix="Run `{task:weights.stage}`, which copies the same commit to every host.",
        source="eugr/spark-vllm-docker#262; eugr/spark-vllm-docker#146",
        leads_to=("hub-unreachable", "model-config-missing"),
        near_miss="HF_HUB_OFFLINE is set; outgoing traffic is not needed",
    ),
    Signature(
        id="model-path-missing",
        pattern=(
            r"Repo id must be in the form(?: 'repo_name' or 'namespace/repo_name'): "
            r"'(?P<path>[^'\n]{1,300})'|Repo id must (?:be in the form|use alphanumeric)"
            r"|Invalid repository ID or local directory specified|Incorrect path_or_model_id"
            r"|is not a local folder and is not a valid model identifier"
        ),
        cause=(
            "Inside the container the model's folder ({path}) does not exist or has no config.json:"
            " it is not mounted, a link in it points out of the mount, or it is a models--... "
            "folder of the cache instead of a snapshot in it."
        ),
        fix=(
            "Set vllm_model to a folder under weights_dir that holds config.json, then run "
            "`{task:weights.stage}`."
        ),
        source=("eugr/spark-vllm-docker#146; eugr/spark-vllm-docker#153; vllm-project/vllm#12378"),
        leads_to=("model-config-missing",),
        near_miss="Repo id 'org/model' resolved to commit abc",
    ),
    Signature(
        id="model-config-missing",
        pattern=(
            r"does not appear to have (?:a file|files) named config\.json"
            r"|No supported config format found in"
            r"|Could not detect config format for no config file found"
        ),
        cause=(
            "There is no config.json: vllm_model names a folder above the model's, an adapter, a "
            "GGUF or a model for Diffusers, or the Hub did not let vLLM read the repository."
        ),
        fix=(
            "Set vllm_model to the folder or repository that holds config.json, then run "
            "`{task:weights.stage}`. An adapter goes into lora-modules of vllm_args."
        ),
        source="vllm-project/vllm#13150; vllm-project/vllm#14090; vllm-project/vllm-omni#474",
        sample="OSError: /data/x does not appear to have a file named config.json.",
        near_miss="OSError: /x does not appear to have a file named preprocessor_config.json.",
    ),
    Signature(
        id="xet-download-failed",
        pattern=(
            r"CAS service error|Data processing error: |Unable to parse string as hex hash value"
            r"|\bhf_xet\b.{0,80}(?:[Ee]rror|failed)"
            r"|An error occurred while downloading using `hf_transfer`"
        ),
        cause=(
            "A download by the Hub's Xet protocol or hf_transfer failed: a proxy, the service, or "
            "the program itself."
        ),
        fix="Run `{task:weights.stage}`, which does not use Xet, or set HF_HUB_DISABLE_XET: 1.",
        source=(
            "meta-pytorch/torchforge PR#109; huggingface/xet-core#444; huggingface/xet-core#303; "
            "huggingface/huggingface_hub#3036"
        ),
        sample="RuntimeError: Data processing error: CAS service error : IO Error: Timer expired",
        near_miss="Xet Storage is enabled for this repo, but hf_xet is not installed.",
    ),
    Signature(
        id="weights-incomplete",
        pattern=(
            r"Cannot find any model weights with|Error while deserializing(?: header)?:"
            r"|incomplete metadata, file not fully covered"
            r"|does not appear to have (?:a file|files) named "
            r"(?!config\.json|\S{0,20}processor_config\.json|\S{1,80}\.py\b)"
            r"|Error no file named (?!config\.json)"
            r"|No such file or directory: [\"'][^\"'\n]{1,400}\.safetensors"
        ),
        cause="A file of the model is missing or truncated.",
        fix="Find it with `{task:weights.verify}`, then replace it with `{task:weights.stage}`.",
        source="sgl-project/sglang PR#32279; eugr/spark-vllm-docker#275",
        near_miss="Found model weights with `/models/x`",
    ),
    Signature(
        id="weights-permission",
        pattern=(
            r"(?:PermissionError|(?<!continue\. Error: \[Errno 13\] )Permission denied)"
            r".{0,300}(?:huggingface|/hub/|/models\b)"
        ),
        cause="The weights belong to another user, usually root, whose container wrote them.",
        fix="Run `sudo chown -R $USER ~/vllm` on the host that `{task:weights.verify}` shows.",
        source="eugr/spark-vllm-docker README; kharkevich-engineering-lab/spark-pulse PR#108",
        near_miss="Will ignore error and continue. Error: [Errno 13] Permission denied: '/hub/x'",
    ),
    Signature(
        id="model-not-staged",
        pattern=(
            r"(?<!continue\. Error: \[Errno 30\] )Read-only file system: "
            r"'(?P<where>[^'\n]*/(?:models--[\w.-]+|huggingface\b))"
        ),
        cause=(
            "Something that is not staged was to be downloaded to {where}, and weights_dir is "
            "mounted read-only."
        ),
        fix=(
            "Add the model that this path or an earlier line names to weights_drafts (a draft, an "
            "adapter, the code of another model)."
        ),
        source="llm-d-incubation/llm-d-modelservice#243; huggingface/huggingface_hub#2797",
        near_miss=(
            "Could not cache non-existence of file. Will ignore error and continue. Error: [Errno "
            "30] Read-only file system: '/hub/models--Qwen--Qwen2.5-1.5B-Instruct/.no_exist/98/x'"
        ),
    ),
    Signature(
        id="folder-not-writable",
        pattern=(
            r"OSError: .{0,30}Read-only file system: '(?P<path>(?![^'\n]*models--)[^'\n]{1,300})'"
            r"|changing permissions of '[^'\n]{1,300}': Read-only file system"
            r"|problem when trying to write in your cache folder"
            r"|PermissionError: .{0,40}'[^'\n]{0,200}/\.cache(?:'|/(?!huggingface)[^'\n]{0,200}')"
        ),
        cause=(
            "A program wants to write to a folder that is mounted read-only or belongs to another "
            "user: a cache, or a home that the container's user does not have."
        ),
        fix=(
            "Point its cache to a folder that can be written, in vllm_env: HOME, HF_HOME, "
            "VLLM_CACHE_ROOT, FLASHINFER_WORKSPACE_BASE, TRITON_CACHE_DIR. weights_dir is "
            "read-only on purpose: `{task:weights.stage}` fills it."
        ),
        source="Center-for-AI-Innovation/LLMFlux#124; h2oai/h2ogpt#729",
        sample="OSError: [Errno 30] Read-only file system: '/root/.cache/flashinfer'",
        near_miss=(
            "Could not set the permissions on the file '/data/x'. Error: [Errno 30] Read-only file "
            "system: '/tmp_1'. Continuing without setting permissions."
        ),
    ),
    Signature(
        id="fastsafetensors-metadata",
        pattern=(
            r"SafeTensorsMetadataKeyError: 'data_offsets'"
            r"|(?:Producer batch \d{1,6} failed|Consumer error): 'data_offsets'"
        ),
        cause="fastsafetensors 0.3.2 cannot read the header of this checkpoint.",
        fix=(
            "Set load-format: safetensors in vllm_args, or use an image with a newer "
            "fastsafetensors."
        ),
        source="foundation-model-stack/fastsafetensors#88; vllm-project/vllm PR#50827",
        sample="[PG0] 2026-07-03 07:57:03.918 - Consumer error: 'data_offsets'",
        near_miss="Loading fastsafetensors checkpoint shards:   0% Completed | 0/4",
    ),
    Signature(
        id="model-code-not-staged",
        pattern=r"Could not locate the \S+\.py inside (?P<model>[\w.-]+/[\w.-]*\w)",
        cause="The model's Python is in {model}, which is not staged.",
        fix="Set weights_drafts: [{model}], then run `{task:weights.stage}`.",
        source="huggingface/sentence-transformers#3043",
        near_miss="Located the configuration_hf.py inside nomic-ai/nomic-bert-2048.",
    ),
    Signature(
        id="path-of-another-machine",
        pattern=(
            r"rsync: .{0,100}\bmkdir\b.{0,10}\"(?P<parent>[^\"\n]{1,300})\" failed: No such file"
            r"|(?:rsync|commit hash to ).{0,300}?/Users/[^\s\":]+"
        ),
        cause=(
            "A path of the machine that copies was used on a Spark, where it or its parent does "
            "not exist."
        ),
        fix=(
            "Use `{task:weights.stage}`, which creates weights_dir; set weights_dir per host where "
            "they differ (~ is expanded on the host). By hand, rsync needs --mkpath."
        ),
        source=(
            "spark-arena/sparkrun#103; spark-arena/sparkrun#67; mark-ramsey-ri/vllm-dgx-spark#15; "
            "sfxnz/DeepSeek-V4.1-Flash-EXL3-vLLM-2x-DGX-Spark#4"
        ),
        near_miss='rsync: [Receiver] mkdir "/srv/hub" failed: Permission denied (13)',
    ),
    Signature(
        id="disk-too-small",
        pattern=r"\bneed \d+ GiB|Not enough free disk space to download the file",
        cause="The disk has too little space, or existing files were not counted.",
        fix="Run `{task:weights.plan}`, which subtracts the files that each host has.",
        source=(
            "MiaAI-Lab/DeepSeek-v4.1-Flash-EXL3-2x-DGX-Sparks#26; huggingface/huggingface_hub#1551"
        ),
        leads_to=("disk-full",),
        near_miss="needed 385 GiB, done",
    ),
    Signature(
        id="disk-full",
        pattern=r"[Nn]o space left on device",
        cause="The disk is full; an image copied through /tmp needs its size there.",
        fix=(
            "Free space: `{task:weights.list}` shows models, `{task:weights.prune} NAME` removes "
            "one."
        ),
        source="eugr/spark-vllm-docker#339",
        recorded=False,
        near_miss="12 GiB space left on device",
    ),
    Signature(
        id="image-layer-missing",
        pattern=(
            r"open \S{1,200}/(?:blobs/sha256/\w+|docker-import-\d{1,20}/\S{1,300}"
            r"|GetImageBlob\d{1,20}): no such file or directory"
        ),
        cause=(
            "A part of the image is missing: a multi-platform index was saved, a temporary folder "
            "was emptied, or the archive is not one of `docker save`."
        ),
        fix="Save with `docker save --platform linux/arm64`, or pull the image on that host.",
        source=(
            "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#8; "
            "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#5"
        ),
        near_miss="open /var/lib/blobs/sha256/ab: permission denied",
    ),
    Signature(
        id="image-id-mismatch",
        pattern=r"Docker image mismatch",
        cause="The image IDs differ; overlay2 and containerd give the same image different IDs.",
        fix="Compare RepoDigests or RootFS layers, or use one storage driver on all hosts.",
        source="eugr/spark-vllm-docker#327; spark-arena/sparkrun#152",
        recorded=False,
        near_miss="Docker image matches",
    ),
    Signature(
        id="hub-unreachable",
        pattern=(
            r"LocalEntryNotFoundError|couldn't connect to 'https://\S{1,60}' to load"
            r"|trying to locate the files? on the Hub"
            r"|host='(?:[\w.-]{1,60}\.)?(?:huggingface|hf|modelscope)\.(?:co|cn)', port=\d{1,5}\): "
            r"(?:Max retries|Read timed out)"
        ),
        cause="The Hub cannot be reached from here, and the files are not in the cache.",
        fix=(
            "Stage the model with `{task:weights.stage}`. A host or container that needs a proxy "
            "must have HTTPS_PROXY; check its DNS as well."
        ),
        source="Avarok-Cybersecurity/dgx-vllm#16; alvinliu0/HumanGaussian#4",
        leads_to=("model-config-missing",),
        sample=(
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, "
            "and couldn't find them in the cached files."
        ),
        near_miss="HTTP Request: GET https://huggingface.co/api/models/x 200 OK",
    ),
    Signature(
        id="hub-rate-limited",
        pattern=r"429 Client Error|429 Too Many Requests|\b(?i:toomanyrequests): ",
        cause="The Hub or the registry got too many requests from this address or account.",
        fix=(
            "Wait some minutes. Set HF_TOKEN and stage once with `{task:weights.stage}`; for "
            "images, run `docker login` on that host."
        ),
        source="huggingface/transformers#34841; huggingface/Google-Cloud-Containers#145",
        leads_to=("hub-unreachable",),
        sample=(
            "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for URL: "
            "https://huggingface.co/a/b"
        ),
        near_miss="404 Client Error. (Request ID: Root=1)",
    ),
    Signature(
        id="hub-not-found",
        pattern=(
            r"404 Client Error: Not Found for url: (?P<url>https://\S{1,300})"
            r"|Repository Not Found for url: (?:https://\S{1,300})"
            r"|\b(?:RevisionNotFoundError|RemoteEntryNotFoundError)\b"
        ),
        cause=(
            "The Hub has no such model, file or revision. It answers the same for a private one "
            "without a token."
        ),
        fix="Correct vllm_model and its revision in the recipe; set HF_TOKEN for a private model.",
        source="vast-ai/base-image#128; vllm-project/vllm PR#8501",
        leads_to=("hub-unauthorized", "hub-unreachable"),
        sample=(
            "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: "
            "https://huggingface.co/a/b/resolve/main/config.json"
        ),
        near_miss="429 Client Error: Too Many Requests for url: https://huggingface.co/x",
    ),
    Signature(
        id="json-damaged",
        pattern=(
            r"Value error, Expecting value: line 1 column 1|is not a valid JSON file"
            r"|JSONDecodeError: Expecting value: line 1 column 1"
        ),
        cause=(
            "A JSON file of the model is empty or holds something else: a Git LFS pointer, a cut "
            "download, or weights instead of a configuration."
        ),
        fix="Find it with `{task:weights.verify}`, then replace it with `{task:weights.stage}`.",
        source="vllm-project/vllm#26161; vllm-project/vllm#7291",
        holds=_is_of_file,
        leads_to=("config-invalid",),
        sample="json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        near_miss="Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
)
