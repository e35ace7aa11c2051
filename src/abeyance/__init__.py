"""abeyance: runs that wait for the outside world, kept as a journal of signed events.

A run does work, then waits: for another system's answer, a person's approval, a
signal, a time. While it waits nothing runs and nothing is held in memory. When
the answer comes, the run is rebuilt by replay and goes on.

What a user imports stands in ``__all__``; everything else may change.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
