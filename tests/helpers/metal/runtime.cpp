// The scheduler behind runtime.hpp: fibers for the threads of a group, faults as errors of the dispatch.

#include "runtime.hpp"

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

namespace sterna_sim {

// As include/metal_stdlib declares it: what the lanes of a SIMD-group gave at one place of the code.
struct Meeting {
    std::uint32_t active;
    std::uint32_t values[LANES];
};

namespace {

using Entry = void (*)(const Dispatch &, const Thread &);
enum class State { fresh, runnable, barrier, exchange, done };

constexpr std::size_t STACK = 256 * 1024;
constexpr unsigned char RUBBISH = 0xA5;
constexpr int FAULTS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};

struct Fiber {
    ucontext_t context;
    void *stack = nullptr;
};

struct Slot {
    Thread thread;
    State state = State::fresh;
    Fiber *fiber = nullptr;
    std::vector<std::uintptr_t> site; // where it waits: return addresses, the outermost first, then the line
    std::uint32_t value = 0;
    Meeting met;
};

struct Report {
    std::int32_t signal = -1; // what ended the dispatch
    std::uint64_t address = 0;
    std::uint64_t apart = 0; // barriers to which some thread of the group did not come, or not to the same one
};

class Group;
thread_local Group *running = nullptr;
thread_local sigjmp_buf leave;
thread_local Report *report = nullptr;

void fiber_main();

class Group {
  public:
    Group(Entry entry, Dispatch &dispatch) : entry(entry), dispatch(dispatch) {
        count = dispatch.threads[0] * dispatch.threads[1] * dispatch.threads[2];
        slots.resize(count);
    }
    ~Group() {
        for (Fiber *fiber : fibers) {
            munmap(fiber->stack, STACK);
            delete fiber;
        }
    }

    void run(std::uint32_t x, std::uint32_t y, std::uint32_t z, bool backwards) {
        const std::uint32_t *threads = dispatch.threads;
        for (std::uint32_t n = 0; n < count; ++n) {
            Slot &slot = slots[n];
            slot.state = State::fresh;
            slot.thread = {{n % threads[0], n / threads[0] % threads[1], n / threads[0] / threads[1]},
                           {x, y, z}, n, &dispatch};
        }
        do {
            for (std::uint32_t n = 0; n < count; ++n)
                step(slots[backwards ? count - 1 - n : n]);
            backwards = !backwards;
        } while (release());
    }

    // The threads of one fiber, one after another; never returns.
    [[noreturn]] void serve() {
        for (;;) {
            Slot &slot = *current;
            entry(dispatch, slot.thread);
            slot.state = State::done;
            idle.push_back(slot.fiber);
            swapcontext(&slot.fiber->context, &base); // resumed with another thread as the current one
        }
    }

    void wait(State state) {
        Slot &slot = *current;
        slot.state = state;
        swapcontext(&slot.fiber->context, &base);
        current = &slot;
    }

    Slot *current = nullptr;

  private:
    Entry entry;
    Dispatch &dispatch;
    std::uint32_t count;
    std::vector<Slot> slots;
    std::vector<Fiber *> fibers, idle;
    ucontext_t base;

    void step(Slot &slot) {
        if (slot.state != State::fresh && slot.state != State::runnable)
            return;
        if (slot.state == State::fresh)
            slot.fiber = take();
        slot.state = State::runnable;
        current = &slot;
        swapcontext(&base, &slot.fiber->context);
        current = nullptr;
    }

    Fiber *take() {
        if (!idle.empty()) {
            Fiber *fiber = idle.back();
            idle.pop_back();
            return fiber;
        }
        Fiber *fiber = new Fiber;
        fiber->stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (fiber->stack == MAP_FAILED)
            std::abort();
        fibers.push_back(fiber);
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = fiber->stack;
        fiber->context.uc_stack.ss_size = STACK;
        fiber->context.uc_link = nullptr;
        makecontext(&fiber->context, fiber_main, 0);
        return fiber;
    }

    // Nobody can run: let those go who have met.
    bool release() {
        bool found = false;
        for (std::uint32_t first = 0; first < count; first += LANES)
            found |= exchange_lanes(first);
        if (found)
            return true;
        const Slot *first_waiting = nullptr;
        bool apart = false;
        for (Slot &slot : slots) {
            if (slot.state == State::done) {
                apart = true;
                continue;
            }
            first_waiting = first_waiting ? first_waiting : &slot;
            apart |= slot.site != first_waiting->site;
        }
        if (!first_waiting)
            return false;
        report->apart += apart;
        for (Slot &slot : slots)
            if (slot.state == State::barrier)
                slot.state = State::runnable;
        return true;
    }

