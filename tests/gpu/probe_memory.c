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

void
probe_allocation(void)
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
    ASK("free-host-of-null", cuMemFreeHost, NULL);
    ASK("free-device-as-host", cuMemFreeHost, (void *)(uintptr_t)memory);
    ASK("free-pinned-as-device", cuMemFree_v2, (uintptr_t)pinned);
    ASK("pinned-with-unknown-flags", cuMemHostAlloc, &host, 256, 1 << 20);
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
    ASK("register-no-bytes", cuMemHostRegister_v2, pages + 5 * MIB, 0, 1);
    ASK("register-null", cuMemHostRegister_v2, NULL, 4 * KIB, 1);
    ASK("register-device-memory", cuMemHostRegister_v2, (void *)(uintptr_t)memory, 4 * KIB, 1);
    ASK("register-unknown-flags", cuMemHostRegister_v2, pages + 5 * MIB, 4 * KIB, 1 << 20);
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
    ASK("unregister-twice", cuMemHostUnregister, pages);
    ASK("unregister-null", cuMemHostUnregister, NULL);
}

/* Probes managed memory, whose pages the driver moves between host and device. */
void
probe_managed(void)
{
    ferryi_cu_pointer managed = 0;
    const struct ferryi_cu_location nowhere = {FERRYI_CU_MEM_LOCATION_TYPE_DEVICE, 1000},
                                    host = {FERRYI_CU_MEM_LOCATION_TYPE_HOST, 0},
                                    here = {FERRYI_CU_MEM_LOCATION_TYPE_DEVICE, device};
    ASK("managed-with-no-flags", cuMemAllocManaged, &managed, MIB, 0);
    ASK("managed", cuMemAllocManaged, &managed, MIB, FERRYI_CU_MEM_ATTACH_GLOBAL);
    ASK_IN(FERRYI_CUDA_PREFETCH_12_2, "prefetch-to-the-host", cuMemPrefetchAsync_v2, managed, MIB,
           host, 0, stream);
    ASK_IN(FERRYI_CUDA_PREFETCH_12_2, "prefetch-to-the-device", cuMemPrefetchAsync_v2, managed, MIB,
           here, 0, stream);
    ASK_IN(FERRYI_CUDA_PREFETCH_12_2, "prefetch-to-nowhere", cuMemPrefetchAsync_v2, managed, MIB,
           nowhere, 0, stream);
    ASK_IN(FERRYI_CUDA_PREFETCH_12_2, "prefetch-with-flags", cuMemPrefetchAsync_v2, managed, MIB,
           here, 1, stream);
    ASK_IN(FERRYI_CUDA_PREFETCH_12_2, "prefetch-no-bytes", cuMemPrefetchAsync_v2, managed, 0, here,
           0, stream);
    ASK_IN(FERRYI_CUDA_PREFETCH_12_2, "prefetch-pinned", cuMemPrefetchAsync_v2, (uintptr_t)pinned,
           MIB, here, 0, stream);
    ASK_IN(FERRYI_CUDA_PREFETCH_12_2, "advise-unknown", cuMemAdvise_v2, managed, MIB, 1000, here);
    ASK_IN(FERRYI_CUDA_PREFETCH_12_2, "advise-no-bytes", cuMemAdvise_v2, managed, 0, 1, here);
    ASK_IN(FERRYI_CUDA_PREFETCH_12_2, "advise-nowhere", cuMemAdvise_v2, managed, MIB,
           FERRYI_CU_MEM_ADVISE_SET_PREFERRED_LOCATION, nowhere);
    settle("managed-settles");
    ASK("managed-free-inside", cuMemFree_v2, managed + 256);
    ASK("managed-free", cuMemFree_v2, managed);
    ASK("managed-free-twice", cuMemFree_v2, managed);
}
