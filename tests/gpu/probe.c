/* SPDX-License-Identifier: MIT */
/*
 * Questions about a CUDA driver whose answers its manual does not give, or gives wrongly. Each
 * answer is a line of JSON, written at once: a result code, or a number. Questions that may end the
 * context, the process or the patience are asked in processes of their own.
 *
 * usage: probe [--json FILE] [GROUP...]
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/device/cuda_loader.h"
#include "tests/gpu/gpu.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
/* Answers that are no result of the driver. */
enum { ABSENT = -1, KILLED = -2 };

static FILE *out;
static const struct ferryi_cuda_driver *cu;
static ferryi_cu_context context;
static ferryi_cu_device device;
static ferryi_cu_stream stream, other;
static ferryi_cu_event event;
static ferryi_cu_pointer memory; /* a MiB of the device */
static char *pinned;             /* a MiB */

static void
answer(const char *question, long long value)
{
    fprintf(out, "{\"probe\": \"%s\", \"value\": %lld}\n", question, value);
    fflush(out);
}

static void
answer_at(const char *question, size_t at, long long value)
{
    char text[96];
    snprintf(text, sizeof(text), "%s-%zu", question, at);
    answer(text, value);
}

/* A driver call as a question. */
#define ASK(question, call, ...) answer((question), (long long)cu->call(__VA_ARGS__))
/* Of a group that the driver may lack. */
#define ASK_IN(group, question, call, ...)                                                         \
    answer((question), (cu->groups & (group)) ? (long long)cu->call(__VA_ARGS__) : ABSENT)

static void
settle(const char *question)
{
    ASK(question, cuStreamSynchronize, stream);
}

/* -- groups ------------------------------------------------------------------------------------ */

static void
attributes(void)
{
    int value = 0;
    answer("groups", cu->groups);
    ASK("driver-version", cuDriverGetVersion, &value);
    answer("driver-version-is", value);
    for (unsigned i = 1; i <= 150; i++) {
        value = 0;
        ferryi_cu_result result = cu->cuDeviceGetAttribute(&value, i, device);
        answer_at("attribute", i, result ? -(long long)result : value);
    }
}

/* The largest power of two that divides the address, up to 2 MiB. */
static size_t
alignment_of(const void *pointer)
{
    size_t bits = (uintptr_t)pointer | 2 * MIB;
    return bits & -bits;
}

static void
alignment(void)
{
    for (size_t bytes = 1; bytes <= 512 * KIB; bytes *= 2) {
        void *host[4] = {NULL};
        size_t least = 2 * MIB;
        for (int i = 0; i < 4; i++)
            if (cu->cuMemHostAlloc(&host[i], bytes, FERRYI_CU_MEMHOSTALLOC_PORTABLE) == 0 &&
                alignment_of(host[i]) < least)
                least = alignment_of(host[i]);
        for (int i = 0; i < 4; i++)
            cu->cuMemFreeHost(host[i]);
        answer_at("pinned-alignment", bytes, (long long)least);
    }
    for (size_t bytes = 1; bytes <= 4 * MIB; bytes *= 16) {
        ferryi_cu_pointer pointer = 0;
        size_t before = 0, after = 0, total;
        cu->cuMemGetInfo_v2(&before, &total);
        cu->cuMemAlloc_v2(&pointer, bytes);
        cu->cuMemGetInfo_v2(&after, &total);
        answer_at("device-alignment", bytes, (long long)alignment_of((void *)(uintptr_t)pointer));
        answer_at("device-bytes-gone", bytes, (long long)(before - after));
        cu->cuMemFree_v2(pointer);
    }
}

static void
allocation(void)
{
    void *host = NULL;
    ferryi_cu_pointer pointer = 0;
    ASK("pinned-of-no-bytes", cuMemHostAlloc, &host, 0, 1);
    ASK("pinned-of-2^50", cuMemHostAlloc, &host, (size_t)1 << 50, 1);
    ASK("pinned-of-2^63", cuMemHostAlloc, &host, (size_t)1 << 63, 1);
    ASK("device-of-no-bytes", cuMemAlloc_v2, &pointer, 0);
    ASK("device-of-2^50", cuMemAlloc_v2, &pointer, (size_t)1 << 50);
    ASK("managed-of-no-bytes", cuMemAllocManaged, &pointer, 0, 1);
    ASK("managed-of-2^50", cuMemAllocManaged, &pointer, (size_t)1 << 50, 1);
    ASK("free-inside-device", cuMemFree_v2, memory + 256);
    ASK("free-inside-pinned", cuMemFreeHost, pinned + 256);
    ASK("free-of-null", cuMemFree_v2, 0);
}

