"""`cotenant simulate`: jobs on a virtual clock, of documents or of a trace, with an installation's settings."""
