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
        help="patterns of the model's files that are wanted, such as *.safetensors; unset: all",
    ),
    Variable(
        name="weights_ignore",
        kind=Kind.LIST,
        help="patterns of the model's files that are not wanted, such as original/*",
    ),
    Variable(
        name="weights_drafts",
        kind=Kind.LIST,
        help="draft or speculator models to stage too: ORG/NAME@COMMIT, or a folder here",
    ),
    Variable(
        name="weights_files",
        kind=Kind.LIST,
        help="files to stage right below weights_dir (parser plugins, chat templates, patches): a "
        "path here, or ORG/NAME@COMMIT:FILE",
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
        help="what runs vLLM and Ray",
        default="native",
        choices=("native",),
    ),
    Variable(
        name="engine_venv",
        kind=Kind.TEXT,
        help="Python environment with vLLM and Ray on this host (engine: native)",
    ),
)
