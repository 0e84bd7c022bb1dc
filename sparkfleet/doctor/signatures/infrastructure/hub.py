"""Failures on the way to the Hub, and of the files that came from there."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="proxy-refused",
        pattern=(
            r"(?:Tunnel connection failed: ?|proxyconnect tcp: )(?P<why>[^'\"\n)]{1,120}[^'\"\n).])"
        ),
        cause="The proxy of HTTPS_PROXY did not let this connection through: {why}.",
        fix=(
            "407 asks for a user and password in HTTPS_PROXY, 403 for a rule of the proxy that "
            "allows the address. On hosts without a way out, run `{task:weights.stage}`, which "
            "downloads on one machine."
        ),
        source="huggingface/huggingface_hub#2625; zylon-ai/private-gpt#1854",
        leads_to=("hub-unreachable", "model-config-missing"),
        sample="OSError('Tunnel connection failed: 407 Proxy Authentication Required')",
        near_miss="HTTPS_PROXY is set to http://proxy:3128",
    ),
    Signature(
        id="certificate-of-another-name",
        pattern=(
            r"(?:Hostname mismatch, certificate is not valid for '"
            r"|x509: certificate is valid for [^\n]{1,200}, not )(?P<name>[\w.-]{1,253})"
        ),
        cause=(
            "The server that answers for {name} has a certificate for another name: a filter, a "
            "captive portal or a wrong DNS entry is in between."
        ),
        fix=(
            "Try `curl -v https://{name}` on that host, correct DNS or the proxy, or run "
            "`{task:weights.stage}` from a machine that reaches the Hub."
        ),
        source="vmware-archive/vSphere-machine-learning-extension#75; Huanshere/VideoLingo#139",
        leads_to=("hub-unreachable", "model-config-missing"),
        sample=(
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch, "
            "certificate is not valid for 'huggingface.co'. (_ssl.c:1007)"
        ),
        near_miss="certificate verify failed: self-signed certificate in certificate chain",
    ),
    Signature(
        id="names-not-resolved",
        pattern=(
            r"Failed to resolve '[\w.-]{1,253}'"
            r"|gaierror: \[Errno -\d\] (?:Temporary failure in name resolution"
            r"|Name or service not known)"
            r"|dial tcp: lookup [\w.-]{1,253}\b.{0,120}(?:no such host|i/o timeout"
            r"|server misbehaving)"
        ),
        cause="This host, or its container, cannot resolve names: it has no DNS, or no network.",
        fix=(
            "Try `resolvectl query huggingface.co` on that host; in a container without the host's "
            "network, DNS comes from Docker. Where there is no way out, run `{task:weights.stage}` "
            "and set HF_HUB_OFFLINE: 1 in vllm_env."
        ),
        source="huggingface/text-generation-inference#492; vllm-project/vllm#3656",
        leads_to=("hub-unreachable", "model-config-missing"),
        sample="socket.gaierror: [Errno -3] Temporary failure in name resolution",
        near_miss="ssh: Could not resolve hostname s: Temporary failure in name resolution",
    ),
    Signature(
        id="hub-forbidden",
        pattern=(
            r"403 Client Error: Forbidden for url: https://(?:[\w-]{1,40}\.)?(?:huggingface\.co"
            r"|hf\.co)"
            r"|enable access to public gated repositories in your fine-grained token"
        ),
        cause=(
            "The Hub knows this token, but it may not read this repository: the licence is not "
            "accepted, or a fine-grained token lacks the right to read gated repositories."
        ),
        fix=(
            "Accept the licence on the model's page, give the token `Read access to contents of "
            "all public gated repos you can access`, then run `{task:weights.stage}`."
        ),
        source="huggingface/huggingface_hub#2844; cantrell/stable-diffusion-api-server#3",
        leads_to=("hub-unreachable", "model-config-missing"),
        sample=(
            "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: "
            "https://huggingface.co/a/b/resolve/main/config.json"
        ),
        near_miss="401 Client Error: Unauthorized for url: https://huggingface.co/a/b",
    ),
    Signature(
        id="download-cut",
        pattern=(
            r"Consistency check failed: file should be of size (?P<all>\d{1,15}) but has size "
            r"(?P<got>\d{1,15})"
        ),
        cause="A download ended early: {got} of {all} bytes arrived.",
        fix="Run `{task:weights.stage}`: it resumes where it stopped, and verifies each file.",
        source="huggingface/huggingface_hub#1959; padeoe/hf-mirror-site#4",
        sample=(
            "OSError: Consistency check failed: file should be of size 492265168 but has size "
            "447786685 (model.safetensors)."
        ),
        near_miss="Download complete. Moving file to /hub/models--a--b/blobs/ac3d1bff",
    ),
    Signature(
        id="hub-lock-held",
        pattern=r"(?i:still waiting to acquire lock) on (?P<lock>\S{1,400})",
        cause=(
            "Another process downloads the same file, or one that was killed has left its lock on "
            "a network filesystem: the download waits forever."
        ),
        fix=(
            "If `pgrep -af 'hf|huggingface'` shows no download on any host that shares the cache, "
            "remove {lock}; `{task:weights.stage}` needs no such lock."
        ),
        source="huggingface/huggingface_hub#2543; LetheSec/HuggingFace-Download-Accelerator#30",
        sample="still waiting to acquire lock on /hub/.locks/models--a--b/fc1c.lock",
        near_miss="Lock acquired on /hub/.locks/models--a--b/fc1c.lock",
    ),
    Signature(
        id="filesystem-without-locks",
        pattern=(
            r"FileSystem does not appear to support flock"
            r"|fcntl\.(?:flock|lockf)\([^\n]{1,200}\n(?:[ ~^]{1,200}\n)?OSError: \[Errno (?:9|37|38"
            r"|95)\]"
            r"|\[Errno 37\] No locks available"
        ),
        cause="The cache is on a filesystem without file locks: Lustre, CIFS, or an NFS mount.",
        fix=(
            "Put weights_dir and HF_HOME on a local disk; `{task:weights.stage}` copies the model "
            "to each host."
        ),
        source="huggingface/huggingface_hub#2399; bigscience-workshop/petals#515",
        sample="NotImplementedError: FileSystem does not appear to support flock",
        near_miss="OSError: [Errno 38] Function not implemented: 'io_uring_setup'",
    ),
    Signature(
        id="storage-damaged",
        pattern=(
            r"\[Errno (?:5|74|117)\] (?:Input/output error|Bad message|Structure needs cleaning)"
            r"(?:: '(?P<path>[^'\n]{1,400})')?"
            r"|EXT4-fs error \(device|blk_update_request: I/O error"
            r"|nvme\d{1,3}: I/O \d{1,6} .{0,60}timeout"
        ),
        cause=(
            "A disk or a network filesystem of this host failed to read or write; file: {path}."
        ),
        fix=(
            "Read `sudo dmesg` on that host for the disk's errors (or the lost network mount), "
            "check it with `sudo smartctl -a /dev/nvme0`, then run `{task:weights.verify}`."
        ),
        source="huggingface/huggingface_hub#2193; MIC-DKFZ/nnUNet#1784",
        sample="OSError: [Errno 5] Input/output error: '/models/x/model-00042.safetensors'",
        near_miss="OSError: [Errno 2] No such file or directory: '/models/x'",
    ),
    Signature(
        id="weights-are-a-pointer",
        pattern=(
            r"deserializing header: (?:HeaderTooLarge|header too large)"
            r"|version https://git-lfs\.github\.com/spec/v1|invalid load key, 'v'"
        ),
        cause=(
            "A file of weights has no header of safetensors: it is usually a pointer of Git LFS, "
            "which a clone without git-lfs leaves, or a page that a proxy sent instead."
        ),
        fix=(
            "Look at its size with `{task:weights.verify}`, and fetch the model with "
            "`{task:weights.stage}` instead of git."
        ),
        source="microsoft/OmniParser#34; AUTOMATIC1111/stable-diffusion-webui#8123",
        leads_to=("weights-incomplete",),
        sample="safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
        near_miss="SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
    ),
    Signature(
        id="download-broken",
        pattern=(
            r"IncompleteRead\((?P<got>\d{1,15}) bytes read, (?P<rest>\d{1,15}) more expected\)"
        ),
        cause="A download broke in the middle: {got} bytes arrived, {rest} are missing.",
        fix="Run `{task:weights.stage}`: it resumes where it stopped, and verifies each file.",
        source="rsxdalv/TTS-WebUI#232; SamurAIGPT/Generative-Media-Skills#31",
        leads_to=("hub-unreachable",),
        sample=(
            "urllib3.exceptions.IncompleteRead: IncompleteRead(162115360 bytes read, 1100409233 "
            "more expected)"
        ),
        near_miss="Downloading bytes: 162115360 read, 1100409233 more expected",
    ),
    Signature(
        id="hub-request-repeated",
        pattern=(
            r"thrown while requesting (?:HEAD|GET) https://(?:[\w-]{1,40}\.)?(?:huggingface\.co"
            r"|hf\.co)"
        ),
        cause="A request to the Hub failed and was repeated: the network, a proxy or the Hub.",
        fix="If the start fails on it, run `{task:weights.stage}` and set HF_HUB_OFFLINE: 1.",
        source="tenstorrent/tt-inference-server#4628; agent0ai/agent-zero#1531",
        role=FailureRole.WARNING,
        sample=(
            "'[Errno 104] Connection reset by peer' thrown while requesting HEAD "
            "https://huggingface.co/a/b/resolve/main/config.json"
        ),
        near_miss="requesting HEAD https://huggingface.co/a/b/resolve/main/config.json",
    ),
    Signature(
        id="weights-not-mapped",
        pattern=r"No such device \(os error 19\)",
        cause=(
            "The weights are on a filesystem that cannot map files into memory (Ceph or FUSE with "
            "some options), or a folder was given where a file is needed."
        ),
        fix="Put weights_dir on a local disk and run `{task:weights.stage}`.",
        source="safetensors/safetensors#485; zai-org/CogVideo#455",
        sample="OSError: No such device (os error 19)",
        near_miss="ibv_modify_qp failed with error No such device",
    ),
)
