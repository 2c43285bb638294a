"""What the demo runs as users and auditors write it: what jobs run, sent along by `falaj train`, and what checks a proof. They
are not imported here.
"""
