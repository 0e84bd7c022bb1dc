"""Facts about a host: raw texts read in one round trip, parsed into values."""

from sparkfleet.facts.host import HostFacts, gather_facts, parse_facts

__all__ = ["HostFacts", "gather_facts", "parse_facts"]
