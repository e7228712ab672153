/* SPDX-License-Identifier: MIT */
#include "nvector_ferry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct content {
    nvector_ferry *shared; /* borrowed */
    ferry_double_buffer buffer;
    sunindextype length;
    double *pointer; /* that the vector lent; NULL when the scope is closed */
    ferry_scope scope;
    int place; /* of the pointer: the host or the stream's */
};

/* -- failures and pointers ------------------------------------------------------------------------- */

static struct content *
content_of(N_Vector v)
{
    return v->content;
}

/* Remembers the first failure. Returns whether there was none so far. */
static bool
keep(nvector_ferry *shared, ferry_status status)
{
    if (status != FERRY_OK && shared->failure == FERRY_OK) {
        shared->failure = status;
        snprintf(shared->message, sizeof(shared->message), "%s", ferry_last_error());
    }
    return shared->failure == FERRY_OK;
}

static int
result_of(nvector_ferry *shared)
{
    return shared->failure == FERRY_OK ? 0 : -1;
}

/* Ends the pointer that the vector lent. */
static void
take_back(struct content *content)
{
    if (content->pointer) {
        content->pointer = NULL;
        keep(content->shared, ferry_scope_close(&content->scope));
    }
}

static ferry_double_buffer
buffer_of(N_Vector v)
{
    take_back(content_of(v));
    return content_of(v)->buffer;
}

ferry_double_buffer
N_VGetBuffer_Ferry(N_Vector v)
{
    return buffer_of(v);
}

nvector_ferry *
N_VGetShared_Ferry(N_Vector v)
{
    return content_of(v)->shared;
}

static double *
lend(N_Vector v, int place)
{
    struct content *content = content_of(v);
    ferry_status status;
    double *pointer;
    if (content->buffer.raw == NULL)
        return NULL;
    if (content->pointer && content->place == place)
        return content->pointer;
    take_back(content);
    status = place == FERRY_PLACE_HOST
                 ? ferry_double_update_host(content->buffer, &content->scope, &pointer)
                 : ferry_double_update_device(content->buffer, content->shared->stream, &content->scope, &pointer);
    if (!keep(content->shared, status))
        return NULL;
    content->pointer = pointer;
    content->place = place;
    return pointer;
}

static double *
array_pointer(N_Vector v)
{
    return lend(v, FERRY_PLACE_HOST);
}

static double *
device_array_pointer(N_Vector v)
{
    return lend(v, ferry_stream_place(content_of(v)->shared->stream));
}

/* -- a vector's life ------------------------------------------------------------------------------- */

static N_Vector_ID
vector_id(N_Vector v)
{
    (void)v;
    return SUNDIALS_NVEC_CUSTOM;
}

static void
destroy(N_Vector v)
{
    if (v == NULL)
        return;
    if (v->content) {
        take_back(content_of(v));
        ferry_double_destroy(&content_of(v)->buffer);
        free(v->content);
        v->content = NULL;
    }
    N_VFreeEmpty(v);
}

static N_Vector
clone_empty(N_Vector v)
{
    N_Vector made = N_VNewEmpty(v->sunctx);
    struct content *content = calloc(1, sizeof(*content));
    if (made == NULL || content == NULL || N_VCopyOps(v, made) != 0) {
        free(content);
        N_VFreeEmpty(made);
        return NULL;
    }
    content->shared = content_of(v)->shared;
    content->length = content_of(v)->length;
    made->content = content;
    return made;
}

static N_Vector
clone(N_Vector v)
{
    N_Vector made = clone_empty(v);
    if (made && !keep(content_of(made)->shared,
                      ferry_double_create(content_of(made)->shared->context, (size_t)content_of(made)->length, NULL,
                                          &content_of(made)->buffer))) {
        destroy(made);
        return NULL;
    }
    return made;
}

static void
space(N_Vector v, sunindextype *out_reals, sunindextype *out_integers)
{
    *out_reals = content_of(v)->length;
    *out_integers = 1;
}

static sunindextype
length_of(N_Vector v)
{
    return content_of(v)->length;
}

/* -- maps ------------------------------------------------------------------------------------------ */

/* Calls the launch of a kernel with what follows, and keeps its failure. */
#define LAUNCH(shared, kernel, ...) keep(shared, nv_##kernel(&(shared)->kernels, (shared)->stream, __VA_ARGS__))

