/* SPDX-License-Identifier: MIT */
#include "src/buffer/element.h"

#include <stdlib.h>
#include <string.h>

#include <ferry/exchange.h>

#include "src/base/fork.h"

/* -- content ----------------------------------------------------------------------------------- */

static bool
is_scalar_width(ferry_kind kind, uint32_t bits)
{
    switch (kind) {
    case FERRY_KIND_FLOAT:
        return bits == 16 || bits == 32 || bits == 64;
    case FERRY_KIND_BFLOAT:
        return bits == 16;
    case FERRY_KIND_INT:
    case FERRY_KIND_UINT:
        return bits == 8 || bits == 16 || bits == 32 || bits == 64;
    case FERRY_KIND_BOOL:
        return bits == 8;
    case FERRY_KIND_COMPLEX:
        return bits == 32 || bits == 64 || bits == 128;
    case FERRY_KIND_STRUCT:
        break;
    }
    return false;
}

/* Returns whether all fields of a struct are scalars or arrays of scalars. The fields must also lie
 * inside the struct, in ascending order, and must not overlap. */
static bool
are_fields_well_formed(const ferry_element *element)
{
    size_t end = 0;

    if (!element->fields || element->field_count == 0)
        return false;
    for (size_t i = 0; i < element->field_count; i++) {
        const ferry_field *field = &element->fields[i];
        size_t bytes;
        if (!is_scalar_width(field->kind, field->bits) || field->count == 0 || field->offset < end)
            return false;
        if (!ferryi_mul_size(field->count, field->bits / 8, &bytes) ||
            !ferryi_add_size(field->offset, bytes, &end))
            return false;
        if (end > element->bytes)
            return false;
    }
    return true;
}

static bool
is_well_formed(const ferry_element *element)
{
    if (!element || element->bytes == 0)
        return false;
    if (!ferryi_is_power_of_two(element->align) || element->bytes % element->align != 0)
        return false;
    if (element->kind == FERRY_KIND_STRUCT)
        return element->bits == 0 && are_fields_well_formed(element);
    return is_scalar_width(element->kind, element->bits) && element->bytes == element->bits / 8 &&
           element->field_count == 0;
}

/* Adds one little-endian 64-bit word to an FNV-1a hash. */
static uint64_t
hash_word(uint64_t hash, uint64_t word)
{
    for (int byte = 0; byte < 8; byte++) {
        hash ^= word & 0xff;
        hash *= UINT64_C(1099511628211);
        word >>= 8;
    }
    return hash;
}

uint64_t
ferry_element_identity(const ferry_element *element)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    if (!is_well_formed(element))
        return 0;
    hash = hash_word(hash, (uint64_t)element->kind);
    hash = hash_word(hash, element->bits);
    hash = hash_word(hash, element->bytes);
    hash = hash_word(hash, element->align);
    for (size_t i = 0; i < element->field_count; i++) {
        const ferry_field *field = &element->fields[i];
        hash = hash_word(hash, (uint64_t)field->kind);
        hash = hash_word(hash, field->bits);
        hash = hash_word(hash, field->offset);
        hash = hash_word(hash, field->count);
    }
    return hash;
}

static bool
is_same_field(const ferry_field *a, const ferry_field *b)
{
    return a->kind == b->kind && a->bits == b->bits && a->offset == b->offset &&
           a->count == b->count;
}

/* Compares two well-formed elements. */
static bool
is_same_content(const ferry_element *a, const ferry_element *b)
{
    if (a->kind != b->kind || a->bits != b->bits)
        return false;
    if (a->kind != FERRY_KIND_STRUCT)
        return true;
    if (a->bytes != b->bytes || a->align != b->align || a->field_count != b->field_count)
        return false;
    for (size_t i = 0; i < a->field_count; i++) {
        if (!is_same_field(&a->fields[i], &b->fields[i]))
            return false;
    }
    return true;
}

bool
ferry_element_equal(const ferry_element *a, const ferry_element *b)
{
    return is_well_formed(a) && is_well_formed(b) && is_same_content(a, b);
}

