/* SPDX-License-Identifier: MIT */
/* Scenes that check which objects keep a context alive. The scenes destroy these objects in
 * different orders and on different threads. */
#include "tests/histories/scenes.h"

#include <sched.h>
#include <unistd.h>

/* Bits of the objects that a scene destroys: a context, its second handle, a buffer and a view of
 * the buffer. The lower bits are the parts of a lease (loan.h). */
enum {
    CONTEXT = 1 << PARTS,
    SECOND = 2 << PARTS,
    BUFFER = 4 << PARTS,
    VIEW = 8 << PARTS,
    ITEMS = PARTS + 4
};

struct owned {
    const struct scene *scene;
    ferry_context *context, *second;
    ferry_buffer *buffer, *view;
    struct loan loan;
    unsigned items, last,
        order; /* items: bits of the objects to destroy; last: bit of the owner that is destroyed
                  last; order: selects the order of the other objects */
    /* ended: number of log messages about contexts that a separate thread has ended; errors: number
     * of error messages */
    atomic_int ended, errors;
};

static void
note(ferry_log_level level, const char *message, void *user)
{
    struct owned *o = user;
    if (level == FERRY_LOG_ERROR) {
        fprintf(stderr, "%s\n", message);
        atomic_fetch_add(&o->errors, 1);
    }
    if (strstr(message, "has ended it"))
        atomic_fetch_add(&o->ended, 1);
}

static void
give_back(struct owned *o, unsigned item)
{
    switch (item) {
    case CONTEXT:
        ferry_context_destroy(&o->context);
        break;
    case SECOND:
        ferry_context_destroy(&o->second);
        break;
    case BUFFER:
        ferry_buffer_destroy(&o->buffer);
        break;
    case VIEW:
        ferry_buffer_destroy(&o->view);
        break;
    default:
        loan_drop_part(&o->loan, item);
        break;
    }
}

/* Destroys those objects whose bits are in both `mine` and `o->items`. Two threads call this
 * function at the same time with different bits. */
static void
give_back_some(struct owned *o, unsigned mine)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        unsigned item = 1u << (i * 3 + o->order) % ITEMS;
        if (item & mine & o->items)
            give_back(o, item);
    }
}

static void *
give_back_odd(void *owned)
{
    give_back_some(owned, 0x2aa);
    return NULL;
}

static void
give_back_last(void *owned)
{
    struct owned *o = owned;
    give_back(o, o->last);
}

static void
give_back_in_release(void *memory, void *owned)
{
    (void)memory;
    give_back_last(owned);
}

/* Opens a lease of the buffer and exports the lease. In some variants, also imports the export as a
 * buffer. */
static bool
lend(struct owned *o)
{
    const struct scene *s = o->scene;
    ferry_lease_options options = {.access = s->flags & 1 ? FERRY_UPDATE : FERRY_READ,
                                   .place = (s->flags >> 1) & 1,
                                   .label = "an owner"};
    if (!WENT(s, ferry_buffer_create_from(o->context, INT, 3, (int[]){7, 7, 7}, NULL, &o->buffer)))
        return false;
    if (!WENT(s, ferry_buffer_view(o->buffer, INT, 1, 2, &o->view)) ||
        !WENT(s, loan_open(&o->loan, s->flags & 4 ? o->view : o->buffer, &options)))
        return false;
    (void)WENT(s, loan_export(&o->loan, VERSIONED));
    ferry_status status = s->offset & 1 ? loan_import(&o->loan, o->context, NULL) : FERRY_OK;
    if (status != FERRY_OK)
        AMONG(status, FERRY_ERROR_UNSUPPORTED);
    if (!o->loan.versioned)
        (void)WENT(s, loan_export(&o->loan, VERSIONED));
    (void)WENT(s, loan_export(&o->loan, s->flags & 1 ? LEGACY : ARROW));
    return true;
}

/* Destroys the last owner of the context, so that the context ends. If this owner is a part of a
 * lease, or a release callback destroys it, the library must end the context on a separate thread.
 */
static void
end_last(struct owned *o)
{
    const struct scene *s = o->scene;
    static const int memory[4];
    ferry_wrap_options options = {.read_only = true, .on_release = give_back_in_release, .user = o};
    ferry_buffer *wrap;
    bool apart = o->last < CONTEXT;
    if (s->flags & 8 &&
        WENT(s, ferry_buffer_wrap_host(s->world->f.context, INT, 4, (void *)(uintptr_t)memory,
                                       &options, &wrap))) {
        apart = true;
        ferry_buffer_destroy(&wrap);
    } else
        run_elsewhere(give_back_last, o);
    while (apart && atomic_load(&o->ended) == 0 && atomic_load(&o->errors) == 0)
        sched_yield();
    if (atomic_load(&o->ended) != apart || atomic_load(&o->errors) > 0)
        SCENE_WRONG("a context has ended on %d threads of its own instead of %d, with %d errors",
                    (int)o->ended, apart, (int)o->errors);
}

/* Two threads destroy all objects of a context, except one owner of the context. The scene then
 * destroys this last owner, and checks that the context ends. */
void
scene_owners(const struct scene *s)
{
    struct owned o = {
        .scene = s, .order = (unsigned)s->count, .loan = {.order = (unsigned)s->count}};
    char devices[64];
    pthread_t thread;
    snprintf(devices, sizeof(devices), "%.*s", (int)strcspn(s->world->setup.device, " "),
             s->world->setup.device);
    /* The fake CUDA driver cannot end two contexts of one GPU at the same time. So a test with
     * several threads uses the emulated device here. */
    ferry_context_options options = {.devices = s->world->setup.players == 1 ? devices : "emulated",
                                     .log = note,
                                     .log_user = &o};
    if (!WENT(s, ferry_context_create(&options, &o.context)))
        return;
    o.second = ferry_context_retain(o.context);
    if (!lend(&o))
        SCENE_WRONG("nothing is lent");
    const int *lent = (s->flags & 6) == 0 || (s->flags & 6) == 4 ? o.loan.memory : NULL;
    o.items = loan_parts(&o.loan) | CONTEXT | SECOND | BUFFER | VIEW;
    unsigned owners = o.items & ~(unsigned)(BUFFER | VIEW), which = (unsigned)(s->offset % ITEMS);
    while (!(owners & 1u << which))
        which = (which + 1) % ITEMS;
    o.last = 1u << which;
    o.items &= ~o.last;
    if (pthread_create(&thread, NULL, give_back_odd, &o) != 0)
        SCENE_WRONG("no thread");
    give_back_some(&o, 0x155);
    pthread_join(thread, NULL);
    if (lent && o.last < CONTEXT && lent[0] != 7)
        SCENE_WRONG("the last owner has %d instead of 7", lent[0]);
    end_last(&o);
}