/* The serial vector treats equal and opposite factors in the same way, so that both compute the same bits. */
static void
linear_sum(sunrealtype a, N_Vector x, sunrealtype b, N_Vector y, N_Vector z)
{
    nvector_ferry *shared = N_VGetShared_Ferry(z);
    if (a == b)
        LAUNCH(shared, scaled_sum, a, buffer_of(x), buffer_of(y), buffer_of(z));
    else if (a == -b)
        LAUNCH(shared, scaled_difference, a, buffer_of(x), buffer_of(y), buffer_of(z));
    else
        LAUNCH(shared, linear_sum, a, buffer_of(x), b, buffer_of(y), buffer_of(z));
}

static void
constant(sunrealtype c, N_Vector z)
{
    LAUNCH(N_VGetShared_Ferry(z), constant, c, buffer_of(z));
}

static void
product(N_Vector x, N_Vector y, N_Vector z)
{
    LAUNCH(N_VGetShared_Ferry(z), product, buffer_of(x), buffer_of(y), buffer_of(z));
}

static void
quotient(N_Vector x, N_Vector y, N_Vector z)
{
    LAUNCH(N_VGetShared_Ferry(z), quotient, buffer_of(x), buffer_of(y), buffer_of(z));
}

static void
scale(sunrealtype c, N_Vector x, N_Vector z)
{
    if (c != 1.0 || x != z)
        LAUNCH(N_VGetShared_Ferry(z), scale, c, buffer_of(x), buffer_of(z));
}

static void
absolute(N_Vector x, N_Vector z)
{
    LAUNCH(N_VGetShared_Ferry(z), absolute, buffer_of(x), buffer_of(z));
}

static void
inverse(N_Vector x, N_Vector z)
{
    LAUNCH(N_VGetShared_Ferry(z), inverse, buffer_of(x), buffer_of(z));
}

static void
add_constant(N_Vector x, sunrealtype b, N_Vector z)
{
    LAUNCH(N_VGetShared_Ferry(z), add_constant, buffer_of(x), b, buffer_of(z));
}

static void
compare(sunrealtype c, N_Vector x, N_Vector z)
{
    LAUNCH(N_VGetShared_Ferry(z), compare, c, buffer_of(x), buffer_of(z));
}

/* -- reductions ------------------------------------------------------------------------------------ */

/* Counts results on their way to the caller. Returns NaN after any failure. */
static sunrealtype
scalar(nvector_ferry *shared, ferry_status status, sunrealtype value)
{
    shared->scalars += status == FERRY_OK;
    return keep(shared, status) ? value : (sunrealtype)NAN;
}

/* Calls a blocking reduction with what follows; NaN after a failure. */
#define REDUCE(shared, value, kernel, ...)                                                                             \
    do {                                                                                                               \
        const ferry_status status_ = nv_##kernel(&(shared)->kernels, (shared)->stream, __VA_ARGS__, &(value));         \
        (value) = scalar(shared, status_, value);                                                                      \
    } while (0)

static sunrealtype
dot(N_Vector x, N_Vector y)
{
    sunrealtype value = 0;
    REDUCE(N_VGetShared_Ferry(x), value, dot, buffer_of(x), buffer_of(y));
    return value;
}

static sunrealtype
max_norm(N_Vector x)
{
    sunrealtype value = 0;
    REDUCE(N_VGetShared_Ferry(x), value, greatest, buffer_of(x));
    return value < 0 ? 0 : value; /* of no elements it is -infinity */
}

static sunrealtype
square_sum(N_Vector x, N_Vector w)
{
    sunrealtype value = 0;
    REDUCE(N_VGetShared_Ferry(x), value, square_sum, buffer_of(x), buffer_of(w));
    return value;
}

static sunrealtype
square_sum_mask(N_Vector x, N_Vector w, N_Vector id)
{
    sunrealtype value = 0;
    REDUCE(N_VGetShared_Ferry(x), value, square_sum_where, buffer_of(x), buffer_of(w), buffer_of(id));
    return value;
}

static sunrealtype
wrms_norm(N_Vector x, N_Vector w)
{
    return sqrt(square_sum(x, w) / (sunrealtype)length_of(x));
}

