"""The tasks of sparkfleet, for `invoke` in a checkout."""

from sparkfleet.cli.tasks import namespace  # noqa: F401 - invoke looks for this name
