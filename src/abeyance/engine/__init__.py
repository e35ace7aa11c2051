"""What goes on: definitions, driver, executor, agenda."""