const ferry_element *
ferry_size_element(void)
{
    static const ferry_element element = {
        .name = "size",
        .c_type = "size_t",
#if SIZE_MAX == UINT64_MAX
        .identity = UINT64_C(0xcd4f6be6a865cc61),
#else
        .identity = UINT64_C(0x8c21a7518f867841),
#endif
        .bytes = sizeof(size_t),
        .align = sizeof(size_t),
        .kind = FERRY_KIND_UINT,
        .bits = 8 * sizeof(size_t),
    };
    return &element;
}

const char *
ferryi_element_namesake(const ferry_element *a, const ferry_element *b)
{
    bool same = a && b && a->name && b->name && strcmp(a->name, b->name) == 0;
    return same ? " of other content, which has the same name" : "";
}

/* -- interning --------------------------------------------------------------------------------- */

struct entry {
    struct entry *next;
    ferry_element element;
};

#define BUCKETS 256

/* Hash tables of element types. `buckets` has one entry for each distinct content. `exact_buckets`
 * has one entry for each distinct description, which includes all names. A new entry is filled in
 * first, and then added at the head of a bucket's list, under the lock. Entries are never removed.
 * So a thread can search a list without the lock. */
static _Atomic(struct entry *) buckets[BUCKETS], exact_buckets[BUCKETS];
FERRYI_MUTEX_CLASS(ferryi_intern_mutex);
static struct ferryi_intern_mutex intern_lock = FERRYI_MUTEX_INITIALIZER;
static struct ferryi_fork_part interning = {.mutex = FERRYI_SYSTEM_MUTEX(&intern_lock)};
FERRYI_AT_FORK(interning)

/* Returns the bucket for the element type in one of the two hash tables. In the table `buckets`,
 * scalars of the same kind and width share a bucket even if their alignments differ, because they
 * count as the same element type. */
static _Atomic(struct entry *) *
bucket_of(const ferry_element *element, bool exact)
{
    if (exact)
        return &exact_buckets[element->identity % BUCKETS];
    if (element->kind != FERRY_KIND_STRUCT)
        return &buckets[((uint32_t)element->kind * 64 + element->bits) % BUCKETS];
    return &buckets[element->identity % BUCKETS];
}

