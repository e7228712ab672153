/* SPDX-License-Identifier: MIT */
/* Tests the warnings of checked runs about bytes that were copied to a place and then overwritten
 * there before anything read them. */
#include "tests/buffer/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/store/store.h"

enum { COUNT = 1000 };

static char text[1024];
static int warnings;

static void
note_warning(ferry_log_level level, const char *message, void *user)
{
    (void)user;
    if (level == FERRY_LOG_WARNING && strstr(message, "overwrote them before")) {
        snprintf(text, sizeof(text), "%s", message);
        warnings++;
    }
}

static int
setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    setenv("FERRY_DEBUG", "1", 1);
    fixture_open(f, &(ferry_context_options){.devices = "emulated", .log = note_warning});
    warnings = 0;
    *state = f;
    return 0;
}

/* What a program does after it wrote all elements of the buffer on the device. */
struct step {
    enum { END, READ, UPDATE, OVERWRITE, ABANDON, COPY_FROM, COPY_TO, PREFETCH, SYNC, HOLD } what;
    int place; /* 0: the host */
    size_t offset, count;
};

static void
take_step(fixture *f, ferry_buffer *x, const struct step *step)
{
    static const ferry_access accesses[] = {
        [READ] = FERRY_READ, [UPDATE] = FERRY_UPDATE, [OVERWRITE] = FERRY_OVERWRITE};
    static int32_t values[COUNT];
    ferry_scope scope;
    void *memory;
    switch (step->what) {
    case READ:
    case UPDATE:
    case OVERWRITE:
        touch(f, x, step->place, accesses[step->what], step->offset, step->count);
        break;
    case ABANDON:
        open_at(f, x, step->place, FERRY_OVERWRITE, step->offset, step->count, &scope);
        OK(ferry_scope_abandon(&scope));
        break;
    case COPY_FROM:
        OK(ferry_buffer_copy_from(x, INT, step->offset, step->count, values, NULL));
        break;
    case COPY_TO:
        OK(ferry_buffer_copy_to(x, INT, step->offset, step->count, values, NULL));
        break;
    case PREFETCH:
        OK(ferry_buffer_prefetch(x, step->offset, step->count, step->place, NULL));
        break;
    case SYNC:
        OK(ferry_buffer_sync_to(x, step->offset, step->count, step->place, NULL));
        break;
    case HOLD:
        OK(ferry_buffer_hold(x, step->place, &memory));
        OK(ferry_buffer_release(x, step->place));
        break;
    case END:
        break;
    }
}

static const struct {
    const char *fetch, *overwrite; /* the calls that a warning names; NULL: there is none */
    struct step steps[5];
} cases[] = {
    {"update_host", "overwrite_device", {{UPDATE, 0, 0, COUNT}, {OVERWRITE, 1, 0, COUNT}}},
    {"update_host", "overwrite_host", {{UPDATE, 0, 0, COUNT}, {OVERWRITE, 0, 0, COUNT}}},
    {"update_host", "copy_from", {{UPDATE, 0, 0, COUNT}, {COPY_FROM, 0, 0, COUNT}}},
    {"update_host", "overwrite_device", {{UPDATE, 0, 100, 50}, {OVERWRITE, 1, 0, COUNT}}},
    {"prefetch",
     "overwrite_device",
     {{OVERWRITE, 0, 0, COUNT}, {PREFETCH, 1, 0, COUNT}, {OVERWRITE, 1, 0, COUNT}}},
    /* The second waste of a buffer is not logged. */
    {"update_host",
     "overwrite_device",
     {{UPDATE, 0, 0, COUNT},
      {OVERWRITE, 1, 0, COUNT},
      {UPDATE, 0, 0, COUNT},
      {OVERWRITE, 1, 0, COUNT}}},
    /* Something may have read what was brought. */
    {NULL, NULL, {{READ, 0, 0, COUNT}, {OVERWRITE, 1, 0, COUNT}}},
    {NULL, NULL, {{UPDATE, 0, 0, COUNT}, {READ, 0, 0, COUNT}, {OVERWRITE, 1, 0, COUNT}}},
    {NULL, NULL, {{UPDATE, 0, 0, COUNT}, {READ, 1, 10, 1}, {OVERWRITE, 1, 0, COUNT}}},
    {NULL, NULL, {{UPDATE, 0, 0, COUNT}, {COPY_TO, 0, 0, COUNT}, {OVERWRITE, 1, 0, COUNT}}},
    {NULL, NULL, {{HOLD, 0, 0, 0}, {UPDATE, 0, 0, COUNT}, {OVERWRITE, 1, 0, COUNT}}},
    {NULL, NULL, {{SYNC, 0, 0, COUNT}, {OVERWRITE, 1, 0, COUNT}}},
    /* Not all of it is overwritten, or not for good. */
    {NULL, NULL, {{UPDATE, 0, 0, COUNT}, {OVERWRITE, 1, 0, COUNT / 2}}},
    {NULL, NULL, {{UPDATE, 0, 0, COUNT}, {ABANDON, 0, 0, COUNT}}},
    /* Nothing was brought. */
    {NULL, NULL, {{OVERWRITE, 0, 0, COUNT}, {OVERWRITE, 1, 0, COUNT}}},
    {NULL, NULL, {{UPDATE, 1, 0, COUNT}, {OVERWRITE, 1, 0, COUNT}}},
};

