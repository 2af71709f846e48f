// What simulated Metal code runs on: the hooks that the language shim (include/metal_stdlib) calls.
//
// A dispatch runs one thread group after another, in one OS thread.  The threads of a group are fibers: each runs until
// it meets others (a barrier, an exchange between the lanes of its SIMD-group) or is done, so that a run is the same
// every time.  Memory of a thread group holds rubbish at first, as on hardware.
//
// The entry of a kernel is called through a trampoline that the simulator makes from the kernel's declaration: each
// parameter is filled by its attribute, so kernels need no hook for positions or buffers.
#pragma once

#include <cstddef>
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

// What the lanes of a SIMD-group gave at one place of the code; those not in `active` gave nothing.
struct Lanes {
    std::uint64_t value[LANES];
    std::uint32_t active;
};

// The thread that calls.
const Thread &self();

// Wait for all threads of the group that are not done.
void threadgroup_barrier();

// Give one value and get those of all lanes that are at the same place of the code (the same calls up to the entry) at
// the same time; lanes elsewhere are not active.  A SIMD-group barrier is an exchange of nothing.
Lanes exchange(std::uint64_t value);
inline void simdgroup_barrier() { (void)exchange(0); }

// End the whole dispatch with an error that the host sees.
[[noreturn]] void fail(const char *message);

} // namespace sterna_sim
