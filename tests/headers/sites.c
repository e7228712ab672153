/* SPDX-License-Identifier: MIT */
/*
 * Checks the call sites that Ferry reports in debug runs: the function that created a buffer or
 * caused a transfer. A call site must be a function of the program. It must not be one of Ferry's
 * inline typed functions, at any optimization level.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>
#include <ferry/float_convert.h>

/* make_numbers() and use_numbers() are not static, so that the dynamic loader knows their names for
 * the reports. */
void make_numbers(ferry_context *context, ferry_float_buffer *out);
void use_numbers(ferry_float_buffer numbers);

static unsigned transfers, failures;

static void
expect_first(const char *site, const char *function, const char *what)
{
    if (strstr(site, function) == site)
        return;
    fprintf(stderr, "%s: the site is \"%s\" and does not begin with %s\n", what, site, function);
    failures++;
}

static void
ok(ferry_status status)
{
    if (status == FERRY_OK)
        return;
    fprintf(stderr, "%s: %s\n", ferry_status_name(status), ferry_last_error());
    exit(1);
}

static void
note_transfer(const ferry_trace *trace, void *user)
{
    (void)user;
    transfers++;
    expect_first(trace->site, "use_numbers+0x", trace->reason);
}

__attribute__((noinline)) void
make_numbers(ferry_context *context, ferry_float_buffer *out)
{
    ok(ferry_float_create(context, 1000, NULL, out));
}

__attribute__((noinline)) void
use_numbers(ferry_float_buffer numbers)
{
    double wide[10] = {0};
    ferry_scope scope;
    float *pointer;

    ok(ferry_float_copy_from_double(numbers, 0, 10, wide, FERRY_CONVERT_SATURATE, NULL));
    ok(ferry_float_sync_to(numbers, 1, NULL));
    ok(ferry_float_update_device(numbers, NULL, &scope, &pointer));
    ok(ferry_scope_close(&scope));
    ok(ferry_float_update_host(numbers, &scope, &pointer));
    ok(ferry_scope_close(&scope));
    ok(ferry_float_fill(numbers, 0, FERRY_REST, 1, NULL));
    ok(ferry_float_sync_to(numbers, 1, NULL));
}

int
main(void)
{
    ferry_context *context = NULL;
    ferry_context_options options = {0};
    ferry_float_buffer numbers = {0};
    ferry_buffer_info info;

    options.trace = note_transfer;
    ok(ferry_context_create(&options, &context));
    make_numbers(context, &numbers);
    ok(ferry_float_get_info(numbers, &info));
    expect_first(info.site, "make_numbers+0x", "made");
    if (!strstr(info.site, ", main+0x"))
        expect_first("", "main+0x", info.site);
    use_numbers(numbers);
    if (transfers < 3) {
        fprintf(stderr, "only %u transfers\n", transfers);
        failures++;
    }
    ferry_float_destroy(&numbers);
    ferry_context_destroy(&context);
    return failures != 0;
}
