/* SPDX-License-Identifier: MIT */
#include "halo_by_hand.h"

#include <string.h>

/* PTX text of the module that contains the kernel. The kernel has no code, because the fake driver
 * only searches the text for the kernel's name. */
static const char image[] = ".version 7.0\n.visible .entry heat_step() {}\n";

enum { BLOCK = 256 };

static void
keep(struct halo_by_hand *halo, int status)
{
    if (status != 0 && halo->failure == 0)
        halo->failure = status;
}

/* -- memory ------------------------------------------------------------------------------------ */

static size_t
bytes_of(const struct halo_way *way)
{
    return way->count * way->rows * sizeof(float);
}

static void
allocate_strips(struct halo_by_hand *halo)
{
    for (int i = 0; i < HALO_WAYS; i++) {
        void *memory[2] = {NULL, NULL};
        for (int side = 0; side < 2; side++)
            keep(halo, halo->driver.cuMemHostAlloc(&memory[side], bytes_of(&halo->ways[i]), 1));
        halo->sent[i] = memory[0];
        halo->received[i] = memory[1];
    }
}

bool
halo_by_hand_open(struct halo_by_hand *out, const struct halo_way *ways, size_t rows,
                  size_t columns, const float *cells)
{
    int device = 0;
    memset(out, 0, sizeof(*out));
    out->ways = ways;
    out->rows = rows;
    out->columns = columns;
    if (!by_hand_driver_load_fake(&out->driver))
        return false;
    const struct by_hand_driver *driver = &out->driver;
    keep(out, driver->cuInit(0));
    keep(out, driver->cuDeviceGet(&device, 0));
    keep(out, driver->cuDevicePrimaryCtxRetain(&out->context, device));
    keep(out, driver->cuCtxPushCurrent_v2(out->context));
    keep(out, driver->cuStreamCreate(&out->stream, 1));
    keep(out, driver->cuModuleLoadDataEx(&out->module, image, 0, NULL, NULL));
    if (out->failure == 0)
        keep(out, driver->cuModuleGetFunction(&out->step, out->module, "heat_step"));
    allocate_strips(out);
    for (int i = 0; i < 2; i++) {
        keep(out, driver->cuMemAlloc_v2(&out->plates[i], rows * columns * sizeof(float)));
        keep(out, driver->cuMemcpyHtoDAsync_v2(out->plates[i], cells,
                                               rows * columns * sizeof(float), out->stream));
    }
    keep(out, driver->cuStreamSynchronize(out->stream));
    return out->failure == 0;
}

void
halo_by_hand_close(struct halo_by_hand *halo)
{
    const struct by_hand_driver *driver = &halo->driver;
    void *context;
    if (!halo->context)
        return;
    for (int i = 0; i < HALO_WAYS; i++) {
        driver->cuMemFreeHost(halo->sent[i]);
        driver->cuMemFreeHost(halo->received[i]);
    }
    for (int i = 0; i < 2; i++)
        driver->cuMemFree_v2(halo->plates[i]);
    driver->cuModuleUnload(halo->module);
    driver->cuStreamDestroy_v2(halo->stream);
    driver->cuCtxPopCurrent_v2(&context);
    driver->cuDevicePrimaryCtxRelease_v2(0);
}

/* -- steps ------------------------------------------------------------------------------------- */

/* Copies a row or a column of cells with one driver call. A column is copied as a rectangle whose
 * rows have one cell each. */
static void
copy_strip(struct halo_by_hand *halo, const struct halo_way *way, uint64_t plate, size_t cell,
           float *strip, bool down)
{
    const struct by_hand_driver *driver = &halo->driver;
    uint64_t at = plate + cell * sizeof(float);
    size_t row_bytes = way->count * sizeof(float), pitch = halo->columns * sizeof(float);
    struct by_hand_rows rows = {.width_bytes = row_bytes,
                                .height = way->rows,
                                .source_type = BY_HAND_HOST,
                                .source_host = strip,
                                .source_pitch = row_bytes,
                                .target_type = BY_HAND_DEVICE,
                                .target_device = at,
                                .target_pitch = pitch};
    if (down)
        rows = (struct by_hand_rows){.width_bytes = row_bytes,
                                     .height = way->rows,
                                     .source_type = BY_HAND_DEVICE,
                                     .source_device = at,
                                     .source_pitch = pitch,
                                     .target_type = BY_HAND_HOST,
                                     .target_host = strip,
                                     .target_pitch = row_bytes};
    if (way->rows > 1)
        keep(halo, driver->cuMemcpy2DAsync_v2(&rows, halo->stream));
    else if (down)
        keep(halo, driver->cuMemcpyDtoHAsync_v2(strip, at, row_bytes, halo->stream));
    else
        keep(halo, driver->cuMemcpyHtoDAsync_v2(at, strip, row_bytes, halo->stream));
    *(down ? &halo->down : &halo->up) += bytes_of(way);
}

static void
exchange_strips(struct halo_by_hand *halo)
{
    MPI_Request requests[2 * HALO_WAYS];
    for (int i = 0; i < HALO_WAYS; i++) {
        const struct halo_way *way = &halo->ways[i];
        int count = (int)(way->count * way->rows);
        MPI_Irecv(halo->received[i], count, MPI_FLOAT, way->from, i, MPI_COMM_WORLD,
                  &requests[2 * i]);
        MPI_Isend(halo->sent[i], count, MPI_FLOAT, way->to, i, MPI_COMM_WORLD,
                  &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * HALO_WAYS, requests, MPI_STATUSES_IGNORE);
}

/* Computes one step. The function waits for the downloads of this step before it calls MPI. The
 * stream runs these downloads after the uploads of the previous step. After the wait, those uploads
 * have therefore read the host memory, and MPI can overwrite it. */
bool
halo_by_hand_step(struct halo_by_hand *halo, size_t step)
{
    uint64_t now = halo->plates[step % 2], next = halo->plates[1 - step % 2];
    size_t first = 0;
    void *arguments[] = {&now,   &next,       &halo->rows, &halo->columns,
                         &first, &halo->rows, &first,      &halo->columns};
    for (int i = 0; i < HALO_WAYS; i++) {
        if (halo->ways[i].to != MPI_PROC_NULL)
            copy_strip(halo, &halo->ways[i], now, halo->ways[i].send, halo->sent[i], true);
    }
    keep(halo, halo->driver.cuStreamSynchronize(halo->stream));
    exchange_strips(halo);
    for (int i = 0; i < HALO_WAYS; i++) {
        if (halo->ways[i].from != MPI_PROC_NULL)
            copy_strip(halo, &halo->ways[i], now, halo->ways[i].receive, halo->received[i], false);
    }
    unsigned blocks = (unsigned)((halo->rows * halo->columns + BLOCK - 1) / BLOCK);
    keep(halo, halo->driver.cuLaunchKernel(halo->step, blocks, 1, 1, BLOCK, 1, 1, 0, halo->stream,
                                           arguments, NULL));
    return halo->failure == 0;
}

bool
halo_by_hand_read(struct halo_by_hand *halo, size_t steps, float *cells)
{
    size_t bytes = halo->rows * halo->columns * sizeof(float);
    keep(halo,
         halo->driver.cuMemcpyDtoHAsync_v2(cells, halo->plates[steps % 2], bytes, halo->stream));
    keep(halo, halo->driver.cuStreamSynchronize(halo->stream));
    return halo->failure == 0;
}
