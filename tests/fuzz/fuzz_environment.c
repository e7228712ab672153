/* SPDX-License-Identifier: MIT */
/* Each line of the input is the value of one environment variable in the list `names`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/ferry.h>
#include <ferry/int.h>

#include "src/base/sanitizer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/code.h"

enum { VARIABLES = 7, LINE_MAX_BYTES = 6000, PATH_BYTES = 4096 };

/* Sets or unsets one environment variable. Puts the name of a missing folder before a path, so that
 * no file of the machine is opened or overwritten. */
static void
set_line(int which, const char *text)
{
    static const char *const names[VARIABLES] = {
        "FERRY_DEVICE",    "FERRY_ALLOCATION_LOG", "FERRY_CUDA_LIBRARY", "FERRY_NVRTC_LIBRARY",
        "FERRY_CACHE_DIR", "FERRY_TUNING",         "FERRY_TRACE"};
    char value[LINE_MAX_BYTES + 64];
    snprintf(value, sizeof(value), "%s%s",
             which == 0 || which == VARIABLES - 1 ? "" : "/dev/null/absent/ferry/", text);
    /* The memory sanitizer does not see the writes of a real NVRTC library. So in builds with it,
     * FERRY_NVRTC_LIBRARY always names a missing library. */
    if (*text || (FERRYI_MEMORY_SANITIZER && strcmp(names[which], "FERRY_NVRTC_LIBRARY") == 0))
        setenv(names[which], value, 1);
    else
        unsetenv(names[which]);
}

static void
use_context(ferry_context *context)
{
    ferry_buffer *buffer = NULL;
    int values[10] = {1, 2, 3};
    if (ferry_buffer_create(context, ferry_int_element(), 10, NULL, &buffer) != FERRY_OK)
        abort();
    ferry_status status = ferry_buffer_copy_from(buffer, ferry_int_element(), 0, 10, values, NULL);
    /* The call creates the first pool of the context. This fails with FERRY_ERROR_IO if the
     * allocation log cannot be written. */
    if (status != FERRY_OK && status != FERRY_ERROR_IO)
        abort();
    ferry_buffer_destroy(&buffer);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char lines[LINE_MAX_BYTES + 1];
    size_t length = count < LINE_MAX_BYTES ? count : LINE_MAX_BYTES;
    if (length > 0)
        memcpy(lines, bytes, length);
    lines[length] = 0;
    char *at = lines;
    for (int i = 0; i < VARIABLES; i++) {
        char *line = at ? strsep(&at, "\n") : "";
        set_line(i, line);
    }
    ferry_context *context = NULL;
    ferry_status status = ferry_context_create(NULL, &context);
    if (status == FERRY_OK)
        use_context(context);
    else if (strlen(ferry_last_error()) < 10 || context)
        abort();
    ferry_context_destroy(&context);
    ferry_kernel_source source = {.name = "k", CUDA_SOURCE("extern \"C\" __global__ void k() {}")};
    (void)!ferry_kernel_check(&source, NULL);
    char path[PATH_BYTES];
    status = ferry_kernel_cache_path(path, sizeof(path));
    if (status == FERRY_OK ? *path != '/' : strlen(ferry_last_error()) < 10)
        abort();
    return 0;
}
