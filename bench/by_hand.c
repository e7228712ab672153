/* SPDX-License-Identifier: MIT */
#include "by_hand.h"
#include "by_hand_driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256, BLOCKS = 1024 };

struct content {
    struct by_hand *by_hand;
    uint64_t address;
    sunindextype length;
};

/* Calls the macro X(name) for the entry point of each kernel. */
/* clang-format off */
#define ENTRIES(X) \
    X(nv_linear_sum) \
    X(nv_scaled_sum) \
    X(nv_scaled_difference) \
    X(nv_constant) \
    X(nv_product) \
    X(nv_quotient) \
    X(nv_scale) \
    X(nv_absolute) \
    X(nv_inverse) \
    X(nv_add_constant) \
    X(nv_dot) \
    X(nv_dot_into) \
    X(nv_square_sum) \
    X(nv_square_sum_into) \
    X(nv_greatest) \
    X(nv_greatest_into) \
    X(nv_least) \
    X(nv_least_into) \
    X(heat_laplacian)
/* clang-format on */

#define NAME(entry) #entry,
static const char *const entries[] = {ENTRIES(NAME)};
#undef NAME
enum { ENTRY_COUNT = sizeof(entries) / sizeof(entries[0]) };
static void *functions[ENTRY_COUNT];

/* PTX text of the module that contains the kernels. The kernels have no code, because the fake
 * driver only searches the text for their names. */
#define TEXT(entry) ".visible .entry " #entry "() {}\n"
static const char image[] = ".version 7.0\n" ENTRIES(TEXT);
#undef TEXT

static struct by_hand_driver loaded;

static void
keep(struct by_hand *by_hand, int status)
{
    if (status != 0 && by_hand->failure == 0)
        by_hand->failure = status;
}

bool
by_hand_open(struct by_hand *out)
{
    struct by_hand made;
    void *scalar = NULL;
    int device = 0;
    memset(&made, 0, sizeof(made));
    if (!by_hand_driver_load_fake(&loaded))
        return false;
    made.driver = &loaded;
    keep(&made, loaded.cuInit(0));
    keep(&made, loaded.cuDeviceGet(&device, 0));
    keep(&made, loaded.cuDevicePrimaryCtxRetain(&made.context, device));
    keep(&made, loaded.cuCtxPushCurrent_v2(made.context));
    keep(&made, loaded.cuStreamCreate(&made.stream, 1));
    keep(&made, loaded.cuMemAlloc_v2(&made.partial, BLOCKS * sizeof(double)));
    keep(&made, loaded.cuMemAlloc_v2(&made.result, sizeof(double)));
    keep(&made, loaded.cuMemHostAlloc(&scalar, sizeof(double), 1));
    keep(&made, loaded.cuModuleLoadDataEx(&made.module, image, 0, NULL, NULL));
    for (int i = 0; i < ENTRY_COUNT && made.failure == 0; i++)
        keep(&made, loaded.cuModuleGetFunction(&functions[i], made.module, entries[i]));
    made.scalar = scalar;
    *out = made;
    return made.failure == 0;
}

void
by_hand_close(struct by_hand *by_hand)
{
    void *context;
    loaded.cuModuleUnload(by_hand->module);
    loaded.cuMemFreeHost(by_hand->scalar);
    loaded.cuMemFree_v2(by_hand->result);
    loaded.cuMemFree_v2(by_hand->partial);
    loaded.cuStreamDestroy_v2(by_hand->stream);
    loaded.cuCtxPopCurrent_v2(&context);
    loaded.cuDevicePrimaryCtxRelease_v2(0);
}

static void
launch(struct by_hand *by_hand, const char *entry, unsigned blocks, void **arguments)
{
    for (int i = 0; i < ENTRY_COUNT; i++)
        if (strcmp(entries[i], entry) == 0) {
            keep(by_hand, loaded.cuLaunchKernel(functions[i], blocks, 1, 1, BLOCK, 1, 1, 0,
                                                by_hand->stream, arguments, NULL));
            return;
        }
    keep(by_hand, -1);
}

void
by_hand_launch(struct by_hand *by_hand, const char *entry, size_t items, void **arguments)
{
    launch(by_hand, entry, (unsigned)((items + BLOCK - 1) / BLOCK), arguments);
}

/* -- vectors ----------------------------------------------------------------------------------- */

static struct content *
content_of(N_Vector v)
{
    return v->content;
}

uint64_t
by_hand_address(N_Vector v)
{
    return content_of(v)->address;
}

void
by_hand_upload(N_Vector v, const double *values)
{
    struct by_hand *by_hand = content_of(v)->by_hand;
    const size_t bytes = (size_t)content_of(v)->length * sizeof(double);
    keep(by_hand,
         loaded.cuMemcpyHtoDAsync_v2(content_of(v)->address, values, bytes, by_hand->stream));
    keep(by_hand, loaded.cuStreamSynchronize(by_hand->stream));
    by_hand->up += bytes;
}

void
by_hand_download(N_Vector v, double *out)
{
    struct by_hand *by_hand = content_of(v)->by_hand;
    const size_t bytes = (size_t)content_of(v)->length * sizeof(double);
    keep(by_hand, loaded.cuMemcpyDtoHAsync_v2(out, content_of(v)->address, bytes, by_hand->stream));
    keep(by_hand, loaded.cuStreamSynchronize(by_hand->stream));
    by_hand->down += bytes;
}

static void
map(N_Vector z, const char *entry, void **arguments)
{
    by_hand_launch(content_of(z)->by_hand, entry, (size_t)content_of(z)->length, arguments);
}