static void
registration(void)
{
    char *pages = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *constant = mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *gone = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int self = open("/proc/self/exe", O_RDONLY);
    char *file = mmap(NULL, 4 * KIB, PROT_READ, MAP_PRIVATE, self, 0);
    munmap(gone, MIB);
    ASK("register", cuMemHostRegister_v2, pages, MIB, 1);
    ASK("register-twice", cuMemHostRegister_v2, pages, MIB, 1);
    ASK("register-inside", cuMemHostRegister_v2, pages + 64 * KIB, 4 * KIB, 1);
    ASK("register-adjacent", cuMemHostRegister_v2, pages + MIB, MIB, 1);
    ASK("register-unaligned", cuMemHostRegister_v2, pages + 3 * MIB + 100, 1000, 1);
    ASK("register-same-page", cuMemHostRegister_v2, pages + 3 * MIB + 2000, 100, 1);
    ASK("register-half-unmapped", cuMemHostRegister_v2, gone - 4 * KIB, 8 * KIB, 1);
    ASK("register-unmapped", cuMemHostRegister_v2, gone, MIB, 1);
    ASK("register-read-only", cuMemHostRegister_v2, constant, MIB, 1);
    ASK("register-file", cuMemHostRegister_v2, file, 4 * KIB, 1);
    ASK("register-pinned", cuMemHostRegister_v2, pinned, 4 * KIB, 1);
    ASK("upload-across-two-registered", cuMemcpyHtoDAsync_v2, memory, pages + MIB / 2, MIB, stream);
    settle("upload-across-two-registered-settles");
    ASK("upload-half-registered", cuMemcpyHtoDAsync_v2, memory, pages + 2 * MIB - 4 * KIB, 8 * KIB,
        stream);
    settle("upload-half-registered-settles");
    ASK("unregister-inside", cuMemHostUnregister, pages + 4 * KIB);
    ASK("unregister-pinned", cuMemHostUnregister, pinned);
    ASK("unregister-unknown", cuMemHostUnregister, pages + 6 * MIB);
    ASK("unregister", cuMemHostUnregister, pages);
}

