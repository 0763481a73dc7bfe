"""What a run prints and writes: the console, JUnit XML and the JSON document.

Reports only listen. They take the data of `conformance.outcome` and decide nothing, save one thing that all
three share: how outcomes are counted (`conformance.report.tally`). Text that came from a server, a client
or a judge is untrusted here: it goes through `conformance.report.escape` before it is shown.
"""
