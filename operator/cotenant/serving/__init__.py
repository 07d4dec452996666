"""Serving `/metrics`: who may read it, and the certificate it is served with. Stdlib; operator and agent come in."""