static sunrealtype
wrms_norm_mask(N_Vector x, N_Vector w, N_Vector id)
{
    return sqrt(square_sum_mask(x, w, id) / (sunrealtype)length_of(x));
}

static sunrealtype
wl2_norm(N_Vector x, N_Vector w)
{
    return sqrt(square_sum(x, w));
}

static sunrealtype
least(N_Vector x)
{
    sunrealtype value = 0;
    REDUCE(N_VGetShared_Ferry(x), value, least, buffer_of(x));
    return value;
}

static sunrealtype
l1_norm(N_Vector x)
{
    sunrealtype value = 0;
    REDUCE(N_VGetShared_Ferry(x), value, absolute_sum, buffer_of(x));
    return value;
}

static sunrealtype
least_quotient(N_Vector x, N_Vector y)
{
    sunrealtype value = 0;
    REDUCE(N_VGetShared_Ferry(x), value, least_quotient, buffer_of(x), buffer_of(y));
    return value;
}

/* x and z may be one vector, so the zeros are counted first. */
static sunbooleantype
inverse_test(N_Vector x, N_Vector z)
{
    sunrealtype value = 0;
    REDUCE(N_VGetShared_Ferry(x), value, any_zero, buffer_of(x));
    LAUNCH(N_VGetShared_Ferry(z), inverse_where, buffer_of(x), buffer_of(z));
    return value <= 0 ? SUNTRUE : SUNFALSE;
}

static sunbooleantype
constraint_mask(N_Vector c, N_Vector x, N_Vector m)
{
    LAUNCH(N_VGetShared_Ferry(m), constraint_mask, buffer_of(c), buffer_of(x), buffer_of(m));
    return max_norm(m) <= 0 ? SUNTRUE : SUNFALSE;
}

/* -- fused operations ------------------------------------------------------------------------------ */

/* z = c[0] x[0] + c[1] x[1] + ..., added from left to right; only x[0] may be z. */
static int
linear_combination(int count, sunrealtype *c, N_Vector *x, N_Vector z)
{
    nvector_ferry *shared = N_VGetShared_Ferry(z);
    int done = count < 4 ? count : 4;
    if (count < 1)
        return -1;
    if (count == 1)
        scale(c[0], x[0], z);
    else if (count == 2)
        linear_sum(c[0], x[0], c[1], x[1], z);
    else if (count == 3)
        LAUNCH(shared, combine_3, c[0], buffer_of(x[0]), c[1], buffer_of(x[1]), c[2], buffer_of(x[2]), buffer_of(z));
    else
        LAUNCH(shared, combine_4, c[0], buffer_of(x[0]), c[1], buffer_of(x[1]), c[2], buffer_of(x[2]), c[3],
               buffer_of(x[3]), buffer_of(z));
    while (count - done >= 3) {
        LAUNCH(shared, add_3, c[done], buffer_of(x[done]), c[done + 1], buffer_of(x[done + 1]), c[done + 2],
               buffer_of(x[done + 2]), buffer_of(z));
        done += 3;
    }
    if (count - done == 2)
        LAUNCH(shared, add_2, c[done], buffer_of(x[done]), c[done + 1], buffer_of(x[done + 1]), buffer_of(z));
    else if (count - done == 1)
        LAUNCH(shared, linear_sum, 1.0, buffer_of(z), c[done], buffer_of(x[done]), buffer_of(z));
    return result_of(shared);
}

/* z[j] = a[j] x + y[j]. */
static int
scale_add_multi(int count, sunrealtype *a, N_Vector x, N_Vector *y, N_Vector *z)
{
    nvector_ferry *shared = N_VGetShared_Ferry(x);
    int done = 0;
    if (count < 1)
        return -1;
    for (; count - done >= 3; done += 3)
        LAUNCH(shared, scale_add_3, buffer_of(x), a[done], buffer_of(y[done]), buffer_of(z[done]), a[done + 1],
               buffer_of(y[done + 1]), buffer_of(z[done + 1]), a[done + 2], buffer_of(y[done + 2]),
               buffer_of(z[done + 2]));
    if (count - done == 2)
        LAUNCH(shared, scale_add_2, buffer_of(x), a[done], buffer_of(y[done]), buffer_of(z[done]), a[done + 1],
               buffer_of(y[done + 1]), buffer_of(z[done + 1]));
    else if (count - done == 1)
        linear_sum(a[done], x, 1.0, y[done], z[done]);
    return result_of(shared);
}

