/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdlib.h>

#include "exchange_abi.h"

/* What stands in the struct instead of the original end. */
struct border {
    struct ferrypy_deferred node;
    ferry_buffer *buffer; /* of an export */
    ferry_context *context;
    void *manager; /* what the struct had */
    void *struct_;
    union {
        void (*versioned)(struct DLManagedTensorVersioned *self);
        void (*legacy)(struct DLManagedTensor *self);
        void (*arrow)(struct ArrowArray *self);
    } end;
    struct ArrowArray array; /* of an import: its consumer frees the struct itself */
};

/* -- exports ----------------------------------------------------------------------------------- */

/* The list frees the struct. */
static void
give_back(void *object)
{
    struct border *border = object;

    ferry_buffer_destroy(&border->buffer);
    ferry_context_destroy(&border->context);
}

static struct border *
lend(struct array_object *array, void *manager)
{
    struct border *border = calloc(1, sizeof(*border));

    if (!border) {
        PyErr_NoMemory();
        return NULL;
    }
    border->node = (struct ferrypy_deferred){.release = give_back, .object = border};
    border->buffer = ferry_buffer_retain(array->buffer);
    border->context = ferry_context_retain(array->context->context);
    border->manager = manager;
    return border;
}

static void
end_lent_versioned(struct DLManagedTensorVersioned *self)
{
    struct border *border = self->manager;

    self->manager = border->manager;
    self->deleter = border->end.versioned;
    border->end.versioned(self);
    ferrypy_defer(&border->node);
}

bool
ferrypy_lend_versioned(struct DLManagedTensorVersioned *tensor, struct array_object *array)
{
    struct border *border = lend(array, tensor->manager);

    if (border) {
        border->end.versioned = tensor->deleter;
        tensor->manager = border;
        tensor->deleter = end_lent_versioned;
    }
    return border != NULL;
}

static void
end_lent_legacy(struct DLManagedTensor *self)
{
    struct border *border = self->manager;

    self->manager = border->manager;
    self->deleter = border->end.legacy;
    border->end.legacy(self);
    ferrypy_defer(&border->node);
}

bool
ferrypy_lend_legacy(struct DLManagedTensor *tensor, struct array_object *array)
{
    struct border *border = lend(array, tensor->manager);

    if (border) {
        border->end.legacy = tensor->deleter;
        tensor->manager = border;
        tensor->deleter = end_lent_legacy;
    }
    return border != NULL;
}

static void
end_lent_arrow(struct ArrowArray *self)
{
    struct border *border = self->private_data;

    self->private_data = border->manager;
    self->release = border->end.arrow;
    border->end.arrow(self);
    ferrypy_defer(&border->node);
}

bool
ferrypy_lend_arrow(struct ArrowArray *arrow, struct array_object *array)
{
    struct border *border = lend(array, arrow->private_data);

    if (border) {
        border->end.arrow = arrow->release;
        arrow->private_data = border;
        arrow->release = end_lent_arrow;
    }
    return border != NULL;
}

/* -- imports ----------------------------------------------------------------------------------- */

static struct border *
take(ferrypy_release *release, void *manager, void *struct_)
{
    struct border *border = calloc(1, sizeof(*border));

    if (!border) {
        PyErr_NoMemory();
        return NULL;
    }
    border->node =
        (struct ferrypy_deferred){.release = release, .object = border, .needs_interpreter = true};
    border->manager = manager;
    border->struct_ = struct_;
    return border;
}

void
ferrypy_untake_versioned(struct DLManagedTensorVersioned *tensor)
{
    struct border *border = tensor->deleter ? tensor->manager : NULL;

    if (!border)
        return;
    tensor->manager = border->manager;
    tensor->deleter = border->end.versioned;
    free(border);
}

static void
end_taken_versioned_now(void *object)
{
    struct DLManagedTensorVersioned *tensor = ((struct border *)object)->struct_;

    ferrypy_untake_versioned(tensor);
    tensor->deleter(tensor);
}

static void
end_taken_versioned(struct DLManagedTensorVersioned *self)
{
    ferrypy_defer(&((struct border *)self->manager)->node);
}

bool
ferrypy_take_versioned(struct DLManagedTensorVersioned *tensor)
{
    struct border *border;

    if (!tensor->deleter)
        return true;
    border = take(end_taken_versioned_now, tensor->manager, tensor);
    if (border) {
        border->end.versioned = tensor->deleter;
        tensor->manager = border;
        tensor->deleter = end_taken_versioned;
    }
    return border != NULL;
}

void
ferrypy_untake_legacy(struct DLManagedTensor *tensor)
{
    struct border *border = tensor->deleter ? tensor->manager : NULL;

    if (!border)
        return;
    tensor->manager = border->manager;
    tensor->deleter = border->end.legacy;
    free(border);
}

static void
end_taken_legacy_now(void *object)
{
    struct DLManagedTensor *tensor = ((struct border *)object)->struct_;

    ferrypy_untake_legacy(tensor);
    tensor->deleter(tensor);
}

static void
end_taken_legacy(struct DLManagedTensor *self)
{
    ferrypy_defer(&((struct border *)self->manager)->node);
}

bool
ferrypy_take_legacy(struct DLManagedTensor *tensor)
{
    struct border *border;

    if (!tensor->deleter)
        return true;
    border = take(end_taken_legacy_now, tensor->manager, tensor);
    if (border) {
        border->end.legacy = tensor->deleter;
        tensor->manager = border;
        tensor->deleter = end_taken_legacy;
    }
    return border != NULL;
}

void
ferrypy_untake_arrow(struct ArrowArray *arrow)
{
    struct border *border = arrow->private_data;

    arrow->private_data = border->manager;
    arrow->release = border->end.arrow;
    free(border);
}

static void
end_taken_arrow_now(void *object)
{
    struct ArrowArray array = ((struct border *)object)->array;

    ferrypy_untake_arrow(&array);
    array.release(&array);
}

static void
end_taken_arrow(struct ArrowArray *self)
{
    struct border *border = self->private_data;

    border->array = *self;
    self->release = NULL;
    ferrypy_defer(&border->node);
}

bool
ferrypy_take_arrow(struct ArrowArray *arrow)
{
    struct border *border = take(end_taken_arrow_now, arrow->private_data, arrow);

    if (border) {
        border->end.arrow = arrow->release;
        arrow->private_data = border;
        arrow->release = end_taken_arrow;
    }
    return border != NULL;
}