static ferryi_cu_result
submit(ferryi_cu_pointer target, const void *source, size_t bytes, size_t count, size_t step,
       ferryi_cu_stream on)
{
    ferryi_cu_pointer *targets = calloc(count + 1, sizeof(*targets)),
                      *sources = calloc(count + 1, sizeof(*sources));
    size_t *lengths = calloc(count + 1, sizeof(*lengths)), first = 0, failed = 0;
    struct ferryi_cu_copy_attributes attributes = {.source_access_order =
                                                       FERRYI_CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    for (size_t i = 0; i < count; i++) {
        targets[i] = target + i * step;
        sources[i] = (uintptr_t)source + i * step;
        lengths[i] = bytes;
    }
    ferryi_cu_result result = (cu->groups & FERRYI_CUDA_BATCH_13)
                                  ? cu->cuMemcpyBatchAsync_v2(targets, sources, lengths, count,
                                                              &attributes, &first, 1, on)
                                  : cu->cuMemcpyBatchAsync(targets, sources, lengths, count,
                                                           &attributes, &first, 1, &failed, on);
    free(targets);
    free(sources);
    free(lengths);
    return result;
}

#define ASK_BATCH(question, ...)                                                                   \
    answer((question), (cu->groups & (FERRYI_CUDA_BATCH_12_8 | FERRYI_CUDA_BATCH_13))              \
                           ? (long long)submit(__VA_ARGS__)                                        \
                           : ABSENT)

static void
batches(void)
{
    static char pageable[64 * 1024];
    ferryi_cu_pointer managed = 0;
    ASK_BATCH("batch-of-none", memory, pinned, 16, 0, 64, stream);
    ASK_BATCH("batch-of-no-bytes", memory, pinned, 0, 2, 64, stream);
    ASK_BATCH("batch-on-legacy", memory, pinned, 16, 2, 64, FERRYI_CU_STREAM_LEGACY);
    ASK_BATCH("batch-on-per-thread", memory, pinned, 16, 2, 64, FERRYI_CU_STREAM_PER_THREAD);
    ASK_BATCH("batch-pageable", memory, pageable, 16, 100, 64, stream);
    ASK_BATCH("batch-overlapping", memory, pinned, 64, 100, 16, stream);
    ASK_BATCH("batch-of-1024", memory, pinned, 16, 1024, 64, stream);
    ASK_BATCH("batch-of-16384", memory, pinned, 16, 16384, 64, stream);
    settle("batches-settle");
    if (cu->cuMemAllocManaged(&managed, MIB, 1) == 0) {
        ASK_BATCH("batch-managed", managed, pinned, 16, 100, 64, stream);
        settle("batch-managed-settles");
    }
}

static void
batch_registered(void)
{
    char *pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASK("batch-register", cuMemHostRegister_v2, pages, MIB, 1);
    ASK_BATCH("batch-registered", memory, pages, 16, 100, 64, stream);
    settle("batch-registered-settles");
    ASK("batch-register-half", cuMemHostUnregister, pages);
    ASK("batch-register-half-again", cuMemHostRegister_v2, pages, MIB / 2, 1);
    ASK_BATCH("batch-half-registered", memory, pages, 16, 16000, 64, stream);
    settle("batch-half-registered-settles");
}

static void
batch_huge(void)
{
    ASK_BATCH("batch-of-65536", memory, pinned, 8, 65536, 16, stream);
    settle("batch-of-65536-settles");
}

static int (*begin_capture)(ferryi_cu_stream, int), (*end_capture)(ferryi_cu_stream, void **);

/* Each call while a capture of another stream goes on, and whether the capture outlives it. */
static void
in_capture(int mode, const char *question, ferryi_cu_result (*call)(void))
{
    static const char *const modes[] = {"global", "thread", "relaxed"};
    char text[96];
    ferryi_cu_capture_status status = 0;
    void *graph = NULL;
    if (begin_capture(other, mode) != 0)
        return;
    snprintf(text, sizeof(text), "%s-in-%s-capture", question, modes[mode]);
    answer(text, (long long)call());
    cu->cuStreamIsCapturing(other, &status);
    snprintf(text, sizeof(text), "%s-in-%s-capture-leaves", question, modes[mode]);
    answer(text, status);
    end_capture(other, &graph);
}

static ferryi_cu_result
call_alloc(void)
{
    ferryi_cu_pointer p;
    return cu->cuMemAlloc_v2(&p, 256);
}
static ferryi_cu_result
call_host_alloc(void)
{
    void *p;
    return cu->cuMemHostAlloc(&p, 256, 1);
}
static ferryi_cu_result
call_query(void)
{
    return cu->cuEventQuery(event);
}
static ferryi_cu_result
call_record(void)
{
    return cu->cuEventRecord(event, stream);
}
static ferryi_cu_result
call_synchronize(void)
{
    return cu->cuStreamSynchronize(stream);
}
static ferryi_cu_result
call_context(void)
{
    return cu->cuCtxSynchronize();
}
static ferryi_cu_result
call_info(void)
{
    size_t a, b;
    return cu->cuMemGetInfo_v2(&a, &b);
}
static ferryi_cu_result
call_upload(void)
{
    return cu->cuMemcpyHtoDAsync_v2(memory, pinned, 256, stream);
}
static ferryi_cu_result
call_legacy(void)
{
    return cu->cuMemsetD8Async(memory, 0, 256, FERRYI_CU_STREAM_LEGACY);
}
static ferryi_cu_result
call_captured(void)
{
    return cu->cuMemcpyHtoDAsync_v2(memory, pinned, 256, other);
}
static ferryi_cu_result
call_stream(void)
{
    ferryi_cu_stream s;
    return cu->cuStreamCreate(&s, 1);
}
static ferryi_cu_result
call_batch(void)
{
    return submit(memory, pinned, 16, 4, 64, other);
}

static void
captures(void)
{
    static const struct {
        const char *name;
        ferryi_cu_result (*call)(void);
    } calls[] = {{"alloc", call_alloc},
                 {"host-alloc", call_host_alloc},
                 {"event-query", call_query},
                 {"event-record", call_record},
                 {"synchronize", call_synchronize},
                 {"context-synchronize", call_context},
                 {"info", call_info},
                 {"upload", call_upload},
                 {"legacy-fill", call_legacy},
                 {"captured-upload", call_captured},
                 {"stream-create", call_stream},
                 {"captured-batch", call_batch}};
    if (!begin_capture || !end_capture) {
        answer("captures", ABSENT);
        return;
    }
    for (int mode = 0; mode <= 2; mode++)
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
            in_capture(mode, calls[i].name, calls[i].call);
}

/* A kernel that spins for as many milliseconds, and one with 32 KiB of its own shared memory. */
static const char ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry probe_spin(.param .u64 ms) {\n.reg .pred %p;\n.reg .u64 %a, %b, %c;\n"
    "ld.param.u64 %c, [ms];\nmul.lo.u64 %c, %c, 1000000;\nmov.u64 %a, %globaltimer;\n"
    "again:\nmov.u64 %b, %globaltimer;\nsub.u64 %b, %b, %a;\nsetp.lt.u64 %p, %b, %c;\n@%p bra "
    "again;\nret;\n}\n"
    ".visible .entry probe_shared() {\n.reg .u32 %r;\n.shared .align 4 .b8 own[32768];\n"
    "mov.u32 %r, own;\nst.shared.u32 [%r], 1;\nret;\n}\n"
    ".visible .entry probe_fault() {\n.reg .u64 %a;\nmov.u64 %a, 64;\nst.global.u32 [%a], "
    "1;\nret;\n}\n";

static ferryi_cu_function
function_of(const char *name)
{
    static ferryi_cu_module module;
    ferryi_cu_function function = NULL;
    if (!module)
        ASK("load-ptx", cuModuleLoadDataEx, &module, ptx, 0, NULL, NULL);
    cu->cuModuleGetFunction(&function, module, name);
    return function;
}

static long long
start(ferryi_cu_function function, unsigned blocks_x, unsigned blocks_y, unsigned threads_x,
      unsigned threads_z, unsigned shared, void **arguments)
{
    return (long long)cu->cuLaunchKernel(function, blocks_x, blocks_y, 1, threads_x, 1, threads_z,
                                         shared, stream, arguments, NULL);
}

static void
launches(void)
{
    uint64_t none = 0;
    void *arguments[] = {&none};
    ferryi_cu_function spin = function_of("probe_spin"), shared = function_of("probe_shared");
    int value = 0;
    answer("launch", start(spin, 1, 1, 32, 1, 0, arguments));
    answer("launch-grid-y-65536", start(spin, 1, 65536, 1, 1, 0, arguments));
    answer("launch-block-z-128", start(spin, 1, 1, 1, 128, 0, arguments));
    answer("launch-threads-2048", start(spin, 1, 1, 2048, 1, 0, arguments));
    answer("launch-no-blocks", start(spin, 0, 1, 32, 1, 0, arguments));
    answer("launch-dynamic-48K", start(spin, 1, 1, 32, 1, 48 << 10, arguments));
    answer("launch-dynamic-49K", start(spin, 1, 1, 32, 1, 49 << 10, arguments));
    ASK("shared-static", cuFuncGetAttribute, &value, 1, shared);
    answer("shared-static-is", value);
    ASK("shared-dynamic-allowed", cuFuncGetAttribute, &value, 8, shared);
    answer("shared-dynamic-allowed-is", value);
    answer("launch-static-32K-dynamic-16K", start(shared, 1, 1, 32, 1, 16 << 10, NULL));
    answer("launch-static-32K-dynamic-24K", start(shared, 1, 1, 32, 1, 24 << 10, NULL));
    ASK("allow-24K", cuFuncSetAttribute, shared, 8, 24 << 10);
    answer("launch-static-32K-dynamic-24K-allowed", start(shared, 1, 1, 32, 1, 24 << 10, NULL));
    ASK("allow-227K", cuFuncSetAttribute, shared, 8, 227 << 10);
    ASK("allow-195K", cuFuncSetAttribute, shared, 8, 195 << 10);
    settle("launches-settle");
}

static void
modules(void)
{
    static const char *const texts[] = {
        "",
        ".version 99.0\n.target sm_50\n.address_size 64\n.visible .entry f() { ret; }\n",
        ".version 6.0\n.target sm_999\n.address_size 64\n.visible .entry f() { ret; }\n",
        ".version 6.0\n.target sm_50\n.visible .entry f(.param .u64 a) { ret; }\n",
        ".version 6.0\n.target sm_50\n.address_size 64\n",
        ".version 6.0\n.target sm_50\n.address_size 64\nnonsense\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ferryi_cu_module module;
        answer_at("load-odd-ptx", i,
                  (long long)cu->cuModuleLoadDataEx(&module, texts[i], 0, NULL, NULL));
    }
}

static void
copies(void)
{
    static char pageable[4096];
    int pitch = 0;
    ferryi_cu_context popped;
    ferryi_cu_stream brief;
    cu->cuDeviceGetAttribute(&pitch, 11, device);
    for (int more = 0; more < 2; more++) {
        const struct ferryi_cu_copy_2d rows = {.source_type = FERRYI_CU_MEMORYTYPE_HOST,
                                               .source_host = pinned,
                                               .source_pitch = (size_t)pitch + (size_t)more,
                                               .target_type = FERRYI_CU_MEMORYTYPE_DEVICE,
                                               .target_device = memory,
                                               .target_pitch = 64,
                                               .width_bytes = 64,
                                               .height = 1};
        answer_at("rows-beyond-the-pitch", (size_t)more,
                  (long long)cu->cuMemcpy2DAsync_v2(&rows, stream));
    }
    ASK("fill-unaligned", cuMemsetD32Async, memory + 1, 0, 4, stream);
    ASK("upload-beyond-the-block", cuMemcpyHtoDAsync_v2, memory + MIB - 8, pinned, 16, stream);
    ASK("upload-to-nowhere", cuMemcpyHtoDAsync_v2, 64, pinned, 16, stream);
    ASK("upload-pageable", cuMemcpyHtoDAsync_v2, memory, pageable, sizeof(pageable), stream);
    ASK("fill-pinned", cuMemsetD32Async, (uintptr_t)pinned, 0, 4, stream);
    ASK("peer-of-itself", cuCtxEnablePeerAccess, context, 0);
    ASK_IN(FERRYI_CUDA_PREFETCH_8, "prefetch-device-memory", cuMemPrefetchAsync, memory, MIB,
           device, stream);
    ASK_IN(FERRYI_CUDA_PREFETCH_8, "advise-device-memory", cuMemAdvise, memory, MIB, 1, device);
    ASK("destroy-busy-stream", cuStreamCreate, &brief, 1);
    cu->cuMemcpyHtoDAsync_v2(memory, pinned, MIB, brief);
    ASK("destroy-busy-stream-ends", cuStreamDestroy_v2, brief);
    settle("copies-settle");
    ASK("pop", cuCtxPopCurrent_v2, &popped);
    ASK("pop-of-nothing", cuCtxPopCurrent_v2, &popped);
    ASK("record-without-context", cuEventRecord, event, stream);
    ASK("push-again", cuCtxPushCurrent_v2, context);
}

static _Atomic int order[2], moment;

static void
host_function(void *user)
{
    *(_Atomic int *)user = ++moment;
}

/* Launches until one takes a millisecond: then the queue is full. */
static void
queue(void)
{
    uint64_t ms = 200, none = 0;
    void *wait[] = {&ms}, *go[] = {&none};
    ferryi_cu_function spin = function_of("probe_spin");
    long long depth = 0;
    start(spin, 1, 1, 1, 1, 0, wait);
    for (; depth < 4096; depth++) {
        uint64_t begun = ferryi_now_ns();
        if (start(spin, 1, 1, 1, 1, 0, go) != 0 || ferryi_now_ns() - begun > 1000000)
            break;
    }
    answer("launches-before-one-blocks", depth);
    settle("queue-settles");
    ASK("host-function", cuLaunchHostFunc, stream, host_function, (void *)&order[0]);
    ASK("host-function-other", cuLaunchHostFunc, other, host_function, (void *)&order[1]);
    settle("host-function-settles");
    ASK("host-function-other-settles", cuStreamSynchronize, other);
    answer("host-function-order", order[0] < order[1]);
}

static void
fault(void)
{
    ferryi_cu_pointer pointer;
    answer("fault-launch", start(function_of("probe_fault"), 1, 1, 1, 1, 0, NULL));
    settle("fault-settles");
    ASK("fault-then-query", cuEventQuery, event);
    ASK("fault-then-alloc", cuMemAlloc_v2, &pointer, 256);
    ASK("fault-then-free", cuMemFree_v2, memory);
    ASK("fault-then-free-host", cuMemFreeHost, pinned);
    ASK("fault-then-destroy", cuStreamDestroy_v2, stream);
    ASK("fault-then-release", cuDevicePrimaryCtxRelease_v2, device);
    ASK("fault-then-retain", cuDevicePrimaryCtxRetain, &context, device);
    ASK("fault-then-push", cuCtxPushCurrent_v2, context);
    ASK("fault-then-alloc-again", cuMemAlloc_v2, &pointer, 256);
}

static void
from_null(void)
{
    ASK("upload-from-null", cuMemcpyHtoDAsync_v2, memory, NULL, 16, stream);
    settle("upload-from-null-settles");
}

static void
forked(void)
{
    pid_t child = fork();
    int status = 0;
    if (child == 0)
        _exit((int)cu->cuCtxSynchronize() & 127);
    waitpid(child, &status, 0);
    answer("call-in-a-child", WIFEXITED(status) ? WEXITSTATUS(status) : KILLED);
}

static const struct group {
    const char *name;
    void (*ask)(void);
} groups[] = {
    {"attributes", attributes},
    {"alignment", alignment},
    {"allocation", allocation},
    {"registration", registration},
    {"batches", batches},
    {"captures", captures},
    {"launches", launches},
    {"modules", modules},
    {"copies", copies},
    {"queue", queue},
    {"forked", forked},
    /* These may end the process or the device. */
    {"batch-registered", batch_registered},
    {"batch-huge", batch_huge},
    {"from-null", from_null},
    {"fault", fault},
};

/* -- running them ------------------------------------------------------------------------------ */

static void
spin_body(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)grid, (void)block;
    usleep((useconds_t)(1000 * *(uint64_t *)parameters[0]));
}

static void
no_body(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)parameters, (void)grid, (void)block;
}

