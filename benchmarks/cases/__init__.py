"""The cases, a module each: a function from how it is to be measured to its results."""
