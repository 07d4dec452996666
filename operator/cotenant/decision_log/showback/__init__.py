"""Showback: GPU-time that was held, in milli-GPU × seconds, by whom, to what end, and what it costs. Pure.

`meters` counts what one job holds, `periods` are those of budgets and bills, `prices` is the price list. All amounts
are integers: milli-GPU × seconds, micro-units of a currency, Unix seconds.
"""
