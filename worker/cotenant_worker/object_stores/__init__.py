"""Object stores (`object_store`), and data of a job that is fetched from them before its ranks start (`staging`).

`staging` runs in a process of its own, which imports obstore. Process 1 starts it and reads its reports
(`staging_reports`).
"""
