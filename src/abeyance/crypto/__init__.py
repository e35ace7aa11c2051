"""Keys, signatures and sealing. The only importer of `cryptography`."""
