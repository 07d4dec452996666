"""CRDs and the reference page, generated from the models in `resources`. Nothing here is written by hand twice."""
