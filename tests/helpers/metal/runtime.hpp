// What the entry of a simulated kernel is called with.  The hooks that Metal's functions call while it runs are declared
// by the language shim (include/metal_stdlib) and defined by runtime.cpp.
//
// A dispatch runs one thread group after another, in one OS thread.  The threads of a group are fibers: each runs until
// it meets others (a barrier, an exchange between the lanes of its SIMD-group) or is done, so that a run is the same
// every time.  Memory of a thread group holds rubbish at first, as on hardware.
//
// The entry of a kernel is called through a trampoline that the simulator makes from the kernel's declaration: each
// parameter is filled by its attribute, so kernels need no hook for positions or buffers.
#pragma once

#include <cstdint>

namespace sterna_sim {

constexpr unsigned LANES = 32;
constexpr unsigned MAX_THREADS = 1024;
constexpr unsigned SLOTS = 31;

struct Dispatch {
    std::uint32_t groups[3], threads[3];
    void *buffers[SLOTS];             // buffer(n)
    std::uint32_t group_bytes[SLOTS]; // bytes of threadgroup(n)
    void *group_memory[SLOTS];        // threadgroup(n): filled by the runtime
};

struct Thread {
    std::uint32_t position[3]; // in its group
    std::uint32_t group[3];    // of its group in the grid
    std::uint32_t index;       // in its group, x fastest
    const Dispatch *dispatch;
    std::uint32_t lane() const { return index % LANES; }
    std::uint32_t simdgroup() const { return index / LANES; }
};

} // namespace sterna_sim
