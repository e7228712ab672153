/* SPDX-License-Identifier: MIT */
/* Plays a random history, which is a random sequence of library calls: creates the context and the
 * threads, makes the calls, and destroys everything. */
#include "src/pool/pool.h"
#include "tests/histories/scenes.h"

#include <unistd.h>

#include "src/buffer/worker.h"
#include "src/device/cuda/cuda.h"
#include "src/device/cuda/cuda_abi.h"
#include "src/device/gpu/gpu_device.h"
#include "tests/support/fakecuda.h"
#include "tests/support/fault.h"
#include "tests/support/lazy.h"

/* -- steps ------------------------------------------------------------------------------------- */

static const struct step *const step_lists[] = {use_steps,    scope_steps, lend_steps,
                                                copy_steps,   place_steps, life_steps,
                                                kernel_steps, scene_steps};

static const struct step *
step_at(size_t at)
{
    for (size_t i = 0; i < LENGTH(step_lists); i++)
        for (const struct step *step = step_lists[i]; step->name; step++)
            if (at-- == 0)
                return step;
    return NULL;
}

static size_t
step_kinds(void)
{
    size_t count = 0;
    while (step_at(count))
        count++;
    return count;
}

static const char *left_out = "";

void
history_leave_out(const char *names)
{
    left_out = names;
}

/* Returns the weight of a step in random choices, which is 0 if history_leave_out() excludes the
 * step's name. */
