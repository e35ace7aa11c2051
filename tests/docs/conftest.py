"""A deployment on each store, for the pages whose tables the engine is held to."""

from tests.support.deployments import deployment, hot_runs, migrated_template, migrated_url

__all__ = ["deployment", "hot_runs", "migrated_template", "migrated_url"]
