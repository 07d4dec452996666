"""Random changes of every field of a CRD's schema: which fields there are, and which values are put there."""
