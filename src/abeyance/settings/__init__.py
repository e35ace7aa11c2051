"""Every setting of a process: read once at the start, checked, frozen."""

from abeyance.settings.model import CLIENT_VARIABLES, PREFIX, Settings, unknown_variables

__all__ = ["CLIENT_VARIABLES", "PREFIX", "Settings", "unknown_variables"]
