"""The routes: one class an address, thin, each over the parts of the services that it needs."""
