"""A complete toy target: the interface of targets as executable documentation.

Its code is the lowered kernel IR itself, as JSON; its devices interpret that, one thread after another.  It has two
devices, so that words of one are visibly not those of the other, and supports little more than its test needs.  A real
target has the same four parts:

* `target`: facts, found by one line in `sterna.targets.registry.TARGETS`;
* `compiler`: lowered IR → payloads (imported only when something must be compiled);
* `device`: memory, loading, launching (imported only when something runs);
* the operations it supports, which here are the functions of `evaluate`.
"""
