"""Repeated launches of one kind: one generated function for all that lies between the call and the device.

A kernel that has just swept through memory leaves neither the interpreter nor Sterna's functions in the processor's
caches, and each function that the next launch enters then costs microseconds.  So a launcher that has launched the same
specialisation a few times gets one function that tests what the general path (`sterna.kernels`, `dispatch`) would look
up, packs, and launches.  Where any test fails it does nothing and the general path runs, which is always right.
There are such functions for arrays and plain numbers, in the default context.

A function holds its specialisation: the dispatcher may drop that for newer ones and meet its captures again, and the
code must be there then.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sterna.abi import KEY_FLAGS
from sterna.runtime.config import LaunchConfig
from sterna.runtime.devices import active_block
from sterna.runtime.signature import address_of, first_byte
from sterna.runtime.stats import count_launch
from sterna.targets.base import Device, ModuleLost

if TYPE_CHECKING:
    from sterna.runtime.dispatch import Dispatcher, Specialisation

__all__ = ["FastLaunch", "make_fast_launch"]

FastLaunch = Callable[[tuple[Any, ...]], bool]
"""Launches with these arguments and says True, or does nothing and says False."""

_MOST_ARGUMENTS = 32
_TESTS = "active() is None", "dispatcher.epoch is epoch", "holds()"
_NATIVE = """
        if not ({tests}):
            return False
        packed = new(size)
        if pack(args, plan, packed):
            return False
"""
_PYTHON = """
        try:
            {unpack} = args
            if not ({tests}):
                return False
            packed = pack({values})
        except failures:
            return False
"""
_SOURCE = """\
def make({names}):
    def launch(args):
        {packing}
        {check}
        try:
            start(config, packed, None)
        except lost:
            return False
        {keep}
        count()
        return True
    launch.specialisation, launch.packer = found, packer
    return launch
"""


def make_fast_launch(
    config: LaunchConfig, found: Specialisation, device: Device, args: Sequence[Any], dispatcher: Dispatcher
) -> FastLaunch | None:
    """The function for launches like one that has just been made, or None where only the general path will do.

    Parameters
    ----------
    config : LaunchConfig
        Of the launcher, on this device; not empty.
    found : Specialisation
        What was launched.
    device : Device
        Where.
    args : sequence
        Its arguments.
    dispatcher : Dispatcher
        Whose epoch ends when specialisations are unloaded.
    """
    names: dict[str, Any] = {
        "start": found.launch, "config": config, "found": found, "lost": ModuleLost, "count": count_launch,
        "active": active_block, "dispatcher": dispatcher, "epoch": dispatcher.epoch, "holds": found.scan.check,
        "hold": found.keep, "check": found.packer.check, "packer": found.packer,
    }  # fmt: skip
    if len(args) > _MOST_ARGUMENTS or active_block() is not None:
        return None
    packing = _in_native_code(found, args, names) or _in_python(found, device, args, names)
    if packing is None:
        return None
    source = _SOURCE.format(
        names=", ".join(names), packing=packing.strip(),
        keep="hold((found, args))" if found.keep is not None else "",
        check="check(args)" if found.packer.checks else "",
    )  # fmt: skip
    scope: dict[str, Any] = {}
    exec(compile(source, "<sterna launch>", "exec"), scope)
    made: FastLaunch = scope["make"](**names)
    return made


def _in_native_code(found: Specialisation, args: Sequence[Any], names: dict[str, Any]) -> str | None:
    """Tests and packing by a function of the device, where it has one for such arguments."""
    make = getattr(found.loaded.module, "native_packer", None)
    packer = None if make is None else make(found.packer.layout, found.types, args)
    if packer is None:
        return None
    # the packer owns the memory of the plan
    names |= {"pack": packer.function, "plan": packer.plan, "size": packer.size, "new": bytes, "packer": packer}
    return _NATIVE.format(tests=" and ".join(_TESTS))


def _in_python(found: Specialisation, device: Device, args: Sequence[Any], names: dict[str, Any]) -> str | None:
    """Tests and packing as source text, or None where one of the arguments needs the general path."""
    names |= {
        "array": np.ndarray, "pack": found.packer.pack_values, "address": address_of, "first": first_byte,
        "flags": KEY_FLAGS, "failures": (TypeError, ValueError, BufferError, struct.error), "device": device,
    }  # fmt: skip
    tests, values = [], []
    for number, (arg, t) in enumerate(zip(args, found.types, strict=True)):
        own = _argument(f"a{number}", arg, t, device, names)
        if own is None:
            return None
        tests.append(own[0])
        values.append(own[1])
    unpack = "".join(f"a{n}, " for n in range(len(args))) or "()"
    return _PYTHON.format(unpack=unpack, tests=" and ".join([*tests, *_TESTS]), values=", ".join(values))


def _argument(name: str, arg: Any, t: Any, device: Device, names: dict[str, Any]) -> tuple[str, str] | None:
    """The test of one argument and its values, as source text."""
    cls = type(arg)
    if cls is int or cls is float:
        return f"type({name}) is {cls.__name__}", name
    strides = "" if getattr(t, "layout", "") == "C" else f", *{name}.strides"
    if cls is np.ndarray:
        if not device.reads_host_memory or not arg.flags.writeable or not arg.size:
            return None  # copied there and back, or without an address that is quick to find
        names[f"d{name}"] = arg.dtype
        test = (
            f"type({name}) is array and {name}.dtype is d{name} and {name}.ndim == {arg.ndim} "
            f"and {name}.flags.num & flags == {arg.flags.num & KEY_FLAGS}"
        )
        return test, f"address(first({name})), *{name}.shape{strides}"
    if not getattr(cls, "__sterna_array__", False) or arg.device is not device:
        return None
    names[f"c{name}"], names[f"k{name}"] = cls, arg.__sterna_key__
    test = f"type({name}) is c{name} and {name}.device is device and {name}.__sterna_key__ == k{name}"
    return test, f"*{name}.__sterna_words__{strides}"
