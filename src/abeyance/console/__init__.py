"""Pages for people, rendered on the server: today the page of a link."""
