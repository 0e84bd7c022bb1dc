"""Failures of Docker and Podman: the daemon, registries, limits, and NVIDIA's toolkit."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="docker-not-running",
        pattern=r"Cannot connect to the Docker daemon",
        cause="Docker does not run on this host.",
        fix="Run `sudo systemctl enable --now docker` on that host.",
        source="sunlab-osu/TURL#12; significa/app-distribution-server#23",
        sample=(
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the "
            "docker daemon running?"
        ),
        near_miss="Connected to the Docker daemon at unix:///var/run/docker.sock",
    ),
    Signature(
        id="container-name-taken",
        pattern=(
            r"\b[Tt]he (?:container )?name \"?/?(?P<name>[\w.-]{1,128})\"? is already "
            r"(?:in use|assigned|used)"
        ),
        cause="A container with the name {name} exists on this host.",
        fix=(
            "Stop the cluster with `{task:cluster.down}` if it is its own; otherwise `docker rm -f "
            "{name}` on that host removes it."
        ),
        source="docker/docs#13140; moby/moby#23371",
        sample=(
            'docker: Error response from daemon: Conflict. The container name "/vllm" is '
            'already in use by container "e424e1d9".'
        ),
        near_miss='The container name "/vllm" is free',
    ),
    Signature(
        id="driver-libraries-not-found",
        pattern=(
            r"nvidia-container-cli: initialization error: load library failed: "
            r"(?P<library>lib[\w+.-]{1,60})"
        ),
        cause=(
            "NVIDIA's container toolkit does not find {library} on this host: the driver is not "
            "installed, or Docker cannot see it (a snap, or rootless)."
        ),
        fix=(
            "If `nvidia-smi` fails on that host, install the driver and reboot; otherwise install "
            "Docker from its packages instead of the snap."
        ),
        source="NVIDIA/nvidia-docker#1711; docker/for-win#13835",
        leads_to=("driver-library-missing",),
        sample=(
            "nvidia-container-cli: initialization error: load library failed: "
            "libnvidia-ml.so.1: cannot open shared object file: no such file or "
            "directory: unknown."
        ),
        near_miss="nvidia-container-cli: initialization error: nvml error: driver not loaded",
    ),
    Signature(
        id="apt-signed-by",
        pattern=r"Conflicting values set for option Signed-By regarding source (?P<url>\S{1,200})",
        cause="Two files of apt's sources name {url} with different keys, and apt reads none.",
        fix=(
            "Find them with `grep -rl {url} /etc/apt/sources.list.d` on that host, and remove the "
            "older one."
        ),
        source="NVIDIA/libnvidia-container#194; NVIDIA/nvidia-container-toolkit#170",
        sample=(
            "E: Conflicting values set for option Signed-By regarding source "
            "https://nvidia.github.io/libnvidia-container/stable/ubuntu18.04/amd64/ /: a.gpg !="
        ),
        near_miss="W: Target Packages is configured multiple times in /etc/apt/sources.list:57",
    ),
    Signature(
        id="toolkit-without-cgroup2",
        pattern=r"nvidia-container-cli\S{0,10}: container error: cgroup subsystem devices not",
        cause=(
            "NVIDIA's container toolkit on this host does not support cgroup v2, which the host "
            "uses."
        ),
        fix=(
            "Update nvidia-container-toolkit and libnvidia-container1 to 1.9 or newer on that "
            "host, then run `sudo systemctl restart docker`."
        ),
        source="NVIDIA/nvidia-docker#1486; NVIDIA/nvidia-container-toolkit#23",
        leads_to=("toolkit-failed",),
        sample=(
            "nvidia-container-cli: container error: cgroup subsystem devices not found: unknown."
        ),
        near_miss="nvidia-container-cli: container error: open failed: /proc/1/ns/mnt",
    ),
    Signature(
        id="toolkit-incomplete",
        pattern=(
            r"\bnvidia-container-(?:runtime(?:-hook)?|cli|toolkit)\\?\"?: (?:executable file not "
            r"found|no such file)|No help topic for 'prestart'|find runc path: exec:"
            r"|no runtime binary found from candidate list"
            r"|nvidia-container-cli: error while loading shared libraries"
        ),
        cause=(
            "Parts of NVIDIA's container toolkit, or runc, are missing on this host, or come from "
            "different versions."
        ),
        fix=(
            "Reinstall Docker itself and the toolkit there (`sudo apt install --reinstall "
            "nvidia-container-toolkit libnvidia-container-tools libnvidia-container1`), then "
            "`sudo nvidia-ctk runtime configure --runtime=docker` and `sudo systemctl restart "
            "docker`."
        ),
        source="NVIDIA/nvidia-docker#958; podman-container-tools/podman#5711",
        leads_to=("image-entrypoint",),
        sample=(
            'docker: Error response from daemon: exec: "nvidia-container-runtime-hook": executable '
            "file not found in $PATH."
        ),
        near_miss='exec: "nvidia-smi": executable file not found in $PATH',
    ),
    Signature(
        id="gpu-name-unknown",
        pattern=r"nvidia-container-cli: device error: (?P<device>\S{1,120}): unknown device",
        cause="The container asks for a GPU named {device}, which this host does not have.",
        fix=(
            "Compare NVIDIA_VISIBLE_DEVICES and `--gpus` with `nvidia-smi -L`; a Spark has one "
            "GPU, number 0."
        ),
        source="NVIDIA/nvidia-docker#1283; NVIDIA/nvidia-container-toolkit#223",
        leads_to=("toolkit-failed",),
        sample="nvidia-container-cli: device error: 1: unknown device",
        near_miss="nvidia-container-cli: initialization error: nvml error: unknown error",
    ),
    Signature(
        id="cdi-outdated",
        pattern=r"failed to stat CDI host device \"(?P<path>[^\"\n]{1,200})\"",
        cause="NVIDIA's CDI file names {path}, which this host does not have, or no longer has.",
        fix=(
            "Generate it again on that host: `sudo nvidia-ctk cdi generate "
            "--output=/etc/cdi/nvidia.yaml`; do it after each update of the driver."
        ),
        source="NVIDIA/nvidia-container-toolkit#885; NVIDIA/nvidia-container-toolkit#46",
        sample=(
            "Error: setting up CDI devices: failed to inject devices: failed to stat CDI host "
            'device "/dev/dri/renderD129": no such file or directory'
        ),
        near_miss="INFO[0000] Selecting /dev/dri/renderD128 as /dev/dri/renderD128",
    ),
    Signature(
        id="toolkit-failed",
        pattern=(
            r"nvidia-container-cli: (?P<what>(?:mount|ldcache|detection|device|container"
            r"|initialization) error: [^\n\"\\]{1,200})"
        ),
        cause="NVIDIA's container toolkit could not prepare the container: {what}.",
        fix=(
            "Run `nvidia-smi`, then `sudo nvidia-container-cli -k -d /dev/tty info` on that host, "
            "and update nvidia-container-toolkit."
        ),
        source="NVIDIA/libnvidia-container#177; NVIDIA/libnvidia-container#256",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample=(
            "nvidia-container-cli: ldcache error: process /usr/sbin/ldconfig failed with error "
            "code: 1"
        ),
        near_miss="nvidia-container-cli: version 1.17.8",
    ),
    Signature(
        id="registry-unreachable",
        pattern=(
            r"\b(?:docker\.io|nvcr\.io|ghcr\.io|quay\.io|registry[\w.-]{0,60}|cloudfront\.net)\b"
            r".{0,600}?(?P<why>TLS handshake timeout|Client\.Timeout exceeded|i/o timeout"
            r"|connection refused|no such host|context deadline exceeded|connection reset by peer"
            r"|no route to host|network is unreachable)"
        ),
        cause="The registry of the image does not answer this host: {why}.",
        fix=(
            "Check the host's way to the internet, its DNS and proxy (`docker info` shows which "
            "one Docker uses), or let `{task:cluster.up}` copy the image from a host that has it."
        ),
        source="verl-project/verl#1017; docker/model-runner#989",
        leads_to=("names-not-resolved",),
        sample=(
            'Error response from daemon: Get "https://registry-1.docker.io/v2/": net/http: TLS '
            "handshake timeout"
        ),
        near_miss='Error response from daemon: Get "https://registry-1.docker.io/v2/": EOF',
    ),
    Signature(
        id="limits-refused",
        pattern=r"error setting rlimit type (?P<type>\d{1,2}): operation not permitted",
        cause=(
            "The container asks for higher limits than Docker itself has (type 7 is open files, 8 "
            "locked memory): Docker runs rootless or inside another container."
        ),
        fix=(
            "Run Docker as root on the host itself, or raise LimitMEMLOCK and LimitNOFILE of its "
            "unit to infinity: `sudo systemctl edit docker`, then restart it."
        ),
        source="ernestwisniewski/kbin#8; wazuh/wazuh-docker#903",
        sample="error setting rlimit type 8: operation not permitted: unknown",
        near_miss="error setting rlimits for ready process",
    ),
    Signature(
        id="podman-without-ids",
        pattern=(
            r"(?:insufficient UIDs or GIDs|not be enough IDs) available in (?:the |user )?namespace"
        ),
        cause=(
            "Rootless Podman has too few user ids on this host to unpack the image: the account is "
            "not in /etc/subuid and /etc/subgid, or was added after Podman's first start."
        ),
        fix=(
            "Run `sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER` "
            "there, then `podman system migrate`."
        ),
        source="podman-container-tools/podman#12715; podman-container-tools/podman#10301",
        sample=(
            "potentially insufficient UIDs or GIDs available in user namespace (requested 0:42 for "
            "/etc/shadow): Check /etc/subuid and /etc/subgid"
        ),
        near_miss="Using rootless single mapping into the namespace.",
    ),
    Signature(
        id="image-not-unpacked",
        pattern=(
            r"(?:failed to register layer: |(?=filesystem layer verification failed))"
            r"(?P<why>(?!.{0,200}no space left)[^\n\"]{1,200})"
        ),
        cause="Docker could not unpack a layer of the image: {why}.",
        fix=(
            "Check the disk with `df -h /var/lib/docker` (a layer needs its size twice), then pull "
            "again; if it comes back, `docker system prune` or another storage driver."
        ),
        source="sickcodes/Docker-OSX#314; docker-library/docker#221",
        sample="failed to register layer: Error processing tar file(exit status 1): unexpected EOF",
        near_miss=(
            "failed to register layer: Error processing tar file(exit status 1): write /usr/x: no "
            "space left on device."
        ),
    ),
    Signature(
        id="docker-firewall-rules",
        pattern=(
            r"\(iptables failed: .{1,300}?: (?P<why>No chain/target/match by that name"
            r"|Chain '\w{1,40}' does not exist|Resource temporarily unavailable"
            r"|unknown option \S{1,40})"
        ),
        cause="Docker's firewall rules on this host are missing or cannot be changed: {why}.",
        fix=(
            "Run `sudo systemctl restart docker` there, after each reload of the firewall too; the "
            "host's network (`--network host`) needs no such rules."
        ),
        source="Kaggle/docker-python#1062; luckyPipewrench/pipelock#364",
        sample=(
            "Unable to enable DNAT rule:  (iptables failed: iptables --wait -t nat -A DOCKER "
            "-p tcp --dport 3128 ! -i br-ef8: iptables: No chain/target/match by that name."
        ),
        near_miss="iptables: Saving firewall rules to /etc/sysconfig/iptables",
    ),
    Signature(
        id="entrypoint-not-run",
        pattern=(
            r"\bexec:? \\?\"?(?P<path>/[^\"\\\s:]{1,200})\\?\"?: (?:cannot execute: )?"
            r"(?:[Pp]ermission denied|[Nn]o such file or directory)"
            r"|exec user process caused:? \\?\"?(?:no such file or directory|permission denied)"
        ),
        cause=(
            "The entrypoint cannot be run (its path: {path}): it is not executable, or the program "
            "of its first line is missing (line ends of Windows look like that too)."
        ),
        fix=(
            "Run `docker run --rm --entrypoint ls IMAGE -l {path}`, and use another image or a "
            "build of its own where the file is executable."
        ),
        source="wso2/docker-is#463; LinkStackOrg/linkstack-docker#71",
        sample='exec: "/home/wso2carbon/docker-entrypoint.sh": permission denied: unknown.',
        near_miss='exec: "/entrypoint.sh": stat /entrypoint.sh: no such file or directory',
    ),
    Signature(
        id="docker-network-missing",
        pattern=(
            r"(?:[Ee]rror (?:response )?from daemon: |starting container failed: |network )"
            r"(?:network )?(?P<name>[\w.-]{1,128}) (?:not found|declared as external, but could not"
            r" be found)"
        ),
        cause=(
            "The container is to join the network {name}, which Docker on this host does not have."
        ),
        fix=(
            "Start it with `--network host`, as `{task:cluster.up}` does: NCCL and Ray need the "
            "host's network. Otherwise `docker network create {name}`."
        ),
        source="vesoft-inc/nebula-console#59; 10up/wp-local-docker-v2#354; moby/moby#25503",
        sample="docker: Error response from daemon: network sparknet not found.",
        near_miss="Error response from daemon: manifest for vllm/vllm-openai:x not found",
    ),
    Signature(
        id="docker-config-refused",
        pattern=(
            r"unable to configure the Docker daemon with file (?P<path>\S{1,200}): "
            r"(?P<why>[^\n]{1,200})"
        ),
        cause="Docker does not start, since it rejects {path}: {why}.",
        fix=(
            "Correct the file on that host (`python3 -m json.tool {path}` shows an error of its "
            "syntax; an option must not be both in the unit of dockerd and in the file), then "
            "run `sudo systemctl restart docker`."
        ),
        source="docker/for-linux#327; moby/moby#42948; haxorof/ansible-role-docker-ce#42",
        leads_to=("docker-not-running", "service-failed"),
        sample=(
            "dockerd[32221]: unable to configure the Docker daemon with file /etc/docker/daemon"
            ".json: invalid character '}' looking for beginning of object key string"
        ),
        near_miss="dockerd[1]: Loading containers: done. config file /etc/docker/daemon.json",
    ),
    Signature(
        id="user-without-name",
        pattern=r"getpwuid\(\): uid not found: (?P<uid>\d{1,12})",
        cause=(
            "The container runs as user {uid}, who is not in its /etc/passwd, and PyTorch asks for "
            "the name of its user."
        ),
        fix=(
            "Set USER: vllm and HOME to a folder that this user can write in vllm_env, or run the "
            "container as a user of the image (without `--user`)."
        ),
        source=(
            "vllm-project/vllm#44548; HabanaAI/vllm-fork#929; llm-d/llm-d-benchmark PR#1573; "
            "vectorize-io/hindsight PR#3934"
        ),
        leads_to=("engine-start-failed", "model-files-unread"),
        sample="KeyError: 'getpwuid(): uid not found: 1000'",
        near_miss="pwd.getpwuid(os.getuid())[0]",
    ),
)
