"""Sources and captures: what a live kernel consists of, without running or importing anything for it.

::

    function ──code──▶ fingerprint ──index──▶ facts (digest, names) ──captures──▶ Scan ──▶ key, frontend
                                      │ unknown only
                                      └──▶ locate ─▶ parsed, texts ─▶ canonical, scopes

========== ===============================================================================
code       fingerprint of a code object
facts      digest of the normalised source and the free names, by fingerprint
index      facts in memory and in stores
locate     the syntax tree of a live function, wherever its text is
canonical  the normal form, its digest, the numbers of statements
scopes     free names by Python's rules
captures   the scan: functions reached, values captured, guards
classify   what a captured value is to device code
paths      textual paths from the kernel to a value, and walking them
========== ===============================================================================

A launch from a store uses the upper row only: it reads no source file and loads no parser.
"""