/* One reduction of the pair number `at`, into `out`. */
typedef ferry_status queue_reduction(nvector_ferry *shared, N_Vector *x, N_Vector *y, N_Vector id, int at,
                                     ferry_double_buffer out);

static ferry_status
queue_dot(nvector_ferry *shared, N_Vector *x, N_Vector *y, N_Vector id, int at, ferry_double_buffer out)
{
    (void)id;
    return nv_dot_into(&shared->kernels, shared->stream, buffer_of(x[0]), buffer_of(y[at]), out);
}

static ferry_status
queue_square_sum(nvector_ferry *shared, N_Vector *x, N_Vector *y, N_Vector id, int at, ferry_double_buffer out)
{
    (void)id;
    return nv_square_sum_into(&shared->kernels, shared->stream, buffer_of(x[at]), buffer_of(y[at]), out);
}

static ferry_status
queue_square_sum_where(nvector_ferry *shared, N_Vector *x, N_Vector *y, N_Vector id, int at, ferry_double_buffer out)
{
    return nv_square_sum_where_into(&shared->kernels, shared->stream, buffer_of(x[at]), buffer_of(y[at]), buffer_of(id),
                                    out);
}

/* Queues all reductions, and waits for their results once. */
static int
reduce_all(nvector_ferry *shared, queue_reduction *queue, int count, N_Vector *x, N_Vector *y, N_Vector id,
           sunrealtype *out)
{
    ferry_double_buffer results = {NULL}, one = {NULL};
    ferry_status status;
    if (count < 1)
        return -1;
    status = ferry_double_create(shared->context, (size_t)count, NULL, &results);
    for (int at = 0; at < count && status == FERRY_OK; at++) {
        status = ferry_double_view(results, (size_t)at, 1, &one);
        if (status == FERRY_OK)
            status = queue(shared, x, y, id, at, one);
        ferry_double_destroy(&one);
    }
    if (status == FERRY_OK)
        status = ferry_double_copy_to(results, 0, (size_t)count, out, NULL);
    ferry_double_destroy(&results);
    shared->scalars += status == FERRY_OK ? (uint64_t)count : 0;
    if (!keep(shared, status)) /* the caller may look at the results alone */
        for (int at = 0; at < count; at++)
            out[at] = NAN;
    return result_of(shared);
}

static int
dot_multi(int count, N_Vector x, N_Vector *y, sunrealtype *out)
{
    return reduce_all(N_VGetShared_Ferry(x), queue_dot, count, &x, y, NULL, out);
}

/* -- operations on arrays of vectors --------------------------------------------------------------- */

static int
linear_sum_array(int count, sunrealtype a, N_Vector *x, sunrealtype b, N_Vector *y, N_Vector *z)
{
    nvector_ferry *shared;
    int done = 0;
    if (count < 1)
        return -1;
    shared = N_VGetShared_Ferry(z[0]);
    if (fabs(a) != fabs(b))
        for (; count - done >= 2; done += 2)
            LAUNCH(shared, linear_sum_2, a, b, buffer_of(x[done]), buffer_of(y[done]), buffer_of(z[done]),
                   buffer_of(x[done + 1]), buffer_of(y[done + 1]), buffer_of(z[done + 1]));
    for (; done < count; done++)
        linear_sum(a, x[done], b, y[done], z[done]);
    return result_of(shared);
}

static int
scale_array(int count, sunrealtype *c, N_Vector *x, N_Vector *z)
{
    nvector_ferry *shared;
    int done = 0;
    if (count < 1)
        return -1;
    shared = N_VGetShared_Ferry(z[0]);
    for (; count - done >= 2; done += 2)
        LAUNCH(shared, scale_2, c[done], buffer_of(x[done]), buffer_of(z[done]), c[done + 1], buffer_of(x[done + 1]),
               buffer_of(z[done + 1]));
    if (done < count)
        scale(c[done], x[done], z[done]);
    return result_of(shared);
}

static int
constant_array(int count, sunrealtype c, N_Vector *z)
{
    nvector_ferry *shared;
    int done = 0;
    if (count < 1)
        return -1;
    shared = N_VGetShared_Ferry(z[0]);
    for (; count - done >= 2; done += 2)
        LAUNCH(shared, constant_2, c, buffer_of(z[done]), buffer_of(z[done + 1]));
    if (done < count)
        constant(c, z[done]);
    return result_of(shared);
}