static bool
open_driver(void)
{
    const char *name = ferryi_getenv("FERRY_CUDA_LIBRARY");
    void *library = ferryi_library_open(name ? name : "libcuda.so.1", NULL, 0);
    if (!library || ferryi_cuda_driver_get(&cu) != FERRY_OK) {
        fprintf(stderr, "probe: %s\n", ferry_last_error());
        return false;
    }
    *(void **)&begin_capture = ferryi_library_symbol(library, "cuStreamBeginCapture_v2");
    *(void **)&end_capture = ferryi_library_symbol(library, "cuStreamEndCapture");
    gpu_give_kernel("probe_spin", spin_body, 1, (size_t[]){sizeof(uint64_t)});
    gpu_give_kernel("probe_shared", no_body, 0, NULL);
    gpu_give_kernel("probe_fault", no_body, 0, NULL);
    return cu->cuDeviceGet(&device, 0) == 0 &&
           cu->cuDevicePrimaryCtxRetain(&context, device) == 0 &&
           cu->cuCtxPushCurrent_v2(context) == 0 &&
           cu->cuStreamCreate(&stream, FERRYI_CU_STREAM_NON_BLOCKING) == 0 &&
           cu->cuStreamCreate(&other, FERRYI_CU_STREAM_NON_BLOCKING) == 0 &&
           cu->cuEventCreate(&event, FERRYI_CU_EVENT_DISABLE_TIMING) == 0 &&
           cu->cuMemAlloc_v2(&memory, MIB) == 0 &&
           cu->cuMemHostAlloc((void **)&pinned, MIB, FERRYI_CU_MEMHOSTALLOC_PORTABLE) == 0;
}

/* In a process that has not used the driver before, for ten seconds at most. False: the driver
 * could not be opened. */
static bool
run_group(const struct group *group)
{
    int status = 0;
    fflush(out);
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        if (!open_driver())
            _exit(77);
        group->ask();
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        char text[96];
        snprintf(text, sizeof(text), "group-%s-ended-by", group->name);
        answer(text, WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status));
    }
    return !WIFEXITED(status) || WEXITSTATUS(status) != 77;
}

static bool
is_wanted(const char *name, char **names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

int
main(int argc, char **argv)
{
    bool opened = true;
    int first = argc > 2 && strcmp(argv[1], "--json") == 0 ? 3 : 1;
    out = first == 3 ? fopen(argv[2], "w") : stdout;
    if (!out) {
        perror(argv[2]);
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (is_wanted(groups[i].name, argv + first, argc - first))
            opened = run_group(&groups[i]) && opened;
    return fclose(out) == 0 && opened ? EXIT_SUCCESS : 77;
}
