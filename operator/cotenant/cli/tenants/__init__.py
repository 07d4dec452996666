"""Verbs of tenants: `submit`, `logs`, `stop`, `resume`, `retry`, `attach`, `port-forward`, `drill`, `quota`, `session`,
and of runs `history`, `eff`, `advise`, `cost`, `showback`.

They read and write through the API server, with the rights of whoever types them. `jobs` is what they share.
"""
