"""Metal images made by hand: a runtime to test with no code generator."""

from __future__ import annotations

from typing import Any

from sterna.abi import STATE_WORDS, arg_layout
from sterna.image.format import KernelImage
from sterna.relocation.record import Manifest
from sterna.runtime.config import LaunchConfig
from sterna.runtime.link import LoadedKernel, link
from sterna.runtime.signature import ArgumentPacker
from sterna.targets.registry import target
from sterna.typespec import type_from

__all__ = ["HEAD", "kernel_text", "load", "make_metal_image", "run"]

HEAD = """#include <metal_stdlib>
using namespace metal;
struct Record { atomic_uint status; int error; long words[9]; };
static void fail(ulong address, int error, uint3 group, uint3 position, long d0, long d1, long d2) {
    device Record *record = (device Record *)address;
    uint free_ = 0;
    if (!atomic_compare_exchange_weak_explicit(&record->status, &free_, 1u, memory_order_relaxed, memory_order_relaxed))
        return;
    record->error = error;
    long words[9] = {group.x, group.y, group.z, position.x, position.y, position.z, d0, d1, d2};
    for (int n = 0; n < 9; ++n)
        record->words[n] = words[n];
    atomic_store_explicit(&record->status, 2u, memory_order_relaxed);
}
"""
_POSITIONS = (
    "uint3 position [[thread_position_in_threadgroup]]",
    "uint3 group [[threadgroup_position_in_grid]]",
    "uint3 threads [[threads_per_threadgroup]]",
)


def kernel_text(fields: str, body: str, more: str = "", attributes: str = "") -> str:
    """A kernel whose arguments and state words are the `fields` of a struct, read as ``a.…``; its index is ``i``."""
    parameters = ", ".join(["constant uchar *args [[buffer(0)]]", *_POSITIONS, *([more] if more else [])])
    return (
        f"{HEAD}struct Args {{ {fields} }};\nkernel {attributes}void hand({parameters}) {{\n"
        "    constant Args &a = *(constant Args *)args;\n"
        f"    long i = long(group.x) * threads.x + position.x;\n    {body}\n}}\n"
    )


def make_metal_image(text: str, signature: tuple[Any, ...], **changes: Any) -> KernelImage:
    """An image around MSL text; `signature` in the spelling of `Kernel.specialize`."""
    types = tuple(type_from(item) for item in signature)
    facts = {"shared_bytes": 0, "state": ["record", "table"], "raises": True, "prints": []}
    fields: dict[str, Any] = {
        "key": "0" * 63 + "1", "name": "hand", "module": "hand", "target": "metal", "arch": target("metal").arch,
        "entry": "hand", "signature": ", ".join(map(str, types)), "manifest": Manifest("table"), "errors": (),
        "sources": (("", "0f" * 32),), "provenance": {"versions": {}, "options": {}},
        "payloads": {"msl": text.encode()},
    }  # fmt: skip
    facts |= changes.pop("facts", {})
    return KernelImage(**(fields | changes), facts=facts)


def load(image: KernelImage, function: Any, device: Any, signature: tuple[Any, ...]) -> LoadedKernel:
    """Link it on a device."""
    assert set(image.facts["state"]) <= set(STATE_WORDS)
    return link(image, function, device, arg_layout(tuple(type_from(item) for item in signature)))


def run(loaded: LoadedKernel, signature: tuple[Any, ...], blocks: int, threads: int, *args: Any, **more: Any) -> None:
    """Launch it; failures wait for a synchronise."""
    types = tuple(type_from(item) for item in signature)
    packer = ArgumentPacker("hand", tuple(f"a{n}" for n in range(len(args))), types)
    stream = more.pop("stream", None)
    loaded.module.launch(LaunchConfig((blocks, 1, 1), (threads, 1, 1), (), **more), packer.pack(args), stream)
