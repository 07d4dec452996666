"""Verbs of tenants: `submit`, `logs`, `stop`, `resume`, `retry`, `attach`, `port-forward`, `drill`, `quota`, `session`;
and of finished runs `history`, `eff`, `advise`, `cost`, `showback`.

They read and write through the API server with the caller's rights. The module `jobs` is shared by them.
"""
