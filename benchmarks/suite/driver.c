/* Bare driver calls: what linking and launching cost with nothing in between.  Prints one JSON object.

   usage: driver CUBIN ENTRY ARGUMENT_BYTES SLOT...      (times in microseconds, minimum of ROUNDS) */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 200
#define CHECK(call) do { CUresult r = (call); if (r) { const char *s; cuGetErrorName(r, &s); \
    fprintf(stderr, "%s: %s\n", #call, s); exit(1); } } while (0)

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec * 1e-3; }
static double least(double a, double b) { return a < b ? a : b; }

int main(int argc, char **argv)
{
    FILE *f = fopen(argv[1], "rb");
    static char code[1 << 22], args[4096];
    size_t size = fread(code, 1, sizeof code - 1, f), bytes = (size_t)atol(argv[3]), got;
    double begin = now(), context, load = 1e9, each = 1e9, once = 1e9, get = 1e9, first = 1e9, launch = 1e9, sync = 1e9;
    CUdevice device; CUcontext ctx; CUmodule module; CUfunction function; CUdeviceptr memory, address;
    fclose(f);
    CHECK(cuInit(0)); CHECK(cuDeviceGet(&device, 0)); CHECK(cuDevicePrimaryCtxRetain(&ctx, device)); CHECK(cuCtxSetCurrent(ctx));
    context = now() - begin;
    CHECK(cuMemAlloc(&memory, 1 << 20)); CHECK(cuMemsetD8(memory, 0, 1 << 20));
    CUdeviceptr record; void *host; CHECK(cuMemHostAlloc(&host, 4096, 3)); memset(host, 0, 4096);
    CHECK(cuMemHostGetDevicePointer(&record, host, 0));
    for (size_t at = 0; at + 8 <= bytes; at += 8) memcpy(args + at, &memory, 8);
    if (bytes >= 24) memcpy(args + bytes - 24, &record, 8);
    void *params[] = {args};
    for (int round = 0; round < ROUNDS; ++round) {
        double t0 = now();
        CHECK(cuModuleLoadData(&module, code));
        double t1 = now();
        for (int n = 4; n < argc; ++n) {
            CHECK(cuModuleGetGlobal(&address, &got, module, argv[n]));
            CHECK(cuMemcpyHtoD(address, args, got));
        }
        double t2 = now();
        if (argc > 4) {
            static char block[1 << 16];
            CHECK(cuModuleGetGlobal(&address, &got, module, argv[4]));
            CHECK(cuMemcpyHtoD(address, block, 8));
        }
        double t3 = now();
        CHECK(cuModuleGetFunction(&function, module, argv[2]));
        double t4 = now();
        if (!getenv("NO_LAUNCH")) CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
        double t5 = now();
        CHECK(cuCtxSynchronize());
        load = least(load, t1 - t0); each = least(each, t2 - t1); once = least(once, t3 - t2);
        get = least(get, t4 - t3); first = least(first, t5 - t4);
        if (round + 1 < ROUNDS) CHECK(cuModuleUnload(module));
    }
    for (int round = 0; round < 50 && !getenv("NO_LAUNCH"); ++round) {
        double t0 = now();
        for (int n = 0; n < 200; ++n) CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
        launch = least(launch, (now() - t0) / 200);
        CHECK(cuCtxSynchronize());
        t0 = now();
        CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, params, 0)); CHECK(cuStreamSynchronize(0));
        sync = least(sync, now() - t0);
    }
    printf("{\"context\": %.1f, \"load\": %.2f, \"patch_each\": %.2f, \"patch_once\": %.2f, \"get_function\": %.2f, "
           "\"first_launch\": %.2f, \"launch\": %.3f, \"launch_and_wait\": %.2f, \"cubin\": %zu}\n",
           context, load, each, once, get, first, launch, sync, size);
    return 0;
}
