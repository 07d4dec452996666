"""Types of single fields: amounts, names, texts, moments. Each reads, prints and describes itself in the CRD."""