static int
norms(queue_reduction *queue, int count, N_Vector *x, N_Vector *w, N_Vector id, sunrealtype *out)
{
    int failed = count < 1 ? -1 : reduce_all(N_VGetShared_Ferry(x[0]), queue, count, x, w, id, out);
    for (int i = 0; i < count; i++)
        out[i] = sqrt(out[i] / (sunrealtype)length_of(x[i]));
    return failed;
}

static int
wrms_norm_array(int count, N_Vector *x, N_Vector *w, sunrealtype *out)
{
    return norms(queue_square_sum, count, x, w, NULL, out);
}

static int
wrms_norm_mask_array(int count, N_Vector *x, N_Vector *w, N_Vector id, sunrealtype *out)
{
    return norms(queue_square_sum_where, count, x, w, id, out);
}

/* Column `at` of `rows` arrays of vectors. */
static void
take_column(N_Vector *out, N_Vector **arrays, int rows, int at)
{
    for (int row = 0; row < rows; row++)
        out[row] = arrays[row][at];
}

static int
scale_add_multi_array(int count, int sums, sunrealtype *a, N_Vector *x, N_Vector **y, N_Vector **z)
{
    N_Vector *columns;
    int failed = 0;
    if (count < 1 || sums < 1)
        return -1;
    columns = malloc(2 * (size_t)sums * sizeof(N_Vector));
    if (columns == NULL)
        return -1;
    for (int at = 0; at < count && failed == 0; at++) {
        take_column(columns, y, sums, at);
        take_column(columns + sums, z, sums, at);
        failed = scale_add_multi(sums, a, x[at], columns, columns + sums);
    }
    free(columns);
    return failed;
}

static int
linear_combination_array(int count, int sums, sunrealtype *c, N_Vector **x, N_Vector *z)
{
    N_Vector *column;
    int failed = 0;
    if (count < 1 || sums < 1)
        return -1;
    column = malloc((size_t)sums * sizeof(N_Vector));
    if (column == NULL)
        return -1;
    for (int at = 0; at < count && failed == 0; at++) {
        take_column(column, x, sums, at);
        failed = linear_combination(sums, c, column, z[at]);
    }
    free(column);
    return failed;
}

/* -- bytes and text -------------------------------------------------------------------------------- */

static int
packed_bytes(N_Vector v, sunindextype *out)
{
    *out = length_of(v) * (sunindextype)sizeof(sunrealtype);
    return 0;
}

static int
pack(N_Vector v, void *memory)
{
    nvector_ferry *shared = N_VGetShared_Ferry(v);
    if (memory == NULL)
        return -1;
    keep(shared, ferry_double_copy_to(buffer_of(v), 0, (size_t)length_of(v), memory, NULL));
    return result_of(shared);
}

static int
unpack(N_Vector v, void *memory)
{
    nvector_ferry *shared = N_VGetShared_Ferry(v);
    if (memory == NULL)
        return -1;
    keep(shared, ferry_double_copy_from(buffer_of(v), 0, (size_t)length_of(v), memory, NULL));
    return result_of(shared);
}

static void
print_file(N_Vector v, FILE *file)
{
    ferry_scope scope;
    const double *values;
    if (!keep(N_VGetShared_Ferry(v), ferry_double_read_host(buffer_of(v), &scope, &values)))
        return;
    for (sunindextype i = 0; i < length_of(v); i++)
        fprintf(file, "%.16e\n", values[i]);
    fprintf(file, "\n");
    keep(N_VGetShared_Ferry(v), ferry_scope_close(&scope));
}

static void
print(N_Vector v)
{
    print_file(v, stdout);
}

/* -- making vectors -------------------------------------------------------------------------------- */

