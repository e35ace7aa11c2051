"""The API over an engine on each store."""

from tests.support.deployments import deployment, hot_runs, migrated_template, migrated_url

__all__ = ["deployment", "hot_runs", "migrated_template", "migrated_url"]
