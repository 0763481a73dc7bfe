"""Probes: questions to a server, played on the wire, and the facts that a client can see in its answers."""
