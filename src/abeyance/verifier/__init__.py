"""The verifier of exported records: an own program, for whoever doesn't trust the server.

It imports nothing of the rest of abeyance and needs only Python and `cryptography`; `assemble` writes it as
one file. It opens no socket. What it reads is docs/reference/bundle.md.
"""
