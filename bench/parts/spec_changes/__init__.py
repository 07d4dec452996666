"""Random changes of every field that a CRD's schema has: which places there are, and what is put there."""