static void
play(fixture *f, size_t number)
{
    char fetched[64];
    ferry_buffer *x;
    OK(ferry_buffer_create(f->context, INT, COUNT, &(ferry_buffer_options){.name = "height"}, &x));
    write_counting(f, x, 1, 0, COUNT, 0);
    warnings = 0;
    for (const struct step *step = cases[number].steps; step->what != END; step++)
        take_step(f, x, step);
    if (warnings != (cases[number].fetch != NULL))
        fail_msg("case %zu: %d warnings: %s", number, warnings, text);
    if (cases[number].fetch) {
        snprintf(fetched, sizeof(fetched), "and %s overwrote them", cases[number].overwrite);
        assert_non_null(strstr(text, "of buffer \"height\""));
        assert_ptr_equal(strstr(text, cases[number].fetch), text);
        if (!strstr(text, fetched))
            fail_msg("case %zu: %s", number, text);
    }
    ferry_buffer_destroy(&x);
}

static void
test_bytes_that_nothing_read(void **state)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        play(*state, i);
}

static void
test_what_was_copied_is_named(void **state)
{
    fixture *f = *state;
    const struct step update = {UPDATE, 0, 100, 50}, overwrite = {OVERWRITE, 1, 0, COUNT};
    ferry_buffer *x;
    OK(ferry_buffer_create(f->context, INT, COUNT, &(ferry_buffer_options){.name = "height"}, &x));
    write_counting(f, x, 1, 0, COUNT, 0);
    take_step(f, x, &update);
    take_step(f, x, &overwrite);
    assert_non_null(
        strstr(text, " copied bytes 400 to 600 of buffer \"height\" from emulated:0 to host, and "
                     "overwrite_device overwrote them before anything else read them"));
    ferry_buffer_destroy(&x);
}

/* Other runs remember nothing, whatever is brought and held. */
static void
test_runs_without_checks_remember_nothing(void **state)
{
    fixture fixed, *f = &fixed;
    (void)state;
    setenv("FERRY_DEBUG", "0", 1);
    fixture_open(f, &(ferry_context_options){.devices = "emulated", .log = note_warning});
    for (int what = READ; what <= HOLD; what++) {
        ferry_buffer *x = make_ints(f, COUNT);
        write_counting(f, x, 1, 0, COUNT, 0);
        take_step(f, x, &(struct step){what, 0, 0, COUNT});
        const struct ferryi_store_cold *cold = ferryi_store_cold_of(x->store);
        assert_true(!cold || !cold->waste);
        ferry_buffer_destroy(&x);
    }
    fixture_close(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bytes_that_nothing_read, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_what_was_copied_is_named, setup, fixture_teardown),
        cmocka_unit_test(test_runs_without_checks_remember_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
