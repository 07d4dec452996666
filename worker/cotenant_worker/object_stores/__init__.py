"""Object stores (`object_store`), and data of a job that is fetched from them before its ranks start (`staging`).

`staging` runs in a process of its own, which process 1 starts and reads (`staging_reports`): obstore is imported there.
"""
