/* SPDX-License-Identifier: MIT */

/*
 * share: two processes compute on one array of cars, which is in the memory of a device.
 *
 * The first process fills the array, exports it, and starts this program again with the handle as an
 * argument. The second process imports the array, moves the cars by a kernel, and releases it. No byte
 * crosses there, because its device has the memory already. The first process then acquires the array
 * again and checks it.
 *
 * FERRY_DEVICE selects the device. If its driver shares no memory, the array is in the memory of the host.
 */

#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <ferry/ferry.h>

#include "car_buffer.h"
#include "share_kernels.h"

enum { COUNT = 1 << 18, DIGITS = 2 * sizeof(ferry_share) };

extern char **environ;

/* -- the handle as text ---------------------------------------------------------------------------- */

static void
write_handle(const ferry_share *share, char text[DIGITS + 1])
{
    for (size_t i = 0; i < sizeof(share->bytes); i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned)share->bytes[i]);
}

static bool
read_handle(const char *text, ferry_share *out)
{
    if (strlen(text) != DIGITS || strspn(text, "0123456789abcdef") != DIGITS)
        return false;
    for (size_t i = 0; i < sizeof(out->bytes); i++) {
        const char digits[3] = {text[2 * i], text[2 * i + 1], 0};
        out->bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return true;
}

/* -- the second process ---------------------------------------------------------------------------- */

/* Moves the cars. It releases the array after the kernel has ended. */
static ferry_status
move(ferry_context *context, const ferry_share *share)
{
    static const ferry_share_options options = {.name = "theirs"};
    share_kernels kernels = {0};
    share_car_buffer x = {0};
    ferry_transfer_stats moved;
    ferry_status status;

    FERRY_TRY(status, done, share_kernels_create(context, &kernels));
    FERRY_TRY(status, done, share_car_import(context, share, &options, &x));
    FERRY_TRY(status, done, share_car_acquire_shared(x, NULL));
    FERRY_TRY(status, done, share_move(&kernels, ferry_context_stream(context, 1), x));
    FERRY_TRY(status, done, share_car_release_shared(x, NULL));
    FERRY_TRY(status, done, ferry_context_get_transfer_stats(context, &moved));
    printf("second process: %llu bytes up, %llu bytes down\n", (unsigned long long)moved.upload.bytes,
           (unsigned long long)moved.download.bytes);
done:
    share_car_destroy(&x);
    share_kernels_destroy(&kernels);
    return status;
}

/* -- the first process ----------------------------------------------------------------------------- */

/* Creates the array in the memory of the first device, or of the host. Other processes cannot use it yet. */
static ferry_status
create(ferry_context *context, share_car_buffer *out)
{
    ferry_place_info device;
    ferry_buffer_options options = {.name = "ours", .memory = FERRY_MEMORY_SHARED};
    ferry_status status = ferry_context_get_place_info(context, 1, &device);
    if (status != FERRY_OK)
        return status;
    options.place = device.capabilities & FERRY_CAN_SHARE ? 1 : FERRY_PLACE_HOST;
    printf("the array is in the memory of %s\n", options.place == 1 ? device.name : "the host");
    return share_car_create(context, COUNT, &options, out);
}

static ferry_status
fill(share_car_buffer x)
{
    ferry_scope scope;
    struct share_car *cars;
    ferry_status status = share_car_overwrite_host(x, &scope, &cars);
    if (status != FERRY_OK)
        return status;
    for (size_t i = 0; i < COUNT; i++)
        cars[i] = (struct share_car){.place = (double)i, .speed = -0.5 * (double)i};
    return ferry_scope_close(&scope);
}

static ferry_status
count_wrong(share_car_buffer x, size_t *out)
{
    ferry_scope scope;
    const struct share_car *cars;
    size_t wrong = 0;
    ferry_status status = share_car_read_host(x, &scope, &cars);
    if (status != FERRY_OK)
        return status;
    for (size_t i = 0; i < COUNT; i++)
        wrong += cars[i].place != 0.5 * (double)i || cars[i].speed != -0.5 * (double)i;
    *out = wrong;
    return ferry_scope_close(&scope);
}

/* Runs this program again with the handle, and waits until it ends. Returns whether it did well. */
static bool
run_second(const ferry_share *share)
{
    char name[] = "share", handle[DIGITS + 1];
    char *arguments[] = {name, handle, NULL};
    pid_t process;
    int ended;

    write_handle(share, handle);
    fflush(stdout);
    if (posix_spawn(&process, "/proc/self/exe", NULL, NULL, arguments, environ) != 0) {
        fprintf(stderr, "share: the second process does not start\n");
        return false;
    }
    return waitpid(process, &ended, 0) == process && WIFEXITED(ended) && WEXITSTATUS(ended) == EXIT_SUCCESS;
}

/* Shares an array with a second process, and counts the elements that are wrong afterwards. */
static ferry_status
share_array(ferry_context *context, size_t *out_wrong)
{
    share_car_buffer x = {0};
    ferry_share share;
    ferry_status status;

    FERRY_TRY(status, done, create(context, &x));
    FERRY_TRY(status, done, fill(x));
    FERRY_TRY(status, done, share_car_export(x, &share));
    FERRY_TRY(status, done, share_car_release_shared(x, NULL)); /* copies the cars to the device */
    if (run_second(&share)) {
        FERRY_TRY(status, done, share_car_acquire_shared(x, NULL));
        FERRY_TRY(status, done, count_wrong(x, out_wrong));
        printf("first process: %zu of %d elements are wrong\n", *out_wrong, COUNT);
    }
done:
    share_car_destroy(&x);
    return status;
}

int
main(int argc, char **argv)
{
    ferry_context *context = NULL;
    ferry_share share;
    size_t wrong = COUNT;
    ferry_status status;

    if (argc > 2 || (argc == 2 && !read_handle(argv[1], &share))) {
        fprintf(stderr, "share: usage: share [HANDLE], which the program gives to itself\n");
        return 2;
    }
    FERRY_TRY(status, done, ferry_context_create(NULL, &context));
    if (argc == 1) {
        FERRY_TRY(status, done, share_array(context, &wrong));
    } else {
        FERRY_TRY(status, done, move(context, &share));
        wrong = 0;
    }
done:
    if (status != FERRY_OK)
        fprintf(stderr, "share: %s (%s)\n", ferry_last_error(), ferry_status_name(status));
    ferry_context_destroy(&context);
    return status == FERRY_OK && wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
