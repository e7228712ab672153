/* SPDX-License-Identifier: MIT */
/* Tests the tuning string of a context: its keys, values and bounds, and the messages about invalid
 * parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/context_tuning.h"
#include "tests/support/status.h"

static struct ferryi_context_tuning
parsed(const char *text)
{
    struct ferryi_context_tuning tuning = {0};
    OK(ferryi_context_tuning_parse(&tuning, text, "test", NULL));
    return tuning;
}

static void
test_every_key(void **state)
{
    (void)state;
    struct ferryi_context_tuning t =
        parsed("staging.chunk=2M  staging.chunks=8 staging.part=128K staging.threads=4 "
               "staging.copy=stream "
               "emulated.memory=256M "
               "emulated.latency=10us emulated.bandwidth=3.5G emulated.peers=no device.handle=8M");
    assert_int_equal(t.staging_chunk_bytes, 2 << 20);
    assert_int_equal(t.staging_chunk_count, 8);
    assert_int_equal(t.staging_part_bytes, 128 << 10);
    assert_int_equal(t.staging_threads, 4);
    assert_int_equal(t.staging_loop, FERRYI_COPY_STREAM);
    assert_int_equal(t.emulated_memory_bytes, 256 << 20);
    assert_int_equal(t.emulated_latency_ns, 10000);
    assert_int_equal(t.emulated_bytes_per_second, UINT64_C(7) << 29);
    assert_int_equal(t.emulated_without_peers, 1);
    assert_int_equal(t.device_handle_bytes, 8 << 20);
}

static void
test_values_and_bounds(void **state)
{
    (void)state;
    assert_int_equal(parsed("staging.chunk=1 staging.chunk=8192").staging_chunk_bytes,
                     8192); /* the last of two values for a key applies */
    assert_int_equal(parsed("staging.chunk=1").staging_chunk_bytes, 4096);
    assert_int_equal(parsed("staging.chunks=1").staging_chunk_count, 2);
    assert_int_equal(parsed("staging.part=1").staging_part_bytes, 4096);
    assert_int_equal(parsed("staging.threads=99").staging_threads, 16);
    assert_int_equal(parsed("staging.chunk=0").staging_chunk_bytes, 0);
    assert_int_equal(parsed("emulated.latency=2ms").emulated_latency_ns, 2000000);
    assert_int_equal(parsed("emulated.latency=1.25s").emulated_latency_ns, 1250000000);
    assert_int_equal(parsed("emulated.latency=7ns").emulated_latency_ns, 7);
    assert_int_equal(parsed("emulated.memory=3K").emulated_memory_bytes, 3072);
    assert_int_equal(parsed("staging.copy=auto").staging_loop, FERRYI_COPY_AUTO);
    assert_int_equal(parsed("emulated.peers=yes").emulated_without_peers, 0);
    assert_int_equal(parsed("cuda.batches=no").cuda_without_batches, 1);
    assert_int_equal(parsed("cuda.batches=yes").cuda_without_batches, 0);
    static const struct ferryi_context_tuning none;
    struct ferryi_context_tuning empty = parsed(""), spaces = parsed("   "), null = parsed(NULL);
    assert_memory_equal(&empty, &none, sizeof(none));
    assert_memory_equal(&spaces, &none, sizeof(none));
    assert_memory_equal(&null, &none, sizeof(none));
}

static const struct {
    const char *text, *says;
} wrong[] = {
    {"staging.chnk=2M", "the key \"staging.chnk\" at character 1 is unknown"},
    {"staging.chunks=4 staging.chun=1", "the key \"staging.chun\" at character 18 is unknown"},
    {"staging.chunk", "\"staging.chunk\" at character 1 is no key=value"},
    {"=4", "the key \"\" at character 1 is unknown"},
    {"staging.chunk=", "staging.chunk takes a size"},
    {"staging.chunk=-1", "staging.chunk takes a size"},
    {"staging.chunk=2T", "staging.chunk takes a size"},
    {"staging.chunk=2MB", "staging.chunk takes a size"},
    {"staging.chunk=1.5", "staging.chunk takes a size"},
    {"staging.chunk=.5M", "staging.chunk takes a size"},
    {"staging.chunk=99999999999999999999", "staging.chunk takes a size"},
    {"staging.chunk=18446744073709551615G", "staging.chunk takes a size"},
    {"staging.part=", "staging.part takes a size"},
    {"staging.part=-256K", "staging.part takes a size"},
    {"staging.part=half", "staging.part takes a size"},
    {"staging.chunks=2K", "staging.chunks takes a number"},
    {"emulated.latency=10", "emulated.latency takes a time"},
    {"emulated.peers=maybe", "emulated.peers takes yes or no"},
    {"cuda.batches=0", "cuda.batches takes yes or no"},
    {"staging.copy=fast", "staging.copy takes auto, libc, prefetch or stream"},
};

static void
test_wrong_options_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ferry_context *context = NULL;
        const ferry_context_options options = {.devices = "host", .tuning = wrong[i].text};
        assert_int_equal(ferry_context_create(&options, &context), FERRY_ERROR_INVALID_ARGUMENT);
        assert_null(context);
        assert_says("ferry_context_options.tuning");
        assert_says(wrong[i].says);
    }
}

