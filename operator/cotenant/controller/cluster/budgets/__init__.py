"""What queues have spent of their budgets: a meter for each job, an account for each queue, and all accounts together.

`budgets` is the door. The arithmetic of one budget is in `core.quota.budget`.
"""