static bool
is_same_string(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Returns whether two descriptions of elements are equal. `kept` was made by copy_entry(), so its C
 * type is not NULL. */
static bool
is_same_description(const ferry_element *kept, const ferry_element *element)
{
    if (kept->align != element->align || !is_same_content(kept, element) ||
        !is_same_string(kept->name, element->name))
        return false;
    if (!is_same_string(kept->c_type, element->c_type ? element->c_type : element->name) ||
        !is_same_string(kept->cuda_declaration, element->cuda_declaration))
        return false;
    for (size_t i = 0; i < element->field_count; i++)
        if (!is_same_string(kept->fields[i].name, element->fields[i].name))
            return false;
    return true;
}

static inline struct entry *
find(const ferry_element *element, bool exact)
{
    struct entry *entry = atomic_load_explicit(bucket_of(element, exact), memory_order_acquire);
    while (entry && !(exact ? is_same_description(&entry->element, element)
                            : is_same_content(&entry->element, element)))
        entry = entry->next;
    return entry;
}

/* Copies a string. The copy of NULL is NULL. Returns false if no memory can be allocated. */
static bool
copy_string(const char *string, const char **out)
{
    *out = string ? strdup(string) : NULL;
    return !string || *out;
}

static void
free_entry(struct entry *entry)
{
    for (size_t i = 0; entry->element.fields && i < entry->element.field_count; i++)
        free((char *)entry->element.fields[i].name);
    free((ferry_field *)entry->element.fields);
    free((char *)entry->element.name);
    free((char *)entry->element.c_type);
    free((char *)entry->element.cuda_declaration);
    free(entry);
}

static bool
copy_fields(const ferry_element *element, ferry_element *copy)
{
    if (element->field_count == 0)
        return true;
    ferry_field *fields = calloc(element->field_count, sizeof(*fields));
    copy->fields = fields;
    for (size_t i = 0; fields && i < element->field_count; i++) {
        fields[i] = element->fields[i];
        if (!copy_string(element->fields[i].name, &fields[i].name))
            return false;
    }
    return fields;
}

static struct entry *
copy_entry(const ferry_element *element)
{
    struct entry *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return NULL;

    ferry_element *copy = &entry->element;
    *copy = *element;
    copy->name = copy->c_type = copy->cuda_declaration = NULL;
    copy->fields = NULL;
    if (!copy_string(element->name, &copy->name) ||
        !copy_string(element->c_type ? element->c_type : element->name, &copy->c_type) ||
        !copy_string(element->cuda_declaration, &copy->cuda_declaration) ||
        !copy_fields(element, copy))
        goto fail;
    return entry;

fail:
    free_entry(entry);
    return NULL;
}

const char *
ferryi_element_cuda_declaration(const ferry_element *interned)
{
    return __atomic_load_n(&interned->cuda_declaration, __ATOMIC_ACQUIRE);
}

/* Copies the CUDA declaration of `element` to an entry of the table of elements, if the entry has
 * none and `element` has one. Returns false if no memory can be allocated. Called under the lock.
 */
static bool
complete_entry(struct entry *entry, const ferry_element *element)
{
    /* `element` may be interned itself */
    const char *offered = ferryi_element_cuda_declaration(element);
    const char *declaration;

    if (!offered || entry->element.cuda_declaration)
        return true;
    if (!copy_string(offered, &declaration))
        return false;
    __atomic_store_n(&entry->element.cuda_declaration, declaration, __ATOMIC_RELEASE);
    return true;
}

/* Returns the entry for the element type in one of the hash tables of elements. Creates the entry
 * if there is none. Returns NULL if no memory can be allocated. */
static struct entry *
add(const ferry_element *element, bool exact)
{
    ferryi_mutex_lock(&intern_lock);
    struct entry *entry = find(element, exact);
    if (entry) {
        if (!exact && !complete_entry(entry, element))
            entry = NULL;
    } else {
        entry = copy_entry(element);
        if (entry) {
            _Atomic(struct entry *) *bucket = bucket_of(element, exact);
            entry->next = atomic_load_explicit(bucket, memory_order_relaxed);
            atomic_store_explicit(bucket, entry, memory_order_release);
        }
    }
    ferryi_mutex_unlock(&intern_lock);
    return entry;
}

static ferry_status
check_description(const ferry_element *element)
{
    if (!element)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "use an element: its description is NULL");
    if (!element->name)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "use an element of %zu bytes: its description has no name",
                           element->bytes);
    if (!is_well_formed(element))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "use element %s: malformed description: kind %d, %u bits, %zu bytes, "
                           "alignment %zu, %zu fields",
                           element->name, (int)element->kind, (unsigned)element->bits,
                           element->bytes, element->align, element->field_count);

    uint64_t identity = ferry_element_identity(element);
    if (element->identity != identity)
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT,
            "use element %s: its description says identity 0x%016llx, its content has 0x%016llx",
            element->name, (unsigned long long)element->identity, (unsigned long long)identity);
    return FERRY_OK;
}

/* Returns the entry for an element type that an earlier call has checked and added. Returns NULL if
 * there is no such entry, or if the entry lacks a CUDA declaration that `element` has. Does not
 * compare names. */
static struct entry *
find_known(const ferry_element *element)
{
    if (!element || !element->name || (element->field_count > 0 && !element->fields))
        return NULL;
    struct entry *entry = find(element, false);
    const ferry_element *known = entry ? &entry->element : NULL;
    bool same = known && known->identity == element->identity && known->bytes == element->bytes &&
                known->align == element->align && known->field_count == element->field_count &&
                (!element->cuda_declaration || ferryi_element_cuda_declaration(known));
    return same ? entry : NULL;
}

static ferry_status
intern(const ferry_element *element, bool exact, const ferry_element **out)
{
    FERRYI_OR_RETURN(check_description(element));
    struct entry *entry = exact ? find(element, true) : NULL;
    if (!entry)
        entry = add(element, exact);
    if (!entry)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "keep the description of element %s: out of host memory", element->name);
    *out = &entry->element;
    return FERRY_OK;
}

ferry_status
ferryi_element_intern(const ferry_element *element, const ferry_element **out)
{
    struct entry *known = find_known(element);
    if (!known)
        return intern(element, false, out);
    *out = &known->element;
    return FERRY_OK;
}

ferry_status
ferry_element_intern(const ferry_element *element, const ferry_element **out)
{
    if (!out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "keep an element: out is NULL");
    ferry_element filled;
    if (element && element->identity == 0) {
        filled = *element;
        filled.identity = ferry_element_identity(element);
        element = &filled;
    }
    return intern(element, true, out);
}