int
N_VEnableFusedOps_Ferry(N_Vector v, sunbooleantype enable)
{
    if (v == NULL || v->ops == NULL)
        return -1;
    v->ops->nvlinearcombination = enable ? linear_combination : NULL;
    v->ops->nvscaleaddmulti = enable ? scale_add_multi : NULL;
    v->ops->nvdotprodmulti = enable ? dot_multi : NULL;
    v->ops->nvlinearsumvectorarray = enable ? linear_sum_array : NULL;
    v->ops->nvscalevectorarray = enable ? scale_array : NULL;
    v->ops->nvconstvectorarray = enable ? constant_array : NULL;
    v->ops->nvwrmsnormvectorarray = enable ? wrms_norm_array : NULL;
    v->ops->nvwrmsnormmaskvectorarray = enable ? wrms_norm_mask_array : NULL;
    v->ops->nvscaleaddmultivectorarray = enable ? scale_add_multi_array : NULL;
    v->ops->nvlinearcombinationvectorarray = enable ? linear_combination_array : NULL;
    v->ops->nvdotprodmultilocal = enable ? dot_multi : NULL;
    return 0;
}

static void
set_operations(N_Vector v)
{
    N_Vector_Ops ops = v->ops;
    ops->nvgetvectorid = vector_id;
    ops->nvclone = clone;
    ops->nvcloneempty = clone_empty;
    ops->nvdestroy = destroy;
    ops->nvspace = space;
    ops->nvgetarraypointer = array_pointer;
    ops->nvgetdevicearraypointer = device_array_pointer;
    ops->nvgetlength = length_of;
    ops->nvlinearsum = linear_sum;
    ops->nvconst = constant;
    ops->nvprod = product;
    ops->nvdiv = quotient;
    ops->nvscale = scale;
    ops->nvabs = absolute;
    ops->nvinv = inverse;
    ops->nvaddconst = add_constant;
    ops->nvdotprod = ops->nvdotprodlocal = dot;
    ops->nvmaxnorm = ops->nvmaxnormlocal = max_norm;
    ops->nvwrmsnorm = wrms_norm;
    ops->nvwrmsnormmask = wrms_norm_mask;
    ops->nvmin = ops->nvminlocal = least;
    ops->nvwl2norm = wl2_norm;
    ops->nvl1norm = ops->nvl1normlocal = l1_norm;
    ops->nvcompare = compare;
    ops->nvinvtest = ops->nvinvtestlocal = inverse_test;
    ops->nvconstrmask = ops->nvconstrmasklocal = constraint_mask;
    ops->nvminquotient = ops->nvminquotientlocal = least_quotient;
    ops->nvwsqrsumlocal = square_sum;
    ops->nvwsqrsummasklocal = square_sum_mask;
    ops->nvbufsize = packed_bytes;
    ops->nvbufpack = pack;
    ops->nvbufunpack = unpack;
    ops->nvprint = print;
    ops->nvprintfile = print_file;
}

N_Vector
N_VMake_Ferry(nvector_ferry *vectors, ferry_double_buffer buffer, SUNContext sunctx)
{
    N_Vector made = N_VNewEmpty(sunctx);
    struct content *content = calloc(1, sizeof(*content));
    if (made == NULL || content == NULL) {
        free(content);
        N_VFreeEmpty(made);
        return NULL;
    }
    content->shared = vectors;
    content->buffer = ferry_double_retain(buffer);
    content->length = (sunindextype)ferry_double_count(buffer);
    made->content = content;
    set_operations(made);
    N_VEnableFusedOps_Ferry(made, SUNTRUE);
    return made;
}

N_Vector
N_VNew_Ferry(nvector_ferry *vectors, sunindextype length, SUNContext sunctx)
{
    ferry_double_buffer buffer = {NULL};
    N_Vector made;
    if (length < 0 || !keep(vectors, ferry_double_create(vectors->context, (size_t)length, NULL, &buffer)))
        return NULL;
    made = N_VMake_Ferry(vectors, buffer, sunctx);
    ferry_double_destroy(&buffer);
    return made;
}

ferry_status
nvector_ferry_create(ferry_context *context, ferry_stream *stream, nvector_ferry *out)
{
    nvector_ferry made;
    ferry_status status;
    memset(&made, 0, sizeof(made));
    made.context = context;
    made.stream = stream ? stream : ferry_context_stream(context, 1);
    status = nv_kernels_create(context, &made.kernels);
    if (status == FERRY_OK)
        *out = made;
    return status;
}

void
nvector_ferry_destroy(nvector_ferry *vectors)
{
    if (vectors)
        nv_kernels_destroy(&vectors->kernels);
}
