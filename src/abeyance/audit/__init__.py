"""What can be proved: records and their verification."""
