"""Sessions of tenants (JupyterLab, code-server, programs) in a browser, each under its own host name, for people who
may forward ports of its pod.

A notebook runs scripts of the person who wrote it. Under the dashboard's origin these scripts could use the login of
the person who reads it; under a shared origin, other sessions. So every session has an origin of its own, on a separate
port of this process. A one-time ticket leads a person there from the dashboard.
"""
