"""The verbs `cotenant local` and `cotenant demo`, found by entry points: arguments only, the work is done elsewhere.

Every run of `cotenant` imports these modules, with whatever extra is installed: standard library and
`cotenant.cli.errors` at their top, everything else inside the functions.
"""
