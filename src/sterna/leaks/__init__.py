"""Does code of the host need what exists on devices only?  `sterna.host_leaks` and ``sterna check``.

Every function of a package with a concrete signature is compiled for the CPU as code of the host, whose method tables
hold nothing of devices.  What its object then needs from outside under a device's name is a leak.
"""

from sterna.leaks.check import check_package, compile_for, host_leaks
from sterna.leaks.report import HostLeak, LeakReport, UnusedOverride

__all__ = ["HostLeak", "LeakReport", "UnusedOverride", "check_package", "compile_for", "host_leaks"]
