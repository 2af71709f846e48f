"""What a check of a package found, as values."""

from __future__ import annotations

from collections.abc import Iterator

from sterna.frozen import frozen

__all__ = ["HostLeak", "LeakReport", "UnusedOverride"]


@frozen
class HostLeak:
    """One use, in code of the host, of a function that exists on devices only.

    Attributes
    ----------
    symbol : str
        The symbol that the object needs, such as ``sterna_device_only.grid``.
    function : str
        The function whose code uses it, with its module.
    file : str
        Its file.
    line : int
        The line of the statement.
    """

    symbol: str
    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.function} needs {self.symbol}"


@frozen
class UnusedOverride:
    """An override of a function that no device code of the package calls.

    Attributes
    ----------
    subject, definition : str
        The function and its override, with their modules.
    table : str
        The target, the architecture, or ``all devices``.
    where : str
        File and line of the override.
    """

    subject: str
    definition: str
    table: str
    where: str

    def __str__(self) -> str:
        return (
            f"{self.where}: {self.definition} overrides {self.subject} for {self.table}, and no device code of the "
            "package calls that"
        )


@frozen
class LeakReport:
    """Result of `host_leaks`: a sequence of leaks, true if there is any.

    Attributes
    ----------
    package : str
        What was checked.
    leaks : tuple of HostLeak
        In the order of files and lines.
    compiled : tuple of str
        Functions that were compiled.
    skipped : tuple of (str, str)
        Functions with a concrete signature that are no device code could be made of, and modules that cannot be
        imported, with the reason.
    unused : tuple of UnusedOverride
        Overrides that no device code of the package calls.
    """

    package: str
    leaks: tuple[HostLeak, ...]
    compiled: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]
    unused: tuple[UnusedOverride, ...] = ()

    def __len__(self) -> int:
        return len(self.leaks)

    def __iter__(self) -> Iterator[HostLeak]:
        return iter(self.leaks)

    def __getitem__(self, number: int) -> HostLeak:
        return self.leaks[number]
