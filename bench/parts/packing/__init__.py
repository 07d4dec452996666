"""The openb lists with their protocol, the published placement policies and Cotenant's, for `bench.packing`.

Pure numpy and the core's placement; no clock and no files but the lists.
"""
