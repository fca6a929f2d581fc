"""`python3 -m trainerd web`: the daemon's jobs as pages of a browser on this machine (docs/web.md).

A client of the daemon like any other, so rights are the daemon's. Only the standard library; charts by Chart.js.
"""
from .server import serve

__all__ = ["serve"]