struct heard {
    unsigned warnings;
    const char *says;
};

static void
hear(ferry_log_level level, const char *message, void *user)
{
    struct heard *heard = user;
    if (level == FERRY_LOG_WARNING && strstr(message, "FERRY_TUNING") &&
        strstr(message, heard->says) && strstr(message, "ignored"))
        heard->warnings++;
}

static void
test_wrong_environment_is_logged(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct heard heard = {.says = wrong[i].says};
        ferry_context *context = NULL;
        const ferry_context_options options = {.devices = "host", .log = hear, .log_user = &heard};
        setenv("FERRY_TUNING", wrong[i].text, 1);
        OK(ferry_context_create(&options, &context));
        assert_int_equal(heard.warnings, 1);
        ferry_context_destroy(&context);
    }
    unsetenv("FERRY_TUNING");
}

/* A program without a log callback does not hide from its user that a variable is wrong. */
static void
test_wrong_environment_is_seen_without_a_log(void **state)
{
    (void)state;
    char text[1000] = "";
    ferry_context *context = NULL;
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_true(file && before >= 0);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    setenv("FERRY_TUNING", "emulated.mem=2M", 1);
    ferry_status status =
        ferry_context_create(&(ferry_context_options){.devices = "host"}, &context);
    unsetenv("FERRY_TUNING");
    ferry_context_destroy(&context);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    size_t bytes = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    assert_int_equal(status, FERRY_OK);
    assert_true(bytes > 0);
    assert_non_null(strstr(text, "ferry: FERRY_TUNING: the key \"emulated.mem\""));
    assert_non_null(strstr(text, "the pair is ignored\n"));
}

static void
test_the_option_goes_before_the_environment_key_by_key(void **state)
{
    (void)state;
    struct ferryi_context_tuning tuning;
    const struct ferryi_log silent = {0};
    setenv("FERRY_TUNING", "staging.chunks=6 wrong=1 staging.threads=3 emulated.memory=8M", 1);
    OK(ferryi_context_tuning_read(&tuning, "staging.threads=2 emulated.memory=0", &silent));
    unsetenv("FERRY_TUNING");
    assert_int_equal(tuning.staging_chunk_count, 6);
    assert_int_equal(tuning.staging_threads, 2);
    assert_int_equal(tuning.emulated_memory_bytes, 0); /* back to the default */
}

static void
test_a_context_uses_it(void **state)
{
    (void)state;
    ferry_context *context;
    ferry_memory_info info;
    ferry_place_info place;
    const ferry_context_options options = {.devices = "emulated:2",
                                           .tuning = "emulated.memory=16M emulated.peers=no"};
    OK(ferry_context_create(&options, &context));
    OK(ferry_context_get_memory_info(context, 1, &info));
    assert_int_equal(info.total, 16 << 20);
    OK(ferry_context_get_place_info(context, 1, &place));
    assert_int_equal(place.capabilities & FERRY_CAN_PEER, 0);
    ferry_context_destroy(&context);
}

/* The limits of the tuning string lower those of the options, and do not raise them. */
static void
test_limits_are_lowered(void **state)
{
    (void)state;
    const struct {
        size_t option;
        const char *tuning;
        size_t expected;
    } cases[] = {{0, "device.limit=8M", 8 << 20},
                 {4 << 20, "device.limit=8M", 4 << 20},
                 {12 << 20, "device.limit=8M", 8 << 20},
                 {12 << 20, "device.limit=0", 12 << 20}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ferry_context *context;
        ferry_memory_info info;
        const ferry_context_options options = {.devices = "emulated",
                                               .device_bytes_limit = cases[i].option,
                                               .tuning = cases[i].tuning};
        OK(ferry_context_create(&options, &context));
        OK(ferry_context_get_memory_info(context, 1, &info));
        assert_int_equal(info.total, cases[i].expected);
        ferry_context_destroy(&context);
    }
    ferry_context *context;
    ferry_memory_info info;
    ferry_pool *pool;
    ferry_pool_stats stats;
    const ferry_context_options options = {.devices = "emulated",
                                           .tuning = "host.limit=8M pinned.limit=4M"};
    OK(ferry_context_create(&options, &context));
    OK(ferry_context_get_memory_info(context, 0, &info));
    assert_int_equal(info.total, 8 << 20);
    OK(ferry_context_pool(context, 0, FERRY_MEMORY_PINNED, &pool));
    OK(ferry_pool_get_stats(pool, &stats));
    assert_int_equal(stats.limit_bytes, 4 << 20);
    ferry_context_destroy(&context);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_values_and_bounds),
        cmocka_unit_test(test_wrong_options_fail),
        cmocka_unit_test(test_wrong_environment_is_logged),
        cmocka_unit_test(test_wrong_environment_is_seen_without_a_log),
        cmocka_unit_test(test_the_option_goes_before_the_environment_key_by_key),
        cmocka_unit_test(test_a_context_uses_it),
        cmocka_unit_test(test_limits_are_lowered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
