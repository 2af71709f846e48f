"""Every error Sterna raises, as a small tree under `SternaError`.

A user's mistake also derives from the built-in class a Python programmer would expect
(`TypeError`, `ValueError`, …), so ordinary ``except`` clauses work.
"""

from __future__ import annotations

__all__ = [
    "BundleError", "CompileError", "CompilerUnavailable", "DeviceError", "DeviceOnlyError", "ImageError",
    "ImageRefused", "LaunchError", "LinkError", "OverlayError", "SignatureError", "SourceError", "SourceLocation",
    "SternaError", "SternaWarning", "UnsupportedError",
]  # fmt: skip

from sterna.frozen import frozen


class SternaError(Exception):
    """Base of all errors of this library."""


class SternaWarning(UserWarning):
    """Something went on in a lesser way (memory-only cache, damaged image replaced)."""


@frozen
class SourceLocation:
    """A place in the user's source: file, 1-based line, 0-based column span, text of the line."""

    filename: str
    line: int
    column: int = 0
    end_column: int = 0
    text: str = ""
    function: str = ""

    def render(self) -> str:
        """Two or three lines in the style of a Python traceback, with a caret when known."""
        head = f'  File "{self.filename}", line {self.line}'
        head += f", in {self.function}" if self.function else ""
        if not self.text.strip():
            return head
        stripped = self.text.strip()
        indent = len(self.text) - len(self.text.lstrip())
        start = max(self.column - indent, 0)
        width = max(self.end_column - self.column, 1)
        width = min(width, max(len(stripped) - start, 1))
        return f"{head}\n    {stripped}\n    {' ' * start}{'^' * width}"


class CompileError(SternaError, TypeError):
    """Kernel code that cannot be compiled: says where, what was inferred, what to write instead."""

    def __init__(self, message: str, location: SourceLocation | None = None, kernel: str = "", hint: str = "") -> None:
        self.message, self.location, self.kernel, self.hint = message, location, kernel, hint
        super().__init__(self._render())

    def _render(self) -> str:
        head = f"kernel {self.kernel}: {self.message}" if self.kernel else self.message
        parts = [head]
        if self.location is not None:
            parts.append(self.location.render())
        if self.hint:
            parts.append(f"  Try: {self.hint}")
        return "\n".join(parts)


class UnsupportedError(CompileError):
    """A construct or operation that the language or the target does not have."""


class SourceError(SternaError, OSError):
    """The source text of a function cannot be had, or changed since it was imported."""


class CompilerUnavailable(SternaError, RuntimeError):
    """A compilation was needed where none is allowed or no compiler is installed."""


class DeviceError(SternaError, RuntimeError):
    """A device is not there, or failed in a way that no kernel asked for."""


class DeviceOnlyError(SternaError, RuntimeError):
    """A device function was called on the host."""


class OverlayError(SternaError, TypeError):
    """A definition for device code that cannot stand: its signature does not fit, or another one stands there."""


class SignatureError(SternaError, TypeError):
    """Wrong number or types of launch arguments."""


class LaunchError(SternaError, ValueError):
    """An impossible launch configuration (blocks, threads, shared memory)."""


class ImageError(SternaError, ValueError):
    """A kernel image that is damaged or of another format; a store treats it as a miss."""


class LinkError(SternaError, RuntimeError):
    """An image cannot be given its words: code and manifest disagree, or a name is gone."""


class ImageRefused(LinkError):
    """The device's driver takes none of an image's payloads; they are kept where the message says."""


class BundleError(SternaError, ValueError):
    """A folder that should hold kernel images cannot be used as one."""
