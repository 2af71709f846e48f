"""Getting an image's SPIR-V into a context: the driver's machine code from the archive, else the driver's compiler.

What the driver refuses of an archive is forgotten and built again; what it refuses of an image is kept, with what it
said, and the message says where.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import TYPE_CHECKING, Any

from sterna.digest import sha256_hex
from sterna.errors import ImageRefused
from sterna.image.archive import Archive, ArchivePlace, default_archive
from sterna.runtime.refused import refusal
from sterna.targets.opencl.driver import OpenclError, call, function

if TYPE_CHECKING:
    from sterna.image.format import KernelImage
    from sterna.targets.opencl.device import OpenclDevice

__all__ = ["archive_place", "load_program"]

_PROGRAM_BINARY_SIZES, _PROGRAM_BINARIES, _BUILD_LOG = 0x1165, 0x1166, 0x1183


def load_program(device: OpenclDevice, image: KernelImage) -> int:
    """Load and build an image's program; gives its handle.

    Raises
    ------
    ImageRefused
        When the device cannot run it; names the folder it is kept in.
    """
    code = image.payloads.get("spirv")
    if code is None:
        raise _refused(device, image, "no SPIR-V in the image", "")
    archive = default_archive() if image.manifest.strategy != "bake" and image.key else None
    if archive is not None:
        program = _from_archive(archive, device, image, code)
        if program:
            return program
    try:
        program = _created("clCreateProgramWithIL", device.context.int_ptr, code, len(code))
    except OpenclError as error:
        raise _refused(device, image, str(error), "") from None
    try:
        _build(program, device)
    except OpenclError as error:
        log = _build_log(program, device)
        call("clReleaseProgram", program)
        raise _refused(device, image, str(error), log) from None
    if archive is not None:
        binary = _binary_of(program)
        if binary:
            archive.put(archive_place(device), image.key, code, binary)
    return program


def archive_place(device: OpenclDevice) -> ArchivePlace:
    """What machine code of this device is valid for."""
    info = device.handle
    kind = f"{info.vendor.strip()} {info.name.strip()} {info.version.strip()}"
    if device.is_processor:  # its name says little of its instructions
        kind += f" {_processor()}"
    driver = f"{info.platform.version} {info.driver_version} {device.build_options}"
    return ArchivePlace("opencl", kind, driver, " ".join(platform.uname()[i] for i in (0, 2, 3, 4)))


@cache
def _processor() -> str:
    """Model and instruction sets of this machine's processor, as a digest."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n\n")[0].splitlines()
    except OSError:
        return sha256_hex(platform.processor().encode())[:16]
    kept = [line for line in lines if line.startswith(("vendor_id", "cpu family", "model", "flags", "Features", "CPU"))]
    return sha256_hex("\n".join(sorted(line for line in kept if "MHz" not in line)).encode())[:16]


def _from_archive(archive: Archive, device: OpenclDevice, image: KernelImage, code: bytes) -> int:
    """The program from stored machine code, or 0."""
    place = archive_place(device)
    binary = archive.get(place, image.key, code)
    if binary is None:
        return 0
    handle, size = ctypes.c_void_p(device.handle.int_ptr), ctypes.c_size_t(len(binary))
    data, status = ctypes.c_char_p(binary), ctypes.c_int()
    program = 0
    try:
        program = _created(
            "clCreateProgramWithBinary", device.context.int_ptr, 1, ctypes.byref(handle), ctypes.byref(size),
            ctypes.byref(data), ctypes.byref(status),
        )  # fmt: skip
        _build(program, device)
    except OpenclError:
        if program:
            call("clReleaseProgram", program)
        archive.reject(place, image.key)
        return 0
    return program


def _created(name: str, *arguments: Any) -> int:
    code = ctypes.c_int()
    made = function(name)(*arguments, ctypes.byref(code))
    if code.value or not made:
        raise OpenclError(name, code.value)
    return int(made)


def _build(program: int, device: OpenclDevice) -> None:
    handle = ctypes.c_void_p(device.handle.int_ptr)
    call("clBuildProgram", program, 1, ctypes.byref(handle), device.build_options.encode(), None, None)


def _build_log(program: int, device: OpenclDevice) -> str:
    size = ctypes.c_size_t()
    ask = function("clGetProgramBuildInfo")
    if ask(program, device.handle.int_ptr, _BUILD_LOG, 0, None, ctypes.byref(size)) or not size.value:
        return ""
    text = ctypes.create_string_buffer(size.value)
    ask(program, device.handle.int_ptr, _BUILD_LOG, size, text, None)
    return text.value.decode("utf-8", "replace").strip()


def _binary_of(program: int) -> bytes:
    """Machine code of a built program, of its one device; empty where the driver gives none."""
    size = ctypes.c_size_t()
    ask = function("clGetProgramInfo")
    if ask(program, _PROGRAM_BINARY_SIZES, ctypes.sizeof(size), ctypes.byref(size), None) or not size.value:
        return b""
    data = ctypes.create_string_buffer(size.value)
    place = ctypes.c_void_p(ctypes.addressof(data))
    if ask(program, _PROGRAM_BINARIES, ctypes.sizeof(place), ctypes.byref(place), None):
        return b""
    return data.raw


def _refused(device: OpenclDevice, image: KernelImage, reason: str, log: str) -> ImageRefused:
    detail = f": {log.splitlines()[0]}" if log else ""
    return refusal(device, image, f"{reason}{detail}", f"{reason}\n{log}")