static void
linear_sum(double a, N_Vector x, double b, N_Vector y, N_Vector z)
{
    struct content *from = content_of(x), *other = content_of(y), *to = content_of(z);
    void *scaled[] = {&a, &from->address, &other->address, &to->address, &to->length};
    void *general[] = {&a, &from->address, &b, &other->address, &to->address, &to->length};
    if (a == b)
        map(z, "nv_scaled_sum", scaled);
    else if (a == -b)
        map(z, "nv_scaled_difference", scaled);
    else
        map(z, "nv_linear_sum", general);
}

static void
constant(double c, N_Vector z)
{
    void *arguments[] = {&c, &content_of(z)->address, &content_of(z)->length};
    map(z, "nv_constant", arguments);
}

static void
two_to_one(const char *entry, N_Vector x, N_Vector y, N_Vector z)
{
    void *arguments[] = {&content_of(x)->address, &content_of(y)->address, &content_of(z)->address,
                         &content_of(z)->length};
    map(z, entry, arguments);
}

static void
product(N_Vector x, N_Vector y, N_Vector z)
{
    two_to_one("nv_product", x, y, z);
}

static void
quotient(N_Vector x, N_Vector y, N_Vector z)
{
    two_to_one("nv_quotient", x, y, z);
}

static void
scale(double c, N_Vector x, N_Vector z)
{
    void *arguments[] = {&c, &content_of(x)->address, &content_of(z)->address,
                         &content_of(z)->length};
    if (c != 1.0 || x != z)
        map(z, "nv_scale", arguments);
}

static void
one_to_one(const char *entry, N_Vector x, N_Vector z)
{
    void *arguments[] = {&content_of(x)->address, &content_of(z)->address, &content_of(z)->length};
    map(z, entry, arguments);
}

static void
absolute(N_Vector x, N_Vector z)
{
    one_to_one("nv_absolute", x, z);
}

static void
inverse(N_Vector x, N_Vector z)
{
    one_to_one("nv_inverse", x, z);
}

static void
add_constant(N_Vector x, double b, N_Vector z)
{
    void *arguments[] = {&content_of(x)->address, &b, &content_of(z)->address,
                         &content_of(z)->length};
    map(z, "nv_add_constant", arguments);
}

/* Launches the two kernels of a reduction, copies the 8 bytes of the result to the host, and waits
 * for the copy. */
static double
reduce(const char *entry, const char *finish, N_Vector x, N_Vector y)
{
    struct content *content = content_of(x);
    struct by_hand *by_hand = content->by_hand;
    size_t blocks = (size_t)content->length / (4 * BLOCK);
    void *arguments[4];
    void *finished[] = {&by_hand->partial, &by_hand->result, &blocks};
    int at = 0;
    blocks = blocks < BLOCKS ? blocks + 1 : BLOCKS;
    arguments[at++] = &content->address;
    if (y)
        arguments[at++] = &content_of(y)->address;
    arguments[at++] = &by_hand->partial;
    arguments[at++] = &content->length;
    launch(by_hand, entry, (unsigned)blocks, arguments);
    launch(by_hand, finish, 1, finished);
    keep(by_hand, loaded.cuMemcpyDtoHAsync_v2(by_hand->scalar, by_hand->result, sizeof(double),
                                              by_hand->stream));
    keep(by_hand, loaded.cuStreamSynchronize(by_hand->stream));
    by_hand->down += sizeof(double);
    return *by_hand->scalar;
}

static double
dot(N_Vector x, N_Vector y)
{
    return reduce("nv_dot", "nv_dot_into", x, y);
}

static double
max_norm(N_Vector x)
{
    return reduce("nv_greatest", "nv_greatest_into", x, NULL);
}

static double
wrms_norm(N_Vector x, N_Vector w)
{
    return sqrt(reduce("nv_square_sum", "nv_square_sum_into", x, w) /
                (double)content_of(x)->length);
}

static double
least(N_Vector x)
{
    return reduce("nv_least", "nv_least_into", x, NULL);
}

static sunindextype
length_of(N_Vector v)
{
    return content_of(v)->length;
}

static void
destroy(N_Vector v)
{
    if (v->content)
        keep(content_of(v)->by_hand, loaded.cuMemFree_v2(content_of(v)->address));
    free(v->content);
    v->content = NULL;
    N_VFreeEmpty(v);
}

static N_Vector
create(struct by_hand *by_hand, sunindextype length, SUNContext sunctx)
{
    N_Vector made = N_VNewEmpty(sunctx);
    struct content *content = calloc(1, sizeof(*content));
    if (!made || !content ||
        loaded.cuMemAlloc_v2(&content->address, (size_t)length * sizeof(double)) != 0) {
        free(content);
        N_VFreeEmpty(made);
        return NULL;
    }
    content->by_hand = by_hand;
    content->length = length;
    made->content = content;
    return made;
}

static N_Vector
clone(N_Vector v)
{
    N_Vector made = create(content_of(v)->by_hand, content_of(v)->length, v->sunctx);
    if (made)
        N_VCopyOps(v, made);
    return made;
}

N_Vector
by_hand_vector(struct by_hand *by_hand, sunindextype length, SUNContext sunctx)
{
    N_Vector made = create(by_hand, length, sunctx);
    if (!made)
        return NULL;
    made->ops->nvclone = clone;
    made->ops->nvdestroy = destroy;
    made->ops->nvgetlength = length_of;
    made->ops->nvlinearsum = linear_sum;
    made->ops->nvconst = constant;
    made->ops->nvprod = product;
    made->ops->nvdiv = quotient;
    made->ops->nvscale = scale;
    made->ops->nvabs = absolute;
    made->ops->nvinv = inverse;
    made->ops->nvaddconst = add_constant;
    made->ops->nvdotprod = dot;
    made->ops->nvmaxnorm = max_norm;
    made->ops->nvwrmsnorm = wrms_norm;
    made->ops->nvmin = least;
    return made;
}
