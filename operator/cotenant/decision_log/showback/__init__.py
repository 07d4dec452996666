"""Showback: GPU time that was held, in milli-GPU × seconds, by whom, for what, and its cost. Pure.

`meters` counts what one job holds, `periods` are those of budgets and bills, `prices` is the price list. All amounts
are integers: milli-GPU × seconds, micro-units of a currency, Unix seconds.
"""
