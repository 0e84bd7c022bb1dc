"""Engines that run vLLM and Ray on a host: pure builders of argument lists, without I/O."""
