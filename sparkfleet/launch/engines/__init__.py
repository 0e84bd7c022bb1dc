"""Engines: what runs vLLM and Ray on a host. Pure builders of words; nothing here does I/O."""

from sparkfleet.launch.engines.choice import NATIVE, create_engine, read_engine_kind
from sparkfleet.launch.engines.container import ContainerEngine
from sparkfleet.launch.engines.engine import Engine
from sparkfleet.launch.engines.native import NativeEngine

__all__ = [
    "NATIVE",
    "ContainerEngine",
    "Engine",
    "NativeEngine",
    "create_engine",
    "read_engine_kind",
]
