/* SPDX-License-Identifier: MIT */
/* Probes how the CUDA driver allocates memory and registers host memory. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/gpu/probe.h"

/* Returns the largest power of two, up to 2 MiB, that divides the address. */
static size_t
alignment_of(const void *pointer)
{
    size_t bits = (uintptr_t)pointer | 2 * MIB;
    return bits & -bits;
}

void
probe_alignment(void)
{
    for (size_t bytes = 1; bytes <= 512 * KIB; bytes *= 2) {
        void *host[4] = {NULL};
        size_t least = 2 * MIB;
        for (int i = 0; i < 4; i++)
            if (cu->host_alloc(&host[i], bytes, FERRYI_GPU_MEMHOSTALLOC_PORTABLE) == 0 &&
                alignment_of(host[i]) < least)
                least = alignment_of(host[i]);
        for (int i = 0; i < 4; i++)
            cu->host_free(host[i]);
        answer_at("pinned-alignment", bytes, (long long)least);
    }
    for (size_t bytes = 1; bytes <= 4 * MIB; bytes *= 16) {
        ferryi_gpu_pointer pointer = 0;
        size_t before = 0, after = 0, total;
        cu->memory_info(&before, &total);
        cu->memory_alloc(&pointer, bytes);
        cu->memory_info(&after, &total);
        answer_at("device-alignment", bytes, (long long)alignment_of((void *)(uintptr_t)pointer));
        answer_at("device-bytes-gone", bytes, (long long)(before - after));
        cu->memory_free(pointer);
    }
}

void
probe_allocation(void)
{
    void *host = NULL;
    ferryi_gpu_pointer pointer = 0;
    ASK("pinned-of-no-bytes", host_alloc, &host, 0, 1);
    ASK("pinned-of-2^50", host_alloc, &host, (size_t)1 << 50, 1);
    ASK("pinned-of-2^63", host_alloc, &host, (size_t)1 << 63, 1);
    ASK("device-of-no-bytes", memory_alloc, &pointer, 0);
    ASK("device-of-2^50", memory_alloc, &pointer, (size_t)1 << 50);
    ASK("managed-of-no-bytes", managed_alloc, &pointer, 0, 1);
    ASK("managed-of-2^50", managed_alloc, &pointer, (size_t)1 << 50, 1);
    ASK("free-inside-device", memory_free, memory + 256);
    ASK("free-inside-pinned", host_free, pinned + 256);
    ASK("free-of-null", memory_free, 0);
    ASK("free-host-of-null", host_free, NULL);
    ASK("free-device-as-host", host_free, (void *)(uintptr_t)memory);
    ASK("free-pinned-as-device", memory_free, (uintptr_t)pinned);
    ASK("pinned-with-unknown-flags", host_alloc, &host, 256, 1 << 20);
}

void
probe_registration(void)
{
    char *pages = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *constant = mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *gone = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int self = open("/proc/self/exe", O_RDONLY);
    char *file = mmap(NULL, 4 * KIB, PROT_READ, MAP_PRIVATE, self, 0);
    munmap(gone, MIB);
    ASK("register-no-bytes", host_register, pages + 5 * MIB, 0, 1);
    ASK("register-null", host_register, NULL, 4 * KIB, 1);
    ASK("register-device-memory", host_register, (void *)(uintptr_t)memory, 4 * KIB, 1);
    ASK("register-unknown-flags", host_register, pages + 5 * MIB, 4 * KIB, 1 << 20);
    ASK("register", host_register, pages, MIB, 1);
    ASK("register-twice", host_register, pages, MIB, 1);
    ASK("register-inside", host_register, pages + 64 * KIB, 4 * KIB, 1);
    ASK("register-adjacent", host_register, pages + MIB, MIB, 1);
    ASK("register-unaligned", host_register, pages + 3 * MIB + 100, 1000, 1);
    ASK("register-same-page", host_register, pages + 3 * MIB + 2000, 100, 1);
    ASK("register-half-unmapped", host_register, gone - 4 * KIB, 8 * KIB, 1);
    ASK("register-unmapped", host_register, gone, MIB, 1);
    ASK("register-read-only", host_register, constant, MIB, 1);
    ASK("register-file", host_register, file, 4 * KIB, 1);
    ASK("register-pinned", host_register, pinned, 4 * KIB, 1);
    ASK("upload-across-two-registered", upload, memory, pages + MIB / 2, MIB, stream);
    settle("upload-across-two-registered-settles");
    ASK("upload-half-registered", upload, memory, pages + 2 * MIB - 4 * KIB, 8 * KIB, stream);
    settle("upload-half-registered-settles");
    ASK("unregister-inside", host_unregister, pages + 4 * KIB);
    ASK("unregister-pinned", host_unregister, pinned);
    ASK("unregister-unknown", host_unregister, pages + 6 * MIB);
    ASK("unregister", host_unregister, pages);
    ASK("unregister-twice", host_unregister, pages);
    ASK("unregister-null", host_unregister, NULL);
}

/* Probes managed memory, whose pages the driver moves between host and device. */
void
probe_managed(void)
{
    ferryi_gpu_pointer managed = 0;
    const struct ferryi_gpu_location nowhere = {FERRYI_GPU_MEM_LOCATION_TYPE_DEVICE, 1000},
                                     host = {FERRYI_GPU_MEM_LOCATION_TYPE_HOST, 0},
                                     here = {FERRYI_GPU_MEM_LOCATION_TYPE_DEVICE, device};
    ASK("managed-with-no-flags", managed_alloc, &managed, MIB, 0);
    ASK("managed", managed_alloc, &managed, MIB, FERRYI_GPU_MEM_ATTACH_GLOBAL);
    ASK_IN(FERRYI_GPU_PREFETCH_2, "prefetch-to-the-host", prefetch_2, managed, MIB, host, 0,
           stream);
    ASK_IN(FERRYI_GPU_PREFETCH_2, "prefetch-to-the-device", prefetch_2, managed, MIB, here, 0,
           stream);
    ASK_IN(FERRYI_GPU_PREFETCH_2, "prefetch-to-nowhere", prefetch_2, managed, MIB, nowhere, 0,
           stream);
    ASK_IN(FERRYI_GPU_PREFETCH_2, "prefetch-with-flags", prefetch_2, managed, MIB, here, 1, stream);
    ASK_IN(FERRYI_GPU_PREFETCH_2, "prefetch-no-bytes", prefetch_2, managed, 0, here, 0, stream);
    ASK_IN(FERRYI_GPU_PREFETCH_2, "prefetch-pinned", prefetch_2, (uintptr_t)pinned, MIB, here, 0,
           stream);
    ASK_IN(FERRYI_GPU_PREFETCH_2, "advise-unknown", advise_2, managed, MIB, 1000, here);
    ASK_IN(FERRYI_GPU_PREFETCH_2, "advise-no-bytes", advise_2, managed, 0, 1, here);
    ASK_IN(FERRYI_GPU_PREFETCH_2, "advise-nowhere", advise_2, managed, MIB,
           FERRYI_GPU_MEM_ADVISE_SET_PREFERRED_LOCATION, nowhere);
    settle("managed-settles");
    ASK("managed-free-inside", memory_free, managed + 256);
    ASK("managed-free", memory_free, managed);
    ASK("managed-free-twice", memory_free, managed);
}
