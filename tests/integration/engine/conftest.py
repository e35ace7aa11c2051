"""A deployment on each store, with and without runs that are kept warm."""

from tests.support.deployments import deployment, hot_runs, migrated_template, migrated_url

__all__ = ["deployment", "hot_runs", "migrated_template", "migrated_url"]
