"""The innermost reason of a failure without a signature, and what wraps it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparkfleet.doctor.events import LONGEST_LINE, read_entries
from sparkfleet.doctor.signatures import SIGNATURES, FailureRole
from sparkfleet.vllm.milestones import LogLine

_MAX_REASON_LINES = 40  # lines after an exception's head in which its reason is searched
_MAX_BUILD_LINES = 400  # lines before it, the output of compilers
_MAX_CHAIN = 4  # wrappers that are shown
_EXCEPTION = re.compile(
    r"(?:\s{0,40}\| | )?"  # a group of exceptions; text that was pasted
    r"(?:(?!ray\.exceptions\.RayTaskError)[\w.]{0,120}?\b"
    r"(?:[A-Z]\w{0,80}(?:Error|Exception|Timeout)|Exception)(?:\([^)]{0,200}\))?(?:: \S|:?$)"
    r"|(?:\w{1,40}\.){1,6}(?:exc|errors?|exceptions)\.[A-Z]\w{1,80}(?:: \S|:?$)"
    r"|(?:Value error|Assertion failed), \S|[\w ]{1,80}: error: \S)"
)
# Lines of programs other than Python that say why they failed.
_TOOL = re.compile(
    r"\s*(?:ptxas|nvcc|nvlink|cicc|cudafe\+\+|tileiras)\s+(?:fatal|error)\b"
    r"|\s*(?:fatal error|fatal|error):? [:\w'\"/-]"
    r"|[^\s:]{1,300}(?::\d{1,7}){0,2}(?:\(\d{1,7}\))?: (?:fatal |internal compiler )?error: \S"
    r"|\S{0,200}\bld(?:\.\w{1,8})?: \S"
    r"|(?:docker|podman|nvidia-container-cli|nvidia-ctk|ssh|scp|rsync|sudo|modprobe|insmod|mount"
    r"|iptables|netplan|crun|runc|skopeo|buildah|(?:kex|ssh)_exchange_identification): \S"
    r"|Error response from daemon: |\s{0,8}Error(?:[:!]| processing| committing) \S"
    r"|Error code: \d{3} - "
    r"|panic: \S|[\w@.\\-]{1,120}\.service: (?:Failed with|Start request repeated)"
    r"|.{0,200}\b[Ee]xec format error|.{0,200}\bno matching manifest\b"
    r"|.{0,100}\bOCI runtime (?:create|exec) failed\b"
    r"|(?:.{0,200}[:\s])?(?:Killed|Bus error|Segmentation fault|Illegal instruction)"
    r"(?: \(core dumped\))?\s*$|(?:Killed|Killed process) \d"
    r"|!{3,} (?:Segfault|Illegal)|\*\*\* (?:SIG(?!TERM|INT)\w{3,6}|Aborted)|Fatal Python error: "
    r"|terminate called after throwing|\s*what\(\):\s+\S"
    r"|\[ALERT\] .{0,60}: \S|CMake Error\b|ninja: error: |\w{2,20}: command not found"
    r"|(?:mpirun|mpiexec|prterun) noticed that process |(?:ORTE|PRTE) (?:was unable|does not know)"
    r"|Abort\(\d{1,12}\) on node |Fatal error in P?MPI_|libc\+\+abi\S{0,12}: terminating"
    r"|Failed to initialize NVML: |NVRM: |NCCL WARN |.{0,200} NCCL WARN "
)
_TOOL_CONSEQUENCE = re.compile(r"collect2: error|ninja: build stopped|make\S*: \*\*\* |FAILED: ")
_CAUSED = "The above exception was the direct cause of the following exception:"
_VALIDATION = re.compile(r"\d+ validation errors? for \w")
_VALIDATION_REASON = re.compile(r"(?P<reason>\s+\S.{0,3500}?) \[type=\w")
_WRAPPER = re.compile(
    r"PTXASError|CalledProcessError|[Nn]inja (?:build failed|exited)|Error building extension"
    r"|Error compiling objects|Compilation(?:Error)?\b.{0,80}failed|InductorError"
    r"|BackendCompilerFailed|LoweringException|SubprocException|nvcc failed|[Cc]ompiler failed"
    r"|returned non-zero exit status|NCCL error: (?:unhandled|internal|remote)"
)
_FOLLOWS = re.compile(
    r"Worker failed with error|^ChildProcessError: worker died|WorkerProc initialization failed"
    r"|Engine process failed to start"
    r"|see (?:the )?(?:stack trace|root cause|error)s? above|See root cause above"
    r"|^\*\*\* SIG(?:TERM|INT) received|^\s*@ |^PC: @"
    r"|[Ww]ill ignore error|^Ignored error"
    r"|^SystemExit|^KeyboardInterrupt|^asyncio\.exceptions\.CancelledError"
)
# All that a log may have left of an exception of a worker.
_QUOTED_ERROR = re.compile(r"Worker failed with error '")
_BARE = re.compile(r"[\w.]{1,120}:?")  # an exception that says nothing but its name
_FRAME = re.compile(r'\s*File "')
_MARKS = re.compile(r"[\s~^]*")
_MAX_CODE_LINES = 12
_SHOWN_EXCEPTION = re.compile(r"\w{1,60}(?:Error|Exception)\(")
_TRACE = re.compile(r"Traceback \(most recent call last\)|\s|$")
_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b")
# What programs without levels say last.
_WEAK = re.compile(
    r"(?i)\b(?:fail(?:ed|ure)|can(?:not|'t)|could(?: not|n't)|unable to|denied|refused|timed out"
    r"|no such|unreachable|mismatch|crash(?:ed)?|aborted|rejected|not found)\b|error:? -?\d"
)
_INFO = re.compile(r"\bINFO\b")  # NCCL's lines, whose prefix is not read as a level
_MAX_LAST_WORDS = 10  # lines
_TERMINATE = re.compile(r"\s*terminate called after throwing")
_WHAT = re.compile(r"\s*what\(\):\s+\S")
_ERROR_LEVELS = frozenset({"ERROR", "CRITICAL", "FATAL"})
_CONSEQUENCES = tuple(row for row in SIGNATURES if row.role is FailureRole.CONSEQUENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLine:
    """The most significant line of a log, `line` counted from 1.

    `chain` are the heads of the exceptions that wrap it, the innermost first.
    """

    line: int
    text: str
    chain: tuple[str, ...] = ()


def find_first_error(log: str) -> ErrorLine | None:
    """Return the innermost reason of the failure that a log shows, without a signature.

    It is the reason of the last exception that is not a consequence of another, else the first
    line in which another program reports an error, else the first line of level ERROR, else the
    last line that speaks of a failure.
    """
    entries = read_entries(log)
    raw = log.split("\n")
    # Of equal lines the last one, or the first one.
    ends = sorted(dict(zip(raw, range(len(raw)), strict=True)).values(), reverse=True)
    last = next((i for i in ends if _is_head(entries[i].text)), -1)
    heads = (i for i in range(last, -1, -1) if _is_head(entries[i].text))
    if chain := _list_chain(entries, heads):
        return _unwrap(entries, chain)
    firsts = sorted(dict(zip(reversed(raw), reversed(range(len(raw))), strict=True)).values())
    tools = (i for i in firsts if _is_tool_error(entries[i].text))
    levels = (i for i in firsts if _is_error_event(entries[i], raw[i]))
    index = next(itertools.chain(tools, levels), None)
    quoted = next((i for i in firsts if _QUOTED_ERROR.search(entries[i].text)), None)
    index = quoted if index is None or (quoted is not None and quoted < index) else index
    index = _find_last_words(entries) if index is None else index
    return None if index is None else _create_line(entries, _follow_colon(entries, index))


def _follow_colon(entries: Sequence[LogLine], index: int) -> int:
    """Return the index of the line after one that only announces what it says."""
    if index + 1 == len(entries) or not entries[index].text.endswith(":"):
        return index
    text = entries[index + 1].text.strip()
    return index if not text or text.startswith("Traceback") else index + 1


def _find_last_words(entries: Sequence[LogLine]) -> int | None:
    """Return the last line that speaks of a failure, in a log that states no levels."""
    if any(entry.level for entry in entries):
        return None
    spoken = [index for index, entry in enumerate(entries) if entry.text]
    for index in reversed(spoken[-_MAX_LAST_WORDS:]):
        text = entries[index].text[:LONGEST_LINE]
        if _WEAK.search(text) and not _INFO.search(text) and not _is_consequence(text):
            return index
    return None


def _list_chain(entries: Sequence[LogLine], heads: Iterable[int]) -> list[int]:
    """Return the last exception and those that caused it, the innermost first, of all backwards."""
    chain: list[int] = []
    for head in heads:
        if chain and not _is_direct_cause(entries, head, chain[-1]):
            break
        chain.append(head)
    return chain[::-1]


def _unwrap(entries: Sequence[LogLine], chain: Sequence[int]) -> ErrorLine:
    """Return the reason of an exception, which others wrap."""
    head = chain[0]
    if _VALIDATION.search(entries[head].text):
        for index in range(head + 1, min(head + _MAX_REASON_LINES, len(entries))):
            if reason := _VALIDATION_REASON.match(entries[index].text):
                text = reason["reason"].strip()
                return ErrorLine(line=index + 1, text=text, chain=_list_texts(entries, chain))
    elif _WRAPPER.search(entries[head].text):
        tool = _find_tool_error(entries, head)
        if tool is not None:
            return _create_line(entries, tool, chain)
    inner = _find_code(entries, head)
    inner = _find_rest(entries, head) if inner is None else inner
    if inner is not None:
        return _create_line(entries, inner, chain)
    return _create_line(entries, head, chain[1:])


def _find_rest(entries: Sequence[LogLine], head: int) -> int | None:
    """Return the line that says why, below a head that ends with a colon; None if there is none.

    Triton shows its code there, and the exception below it.
    """
    text = entries[head].text.rstrip()
    if not text.endswith(":") or ": " not in text:
        return None
    rest = []
    for index in range(head + 1, min(head + _MAX_REASON_LINES, len(entries))):
        text = entries[index].text
        if entries[index].process != entries[head].process or text.startswith("Traceback"):
            break
        if not _TRACE.match(text) and not _is_consequence(text):
            rest.append(index)
    inner = (index for index in rest if _SHOWN_EXCEPTION.match(entries[index].text))
    return next(inner, rest[0] if rest else None)


def _find_code(entries: Sequence[LogLine], head: int) -> int | None:
    """Return the line of code that raised an exception without words; None where none is shown."""
    if not _BARE.fullmatch(entries[head].text):
        return None
    for index in range(head - 1, max(-1, head - _MAX_CODE_LINES), -1):
        text = entries[index].text
        if not text.startswith("    ") or _FRAME.match(text):
            return None
        if not _MARKS.fullmatch(text):
            return index
    return None


def _find_tool_error(entries: Sequence[LogLine], head: int) -> int | None:
    """Return the line that explains a failed compiler: below the exception, else above it."""
    after = range(head + 1, min(head + _MAX_REASON_LINES, len(entries)))
    before = range(max(0, head - _MAX_BUILD_LINES), head)
    return next((i for i in (*after, *before) if _is_tool_error(entries[i].text)), None)


def _is_direct_cause(entries: Sequence[LogLine], inner: int, outer: int) -> bool:
    process = entries[outer].process
    return any(
        entry.text.strip() == _CAUSED and entry.process == process
        for entry in entries[inner + 1 : outer]
    )


def _create_line(entries: Sequence[LogLine], index: int, chain: Sequence[int] = ()) -> ErrorLine:
    if _TERMINATE.match(entries[index].text) and index + 1 < len(entries):
        index += bool(_WHAT.match(entries[index + 1].text))  # the reason of a C++ exception
    text = entries[index].text.strip()[:LONGEST_LINE]
    return ErrorLine(line=index + 1, text=text, chain=_list_texts(entries, chain))


def _list_texts(entries: Sequence[LogLine], chain: Sequence[int]) -> tuple[str, ...]:
    return tuple(entries[index].text.strip()[:LONGEST_LINE] for index in chain[:_MAX_CHAIN])


def _is_head(text: str) -> bool:
    return bool(_EXCEPTION.match(text)) and not _is_consequence(text)


def _is_tool_error(text: str) -> bool:
    return (
        bool(_TOOL.match(text))
        and not _TOOL_CONSEQUENCE.match(text)
        and not _EXCEPTION.match(text)
        and not _is_consequence(text)
    )


def _is_error_event(entry: LogLine, raw: str) -> bool:
    if _TRACE.match(entry.text) or not (entry.level in _ERROR_LEVELS or _ERROR.search(raw)):
        return False
    return not _MARKS.fullmatch(entry.text) and not _is_consequence(entry.text)


def _is_consequence(text: str) -> bool:
    text = text[:LONGEST_LINE]
    if _FOLLOWS.search(text):
        return True
    lowered = text.lower()
    return any(any(signature.matches(text, lowered)) for signature in _CONSEQUENCES)