static unsigned
weight_of(const struct step *step)
{
    size_t length = strlen(step->name);
    for (const char *at = left_out; (at = strstr(at, step->name)); at += length)
        if ((at == left_out || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return 0;
    return step->weight;
}

unsigned char
history_code(uint64_t number)
{
    uint64_t total = 0;
    size_t kind = 0;
    for (size_t i = 0; step_at(i); i++)
        total += weight_of(step_at(i));
    for (number %= total; number >= weight_of(step_at(kind)); kind++)
        number -= weight_of(step_at(kind));
    return (unsigned char)kind;
}

const char *
history_step_name(unsigned char code)
{
    return step_at(code % step_kinds())->name;
}

/* -- playing ----------------------------------------------------------------------------------- */

/* Restarts the timer that ends a hanging test. This happens after each step, so that the timer does
 * not end a test that is only slow. */
static void
limit_time(const struct world *world)
{
    if (world->setup.seconds > 0)
        alarm(world->setup.seconds);
}

static void
play_step(struct player *p, const unsigned char *bytes)
{
    const struct step *step = step_at(bytes[0] % step_kinds());
    p->bytes = bytes;
    p->name = step->name;
    step->run(p);
    /* Cancels an injected failure that did not occur in this step, so that it does not occur in the
     * next step. */
    (void)disarm(p);
    limit_time(p->world);
}

/* Checks and destroys all objects that a thread of the random test still owns at its end. */
static void
end_player(struct player *p)
{
    p->name = "the end";
    p->arm = 0;
    drain(p);
    release_held(p, NULL);
    if (p->owner)
        say(p, "destroy_elsewhere(&owner);"), destroy_elsewhere(&p->owner);
    expect_subject(p, &p->world->subjects[0]);
    expect_subject(p, &p->world->subjects[1]);
    for (size_t i = 0; i < 2; i++) {
        struct subject *own = &p->world->subjects[SHARED + 2 * p->number + i];
        expect_subject(p, own);
        end_subject(p, own, BY_DESTROY);
    }
    if (p->event)
        say(p, "ferry_event_destroy(&event);");
    ferry_event_destroy(&p->event);
}

static void *
run_player(void *argument)
{
    struct player *p = argument;
    struct world *world = p->world;
    say(p, "meet();");
    for (size_t i = 0; i < 2; i++)
        make_subject(p, &world->subjects[SHARED + 2 * p->number + i],
                     (unsigned)(13 * i + p->number));
    for (p->step = 0; p->step < world->step_count; p->step++) {
        const unsigned char *bytes = world->bytes + p->step * STEP_BYTES;
        if ((bytes[STEP_BYTES - 1] & 3) % world->setup.players == p->number)
            play_step(p, bytes);
    }
    end_player(p);
    say(p, "meet();");
    return NULL;
}

/* -- the world --------------------------------------------------------------------------------- */

static ferry_status
fail_body(const ferry_call *call, void *user)
{
    (void)user;
    usleep(200);
    ferry_call_fail(call, "this body fails as it should");
    return FERRY_ERROR_CANCELLED;
}

static void
make_failing_kernel(struct world *world)
{
    ferry_parameter parameter = {.element = INT, .access = FERRY_UPDATE};
    ferry_kernel_source source = {.name = "failing",
                                  .host_function = fail_body,
                                  .parameters = &parameter,
                                  .parameter_count = 1};
    if (strcmp(device_of(&world->f, world->f.places)->kind, "cuda") != 0)
        OK(ferry_kernel_create(world->f.context, &source, &world->failing));
}

/* Makes the tested device lazy if the second word of `device` is "lazy". A lazy device delays its
 * work until a call waits for it. */
static void
choose_mode(const char *device)
{
    bool is_lazy = strstr(device, " lazy");
    fault_wrap(is_lazy ? &lazy_kind : &ferryi_emulated_kind);
    fault_status(FERRY_ERROR_DEVICE);
    if (strncmp(device, "cuda", 4) != 0)
        return;
    if (!getenv("FERRY_CUDA_LIBRARY"))
        setenv("FERRY_CUDA_LIBRARY", FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so", 1);
    struct fakecuda fake;
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("FAKECUDA_MODE", is_lazy ? "lazy" : "thread", 1);
    ferryi_gpu_release_kept(&ferryi_cuda_vendor);
    if (fakecuda_find(getenv("FERRY_CUDA_LIBRARY"), &fake))
        fake.fakecuda_set_mode(is_lazy ? "lazy" : "thread");
}

/* Chooses page-locked memory for the test. Uses the memory of the test fixture if the first device
 * can page-lock memory. Otherwise allocates memory from the first device that can. */
static void
take_pinned(struct world *world)
{
    size_t each = sizeof(int32_t) * LENGTH_MAX;
    char *pinned = (char *)world->f.pinned;
    for (int place = 2; world->f.coherent && place <= world->f.places && !world->pinned; place++) {
        const struct ferryi_device_ops *ops = device_of(&world->f, place)->ops;
        if (ops->memory_alloc(device_of(&world->f, place), FERRY_MEMORY_PINNED, each * PLAYERS_MAX,
                              &world->pinned) == FERRY_OK)
            world->pinned_place = place;
    }
    if (world->pinned)
        pinned = world->pinned;
    for (unsigned i = 0; i < PLAYERS_MAX; i++)
        world->players[i].pinned = (int32_t *)(void *)(pinned + each * i);
}

static void
give_pinned(struct world *world)
{
    if (world->pinned)
        OK(device_of(&world->f, world->pinned_place)
               ->ops->memory_free(device_of(&world->f, world->pinned_place), FERRY_MEMORY_PINNED,
                                  world->pinned));
}

void
history_open(struct world *world, const struct history_setup *setup)
{
    memset(world, 0, sizeof(*world));
    world->setup = *setup;
    for (size_t i = 0; i < SUBJECTS; i++)
        pthread_mutex_init(&world->subjects[i].race.mutex, NULL);
    limit_time(world);
    choose_mode(setup->device);
    char devices[64];
    snprintf(devices, sizeof(devices), "%.*s", (int)strcspn(setup->device, " "), setup->device);
    ferry_context_options options = {.devices = devices,
                                     .trace = scene_trace,
                                     .tuning = "staging.chunk=4K staging.chunks=2",
                                     .device_bytes_limit = setup->memory};
    fixture_open(&world->f, &options);
    work_open(&world->f, &world->w);
    make_failing_kernel(world);
    world->injects = strcmp(device_of(&world->f, 1)->kind, "fault") == 0;
    take_pinned(world);
    for (unsigned i = 0; i < setup->players; i++)
        for (unsigned k = 0; k < setup->streams + LOANS; k++)
            world->players[i].streams[k] =
                make_stream(&world->f, 1 + (int)(k % (unsigned)world->f.places));
}

struct history_counts history_counts;

static void
count_evictions(const struct world *world)
{
    for (int place = 1; place <= world->f.places; place++) {
        ferry_pool *pool;
        struct ferryi_pool_counters counters; /* internal counters of the pool, because a test step
                                                 may have reset the public statistics */
        if (ferry_context_pool(world->f.context, place, FERRY_MEMORY_DEVICE, &pool) != FERRY_OK)
            continue;
        ferryi_pool_get_counters(pool, &counters);
        history_counts.evicted += counters.evictions;
    }
}

void
history_close(struct world *world)
{
    ferryi_worker_stop(world->f.context);
    for (int place = 1; place <= world->f.places; place++)
        OK(ferryi_device_synchronize(device_of(&world->f, place)));
    give_pinned(world);
    count_evictions(world);
    for (unsigned i = 0; i < world->setup.players; i++)
        for (unsigned k = 0; k < world->setup.streams + LOANS; k++)
            ferry_stream_destroy(&world->players[i].streams[k]);
    ferry_kernel_destroy(&world->failing);
    for (size_t i = 0; i < SUBJECTS; i++)
        pthread_mutex_destroy(&world->subjects[i].race.mutex);
    work_close(&world->w);
    /* A failure that no status and no event can report is logged as an error. If a failure was
     * injected or memory is limited, such errors are expected and ignored. */
    for (unsigned i = 0; i < world->setup.players; i++)
        if (world->players[i].tripped || world->setup.memory > 0)
            world->f.errors = 0;
    fixture_close(&world->f);
    if (world->injects && fault_live() != 0) {
        fprintf(stderr, "%d things of the device were not given back\n", (int)fault_live());
        abort();
    }
}

void
history_count(struct history_counts *to, const struct history_counts *from)
{
    to->steps += from->steps;
    to->busy += from->busy;
    to->injected += from->injected;
    to->failed += from->failed;
    to->short_of_memory += from->short_of_memory;
    to->evicted += from->evicted;
    to->cut += from->cut;
}

void
history_play(const unsigned char *bytes, size_t count, const struct history_setup *setup)
{
    static struct world world;
    history_open(&world, setup);
    world.bytes = bytes;
    world.step_count = count / STEP_BYTES;
    for (unsigned i = 0; i < setup->players; i++) {
        struct player *p = &world.players[i];
        p->world = &world;
        p->number = i;
        p->next_value = 1 + 100000000 * (int32_t)i;
        p->script = setup->scripts[i];
    }
    for (size_t i = 0; i < SHARED; i++) {
        world.subjects[i].shared = true;
        make_subject(&world.players[0], &world.subjects[i], (unsigned)(35 * i));
    }
    pthread_t threads[PLAYERS_MAX];
    for (unsigned i = 1; i < setup->players; i++)
        if (pthread_create(&threads[i], NULL, run_player, &world.players[i]) != 0)
            abort();
    run_player(&world.players[0]);
    for (unsigned i = 1; i < setup->players; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < SHARED; i++)
        end_subject(&world.players[0], &world.subjects[i], BY_DESTROY);
    history_counts.steps += world.step_count;
    for (unsigned i = 0; i < setup->players; i++)
        history_count(&history_counts, &world.players[i].counts);
    history_close(&world);
}
