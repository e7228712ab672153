/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/buffer/lease.h"
#include "src/exchange/exchange.h"

/* Exports leases with READ access as Arrow arrays. The elements must be numbers. */

/* The private data of an exported array. */
struct array {
    ferry_lease *lease;
    const void *buffers[2]; /* no validity bitmap; the values */
};

static void
release_array(struct ArrowArray *self)
{
    struct array *array = self->private_data;
    self->release = NULL;
    ferry_lease_destroy(&array->lease);
    free(array);
}

static void
release_schema(struct ArrowSchema *self)
{
    self->release = NULL;
    free(self->private_data);
}

/* Waits until the lease's bytes are ready for every stream, because it is not known which stream
 * the consumer will use. */
static ferry_status
wait_for_bytes(const ferry_lease *lease)
{
    ferry_scope scope;
    if (lease->place == FERRY_PLACE_HOST || lease->is_unordered)
        return FERRY_OK;
    *ferryi_scope_of(&scope) = lease->scope;
    return ferry_scope_wait(&scope);
}

/* Fills in the Arrow array, which becomes the owner of the lease that ferryi_export_begin() added.
 */
static ferry_status
fill_array(ferry_lease *lease, struct ArrowDeviceArray *out)
{
    int32_t type, id;
    FERRYI_OR_RETURN(wait_for_bytes(lease));
    FERRYI_OR_RETURN(ferry_context_exchange_device(lease->context, lease->place, &type, &id));
    struct array *array = malloc(sizeof(*array));
    if (!array)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof(*array));
    *array = (struct array){.lease = lease, .buffers = {NULL, lease->pointer}};
    *out = (struct ArrowDeviceArray){
        .array = {.length = (int64_t)(lease->bytes / lease->element->bytes),
                  .n_buffers = 2,
                  .buffers = array->buffers,
                  .release = release_array,
                  .private_data = array},
        .device_id = type == FERRYI_DL_CPU ? -1 : id,
        .device_type = type};
    return FERRY_OK;
}

static ferry_status
make_format(const ferry_lease *lease, char **out)
{
    char text[8];
    if (lease->access != FERRY_READ)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "Arrow arrays do not change, and the lease may write");
    if (ferry_element_text(lease->element, FERRY_TEXT_ARROW, text, sizeof(text)) == 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "Arrow has no format for %s",
                           lease->element->name);
    *out = strdup(text);
    return *out ? FERRY_OK : ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for its schema");
}

ferry_status
ferry_lease_export_arrow(ferry_lease *lease, struct ArrowDeviceArray *out,
                         struct ArrowSchema *out_schema)
{
    static const char what[] = "export a lease as an Arrow array";
    char *format = NULL;
    ferry_status status = ferryi_export_begin(lease, out_schema ? out : NULL, what);
    if (status != FERRY_OK || !out_schema)
        return status;
    status = make_format(lease, &format);
    if (status == FERRY_OK)
        status = fill_array(lease, out);
    if (status != FERRY_OK) {
        free(format);
        return ferryi_export_fail(lease, status, what);
    }
    *out_schema = (struct ArrowSchema){
        .format = format, .name = "", .release = release_schema, .private_data = format};
    return FERRY_OK;
}
