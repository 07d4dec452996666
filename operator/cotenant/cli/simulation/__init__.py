"""`cotenant simulate`: runs jobs on a virtual clock, from documents or from a trace, with an installation's
settings.
"""
