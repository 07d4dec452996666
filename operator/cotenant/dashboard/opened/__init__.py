"""Sessions of tenants (JupyterLab, code-server, programs) in a browser: each below a host name of its own, for who may
forward ports of its pod.

A notebook runs scripts of whoever wrote it. Under the dashboard's origin they could act with the login of the person
who looks, and under the origin of another session with that one. So each session has an origin of its own, on a port of
its own of this process; a ticket that is good once carries a person there from the dashboard.
"""
