"""Engines: what runs vLLM and Ray on a host. Pure builders of words; nothing here does I/O."""

from sparkfleet.launch.engines.choice import NATIVE, choose, kind
from sparkfleet.launch.engines.container import Container
from sparkfleet.launch.engines.engine import Engine
from sparkfleet.launch.engines.native import Native

__all__ = ["NATIVE", "Container", "Engine", "Native", "choose", "kind"]
