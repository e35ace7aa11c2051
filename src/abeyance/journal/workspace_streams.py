"""Which stream is a workspace's."""

from uuid import UUID, uuid5

from abeyance.journal.events import DEPLOYMENT_STREAM


def workspace_stream(workspace: str) -> UUID:
    """The id of a workspace's stream."""
    return uuid5(DEPLOYMENT_STREAM, f"workspace:{workspace}")
