/* SPDX-License-Identifier: MIT */
/* Probes how the CUDA driver behaves in copies and fills. */
#include <stdio.h>
#include <sys/mman.h>

#include "tests/gpu/probe.h"

/* Submits a batch as probe_submit() does. The driver may read the sources until a moment that
 * `access_order` names. */
static ferryi_gpu_result
submit(int access_order, ferryi_gpu_pointer target, const void *source, size_t bytes, size_t count,
       size_t step, ferryi_gpu_stream on)
{
    ferryi_gpu_pointer *targets = calloc(count + 1, sizeof(*targets)),
                       *sources = calloc(count + 1, sizeof(*sources));
    size_t *lengths = calloc(count + 1, sizeof(*lengths)), first = 0, failed = 0;
    struct ferryi_gpu_copy_attributes attributes = {.source_access_order = access_order};
    for (size_t i = 0; i < count; i++) {
        targets[i] = target + i * step;
        sources[i] = (uintptr_t)source + i * step;
        lengths[i] = bytes;
    }
    ferryi_gpu_result result =
        (cu->groups & FERRYI_GPU_BATCH_2)
            ? cu->copy_batch_2(targets, sources, lengths, count, &attributes, &first, 1, on)
            : cu->copy_batch(targets, sources, lengths, count, &attributes, &first, 1, &failed, on);
    free(targets);
    free(sources);
    free(lengths);
    return result;
}

ferryi_gpu_result
probe_submit(ferryi_gpu_pointer target, const void *source, size_t bytes, size_t count, size_t step,
             ferryi_gpu_stream on)
{
    return submit(FERRYI_GPU_MEMCPY_SRC_ACCESS_ORDER_STREAM, target, source, bytes, count, step,
                  on);
}

void
probe_batches(void)
{
    static char pageable[64 * 1024];
    ferryi_gpu_pointer managed = 0;
    ASK_BATCH("batch-of-none", memory, pinned, 16, 0, 64, stream);
    ASK_BATCH("batch-of-no-bytes", memory, pinned, 0, 2, 64, stream);
    ASK_BATCH("batch-on-legacy", memory, pinned, 16, 2, 64, FERRYI_CU_STREAM_LEGACY);
    ASK_BATCH("batch-on-per-thread", memory, pinned, 16, 2, 64, FERRYI_CU_STREAM_PER_THREAD);
    ASK_BATCH("batch-pageable", memory, pageable, 16, 100, 64, stream);
    ASK_BATCH("batch-overlapping", memory, pinned, 64, 100, 16, stream);
    ASK_BATCH("batch-of-two-no-bytes", memory, pinned, 0, 2, 0, stream);
    ASK_BATCH("batch-to-itself", memory, (const void *)(uintptr_t)memory, 16, 4, 64, stream);
    ASK_BATCH("batch-of-4096", memory, pinned, 16, 4096, 64, stream);
    ASK_BATCH("batch-of-1024", memory, pinned, 16, 1024, 64, stream);
    ASK_BATCH("batch-of-16384", memory, pinned, 16, 16384, 64, stream);
    settle("batches-settle");
    if (cu->managed_alloc(&managed, MIB, 1) == 0) {
        ASK_BATCH("batch-managed", managed, pinned, 16, 100, 64, stream);
        settle("batch-managed-settles");
    }
}

void
probe_batch_registered(void)
{
    char *pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASK("batch-register", host_register, pages, MIB, 1);
    ASK_BATCH("batch-registered", memory, pages, 16, 100, 64, stream);
    settle("batch-registered-settles");
    ASK("batch-register-half", host_unregister, pages);
    ASK("batch-register-half-again", host_register, pages, MIB / 2, 1);
    ASK_BATCH("batch-half-registered", memory, pages, 16, 16000, 64, stream);
    settle("batch-half-registered-settles");
}

void
probe_batch_huge(void)
{
    ASK_BATCH("batch-of-65536", memory, pinned, 8, 65536, 16, stream);
    settle("batch-of-65536-settles");
}

void
probe_copies(void)
{
    static char pageable[4096];
    int pitch = 0;
    ferryi_gpu_context popped;
    ferryi_gpu_stream brief;
    cu->device_attribute(&pitch, 11, device);
    for (int more = 0; more < 2; more++) {
        const struct ferryi_gpu_copy_2d rows = {.source_type = FERRYI_GPU_MEMORYTYPE_HOST,
                                                .source_host = pinned,
                                                .source_pitch = (size_t)pitch + (size_t)more,
                                                .target_type = FERRYI_GPU_MEMORYTYPE_DEVICE,
                                                .target_device = memory,
                                                .target_pitch = 64,
                                                .width_bytes = 64,
                                                .height = 1};
        answer_at("rows-beyond-the-pitch", (size_t)more, (long long)cu->copy_2d(&rows, stream));
    }
    ASK("fill-unaligned", fill_32, memory + 1, 0, 4, stream);
    ASK("upload-pageable", upload, memory, pageable, sizeof(pageable), stream);
    ASK("fill-pinned", fill_32, (uintptr_t)pinned, 0, 4, stream);
    ASK("peer-of-itself", peer_enable, context, 0);
    ASK_IN(FERRYI_GPU_PREFETCH, "prefetch-device-memory", prefetch, memory, MIB, device, stream);
    ASK_IN(FERRYI_GPU_PREFETCH, "advise-device-memory", advise, memory, MIB, 1, device);
    ASK("destroy-busy-stream", stream_create, &brief, 1);
    cu->upload(memory, pinned, MIB, brief);
    ASK("destroy-busy-stream-ends", stream_destroy, brief);
    settle("copies-settle");
    ASK("pop", context_pop, &popped);
    ASK("pop-of-nothing", context_pop, &popped);
    ASK("record-without-context", event_record, event, stream);
    ASK("push-again", context_push, context);
}