    // The lanes of one SIMD-group that wait at the earliest place of the code: who has left a loop waits for those who
    // have not.  (Who comes round a loop again, to an earlier place than others of the same turn, does not wait.)
    bool exchange_lanes(std::uint32_t first) {
        std::uint32_t end = first + LANES < count ? first + LANES : count;
        const Slot *leader = nullptr;
        Meeting met{};
        for (std::uint32_t n = first; n < end; ++n) {
            Slot &slot = slots[n];
            if (slot.state != State::exchange)
                continue;
            if (!leader || slot.site < leader->site)
                leader = &slot;
        }
        if (!leader)
            return false;
        for (std::uint32_t n = first; n < end; ++n)
            if (slots[n].state == State::exchange && slots[n].site == leader->site) {
                met.values[n - first] = slots[n].value;
                met.active |= std::uint32_t(1) << (n - first);
            }
        for (std::uint32_t n = first; n < end; ++n)
            if (met.active >> (n - first) & 1) {
                slots[n].met = met;
                slots[n].state = State::runnable;
            }
        return true;
    }
};

void fiber_main() { running->serve(); }

// ---- faults -------------------------------------------------------------------------------------

std::mutex handlers_lock;
int handlers_used = 0;
struct sigaction before[sizeof FAULTS / sizeof *FAULTS];

void on_fault(int signal, siginfo_t *info, void *) {
    if (!running) { // not ours: let it happen again with whoever was asked before
        for (unsigned n = 0; n < sizeof FAULTS / sizeof *FAULTS; ++n)
            sigaction(FAULTS[n], &before[n], nullptr);
        return;
    }
    report->signal = signal;
    report->address = reinterpret_cast<std::uint64_t>(info->si_addr);
    siglongjmp(leave, 1);
}

void install_handlers() {
    std::lock_guard<std::mutex> guard(handlers_lock);
    if (handlers_used++)
        return;
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (unsigned n = 0; n < sizeof FAULTS / sizeof *FAULTS; ++n)
        sigaction(FAULTS[n], &action, &before[n]);
}

void restore_handlers() {
    std::lock_guard<std::mutex> guard(handlers_lock);
    if (--handlers_used)
        return;
    for (unsigned n = 0; n < sizeof FAULTS / sizeof *FAULTS; ++n)
        sigaction(FAULTS[n], &before[n], nullptr);
}

std::size_t padded(std::uint32_t bytes) { return (bytes + std::size_t(63)) / 64 * 64; }

std::size_t group_memory(const Dispatch &dispatch) {
    std::size_t total = 0;
    for (std::uint32_t bytes : dispatch.group_bytes)
        total += padded(bytes);
    return total;
}

void run_groups(Group &group, const Dispatch &dispatch, unsigned char *memory, std::size_t size) {
    bool backwards = false;
    for (std::uint32_t z = 0; z < dispatch.groups[2]; ++z)
        for (std::uint32_t y = 0; y < dispatch.groups[1]; ++y)
            for (std::uint32_t x = 0; x < dispatch.groups[0]; ++x) {
                std::memset(memory, RUBBISH, size);
                group.run(x, y, z, backwards);
                backwards = !backwards;
            }
}

} // namespace

// Wait for all threads of the group that are not done.
void meet_threadgroup(int line) {
    running->current->site.assign(1, std::uintptr_t(line));
    running->wait(State::barrier);
}

// Give one value and get those of all lanes that are at the same place of the code at the same time; lanes elsewhere are
// not active.  The place is the chain of return addresses from the fiber's first frame on, and the line.
__attribute__((noinline)) Meeting meet_simdgroup(std::uint32_t value, int line) {
    Slot &slot = *running->current;
    const std::uintptr_t low = reinterpret_cast<std::uintptr_t>(slot.fiber->stack);
    slot.site.clear();
    std::uintptr_t frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    while (frame >= low && frame + 16 <= low + STACK) {
        const std::uintptr_t *at = reinterpret_cast<const std::uintptr_t *>(frame);
        slot.site.push_back(at[1]);
        if (at[0] <= frame)
            break;
        frame = at[0];
    }
    std::reverse(slot.site.begin(), slot.site.end());
    slot.site.push_back(std::uintptr_t(line));
    slot.value = value;
    running->wait(State::exchange);
    return slot.met;
}

// Run a dispatch to its end; true when it came there.
extern "C" bool sterna_sim_run(Entry entry, Dispatch *dispatch, Report *found) {
    volatile std::size_t total = group_memory(*dispatch);
    std::vector<unsigned char> memory(total + 64);
    unsigned char *start = memory.data() + (-reinterpret_cast<std::uintptr_t>(memory.data()) & 63), *next = start;
    for (unsigned n = 0; n < SLOTS; ++n) {
        dispatch->group_memory[n] = dispatch->group_bytes[n] ? next : nullptr;
        next += padded(dispatch->group_bytes[n]);
    }
    static thread_local unsigned char signal_stack[64 * 1024];
    stack_t own{}, kept{};
    own.ss_sp = signal_stack;
    own.ss_size = sizeof signal_stack;
    sigaltstack(&own, &kept);
    Group group(entry, *dispatch);
    report = found;
    running = &group;
    install_handlers();
    volatile bool whole = false;
    if (sigsetjmp(leave, 1) == 0) {
        run_groups(group, *dispatch, start, total);
        whole = true;
    }
    restore_handlers();
    running = nullptr;
    report = nullptr;
    sigaltstack(&kept, nullptr);
    return whole;
}

} // namespace sterna_sim
