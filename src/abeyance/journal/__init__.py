"""What happened: events, run state, signed envelope, store, vault."""