static ferryi_gpu_result
copy_rows(size_t pitch, size_t width, size_t height)
{
    const struct ferryi_gpu_copy_2d rows = {.source_type = FERRYI_GPU_MEMORYTYPE_HOST,
                                            .source_host = pinned,
                                            .source_pitch = pitch,
                                            .target_type = FERRYI_GPU_MEMORYTYPE_DEVICE,
                                            .target_device = memory,
                                            .target_pitch = 64,
                                            .width_bytes = width,
                                            .height = height};
    return cu->copy_2d(&rows, stream);
}

void
probe_rows(void)
{
    answer("rows", copy_rows(128, 64, 16));
    answer("rows-wider-than-their-pitch", copy_rows(32, 64, 16));
    answer("rows-wider-than-the-target-pitch", copy_rows(128, 96, 16));
    answer("rows-of-no-bytes", copy_rows(128, 0, 16));
    answer("rows-of-none", copy_rows(128, 64, 0));
    answer("rows-without-pitch", copy_rows(0, 64, 1));
    settle("rows-settle");
}

/* Makes `stream` busy for BUSY_MS milliseconds. Returns the time in nanoseconds. */
enum { BUSY_MS = 100 };

static uint64_t
keep_busy(void)
{
    uint64_t ms = BUSY_MS;
    void *arguments[] = {&ms};
    (void)cu->stream_synchronize(stream);
    probe_start(probe_function_of("probe_spin"), 1, 1, 1, 1, 0, arguments);
    return ferryi_now_ns();
}

/* Records the result of a copy that began at `begun` behind a kernel, and whether the call waited
 * for that kernel. */
static void
answer_behind(const char *kind, size_t bytes, ferryi_gpu_result result, uint64_t begun)
{
    const bool waited = ferryi_now_ns() - begun > BUSY_MS * 1000000ull / 2;
    char text[96];
    snprintf(text, sizeof(text), "%s-behind-a-kernel-%zu", kind, bytes);
    answer(text, (long long)result);
    snprintf(text, sizeof(text), "%s-behind-a-kernel-waits-%zu", kind, bytes);
    answer(text, waited);
}

/* Asks which copies of pageable memory return before the stream has come to them: plain uploads,
 * and batches of one copy whose source the driver may read during the call alone. */
void
probe_behind_a_kernel(void)
{
    static const size_t sizes[] = {64, 4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 64 * KIB + 4, MIB};
    enum { DURING_API_CALL = 2 }; /* CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL */
    static char pageable[MIB];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint64_t begun = keep_busy();
        answer_behind("pageable-upload", sizes[i], cu->upload(memory, pageable, sizes[i], stream),
                      begun);
        begun = keep_busy();
        answer_behind("pinned-upload", sizes[i], cu->upload(memory, pinned, sizes[i], stream),
                      begun);
        if (!(cu->groups & (FERRYI_GPU_BATCH | FERRYI_GPU_BATCH_2)))
            continue;
        begun = keep_busy();
        answer_behind("batched-upload", sizes[i],
                      submit(DURING_API_CALL, memory, pageable, sizes[i], 1, 0, stream), begun);
    }
    settle("behind-a-kernel-settles");
}

/* Probes fills, and copies of zero bytes. */
void
probe_fills(void)
{
    ASK("fill", fill_8, memory, 1, 256, stream);
    ASK("fill-16-unaligned", fill_16, memory + 1, 1, 4, stream);
    ASK("fill-nothing", fill_8, memory, 1, 0, stream);
    ASK("upload-nothing", upload, memory, pinned, 0, stream);
    ASK("download-nothing", download, pinned, memory, 0, stream);
    ASK("copy-nothing", copy, memory, memory, 0, stream);
    ASK("copy-to-itself", copy, memory, memory, 256, stream);
    ASK("copy-overlapping", copy, memory + 64, memory, 256, stream);
    ASK("copy-to-the-same-device-as-a-peer", copy_peer, memory + 512, context, memory, context, 256,
        stream);
    ASK("copy-with-a-host-address", copy, memory, (uintptr_t)pinned, 256, stream);
    settle("fills-settle");
}

/* Probes copies to addresses that the program does not own. Either the driver refuses the call, or
 * the device reports a fault later. */
void
probe_upload_beyond(void)
{
    ASK("upload-beyond-the-block", upload, memory + MIB - 8, pinned, 16, stream);
    settle("upload-beyond-the-block-settles");
}

void
probe_upload_to_nowhere(void)
{
    ASK("upload-to-nowhere", upload, 64, pinned, 16, stream);
    settle("upload-to-nowhere-settles");
}

void
probe_batch_to_nowhere(void)
{
    ASK_BATCH("batch-to-nowhere", 64, pinned, 16, 1, 64, stream);
    settle("batch-to-nowhere-settles");
}

void
probe_fill_of_null(void)
{
    ASK("fill-of-null", fill_8, 0, 1, 16, stream);
    settle("fill-of-null-settles");
}

void
probe_fill_beyond(void)
{
    ASK("fill-beyond-the-block", fill_8, memory + MIB - 8, 1, 16, stream);
    settle("fill-beyond-the-block-settles");
}
