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

#define FIRST_SLOTS 256 /* a power of two */

/* A hash table of element types with open addressing. Its length is a power of two, and at most
 * half of its slots are used while memory for a longer table can be allocated. */
struct table {
    size_t length;
    _Atomic(ferry_element *) *slots;
    const struct table *shorter; /* the table that this one replaced. It is never freed, because
                                    threads may still search it */
};

/* The table `by_content` has one element for each distinct content, and `by_description` one for
 * each distinct description, which includes all names. A new element is filled in first, and then
 * stored in a slot, under the lock. Elements are never removed, and a table that was replaced by a
 * longer one stays as it is. So a thread can search a table without the lock: what it does not find
 * there, it searches again under the lock. */
static _Atomic(ferry_element *) first_slots[2][FIRST_SLOTS];
static struct table first_tables[2] = {{FIRST_SLOTS, first_slots[0], NULL},
                                       {FIRST_SLOTS, first_slots[1], NULL}};
static struct known_elements {
    _Atomic(struct table *) table;
    size_t count; /* guarded by the lock */
} by_content = {&first_tables[0], 0}, by_description = {&first_tables[1], 0};
FERRYI_MUTEX_CLASS(ferryi_intern_mutex);
static struct ferryi_intern_mutex intern_lock = FERRYI_MUTEX_INITIALIZER;
static struct ferryi_fork_part interning = {.mutex = FERRYI_SYSTEM_MUTEX(&intern_lock)};
FERRYI_AT_FORK(interning)

static uint64_t
mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static uint64_t
mix_string(uint64_t hash, const char *string)
{
    for (; string && *string; string++)
        hash = mix(hash, (unsigned char)*string);
    return mix(hash, 0);
}

/* Returns the hash of the content or of the whole description. Scalars of the same kind and width
 * have the same hash of the content even if their alignments differ, because they count as the same
 * element type. */
static uint64_t
hash_of(const ferry_element *element, bool exact)
{
    if (!exact && element->kind != FERRY_KIND_STRUCT)
        return mix(element->bits, (uint64_t)element->kind);
    uint64_t hash = mix(0, element->identity);
    if (!exact)
        return hash;
    hash = mix_string(hash, element->name);
    hash = mix_string(hash, element->c_type ? element->c_type : element->name);
    hash = mix_string(hash, element->cuda_declaration);
    hash = mix_string(hash, element->opencl_declaration);
    for (size_t i = 0; i < element->field_count; i++)
        hash = mix_string(hash, element->fields[i].name);
    return hash;
}

static bool
is_same_string(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Returns whether two descriptions of elements are equal. `kept` was made by copy_element(), so its
 * C type is not NULL. */
static bool
is_same_description(const ferry_element *kept, const ferry_element *element)
{
    if (kept->align != element->align || !is_same_content(kept, element) ||
        !is_same_string(kept->name, element->name))
        return false;
    if (!is_same_string(kept->c_type, element->c_type ? element->c_type : element->name) ||
        !is_same_string(kept->cuda_declaration, element->cuda_declaration) ||
        !is_same_string(kept->opencl_declaration, element->opencl_declaration))
        return false;
    for (size_t i = 0; i < element->field_count; i++)
        if (!is_same_string(kept->fields[i].name, element->fields[i].name))
            return false;
    return true;
}

static inline ferry_element *
find(const ferry_element *element, bool exact)
{
    const struct table *table = atomic_load_explicit(
        exact ? &by_description.table : &by_content.table, memory_order_acquire);
    for (size_t at = hash_of(element, exact);; at++) {
        ferry_element *known =
            atomic_load_explicit(&table->slots[at & (table->length - 1)], memory_order_acquire);
        if (!known ||
            (exact ? is_same_description(known, element) : is_same_content(known, element)))
            return known;
    }
}

static void
put(const struct table *table, ferry_element *element, bool exact)
{
    size_t at = hash_of(element, exact);
    while (atomic_load_explicit(&table->slots[at & (table->length - 1)], memory_order_relaxed))
        at++;
    atomic_store_explicit(&table->slots[at & (table->length - 1)], element, memory_order_release);
}

/* Replaces a table by one of twice its length. Returns false if no memory can be allocated. Called
 * under the lock. */
static bool
lengthen(struct known_elements *known, bool exact)
{
    const struct table *table = atomic_load_explicit(&known->table, memory_order_relaxed);
    struct table *longer = malloc(sizeof(*longer));
    _Atomic(ferry_element *) *slots = calloc(2 * table->length, sizeof(*slots));
    if (!longer || !slots) {
        free(longer);
        free(slots);
        return false;
    }
    *longer = (struct table){2 * table->length, slots, table};
    for (size_t i = 0; i < table->length; i++) {
        ferry_element *element = atomic_load_explicit(&table->slots[i], memory_order_relaxed);
        if (element)
            put(longer, element, exact);
    }
    atomic_store_explicit(&known->table, longer, memory_order_release);
    return true;
}

/* Stores an element that the table lacks. If no memory for a longer table can be allocated, the
 * table is used up to its last slot but one, which ends each search. Called under the lock. */
static bool
store(struct known_elements *known, ferry_element *element, bool exact)
{
    size_t length = atomic_load_explicit(&known->table, memory_order_relaxed)->length;
    if (2 * (known->count + 1) > length && !lengthen(known, exact) && known->count + 2 > length)
        return false;
    put(atomic_load_explicit(&known->table, memory_order_relaxed), element, exact);
    known->count++;
    return true;
}

/* Copies a string. The copy of NULL is NULL. Returns false if no memory can be allocated. */
static bool
copy_string(const char *string, const char **out)
{
    *out = string ? strdup(string) : NULL;
    return !string || *out;
}

static void
free_element(ferry_element *element)
{
    for (size_t i = 0; element->fields && i < element->field_count; i++)
        free((char *)element->fields[i].name);
    free((ferry_field *)element->fields);
    free((char *)element->name);
    free((char *)element->c_type);
    free((char *)element->cuda_declaration);
    free((char *)element->opencl_declaration);
    free(element);
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

static ferry_element *
copy_element(const ferry_element *element)
{
    ferry_element *copy = malloc(sizeof(*copy));
    if (!copy)
        return NULL;

    *copy = *element;
    copy->name = copy->c_type = copy->cuda_declaration = copy->opencl_declaration = NULL;
    copy->fields = NULL;
    if (!copy_string(element->name, &copy->name) ||
        !copy_string(element->c_type ? element->c_type : element->name, &copy->c_type) ||
        !copy_string(element->cuda_declaration, &copy->cuda_declaration) ||
        !copy_string(element->opencl_declaration, &copy->opencl_declaration) ||
        !copy_fields(element, copy))
        goto fail;
    return copy;

fail:
    free_element(copy);
    return NULL;
}

/* Reads a declaration of an element that may be interned: such an element may get its declarations
 * later, on another thread. */
static const char *
read_declaration(const char *const *member)
{
    return __atomic_load_n(member, __ATOMIC_ACQUIRE);
}

const char *
ferryi_element_cuda_declaration(const ferry_element *interned)
{
    return read_declaration(&interned->cuda_declaration);
}

const char *
ferryi_element_opencl_declaration(const ferry_element *interned)
{
    return read_declaration(&interned->opencl_declaration);
}

/* Copies a declaration to the member of a known element, if that has none and there is one to copy.
 * Returns false if no memory can be allocated. Called under the lock. */
static bool
complete_declaration(const char **known, const char *const *offered)
{
    const char *text = read_declaration(offered), *declaration;

    if (!text || *known)
        return true;
    if (!copy_string(text, &declaration))
        return false;
    __atomic_store_n(known, declaration, __ATOMIC_RELEASE);
    return true;
}

/* Copies the declarations of `element` that a known element lacks. Returns false if no memory can
 * be allocated. Called under the lock. */
static bool
complete(ferry_element *known, const ferry_element *element)
{
    return complete_declaration(&known->cuda_declaration, &element->cuda_declaration) &&
           complete_declaration(&known->opencl_declaration, &element->opencl_declaration);
}

/* Returns the known element of this type in one of the hash tables, to which it adds a copy if
 * there is none. Returns NULL if no memory can be allocated. */
static ferry_element *
add(const ferry_element *element, bool exact)
{
    ferryi_mutex_lock(&intern_lock);
    ferry_element *known = find(element, exact);
    if (known) {
        if (!exact && !complete(known, element))
            known = NULL;
    } else {
        known = copy_element(element);
        if (known && !store(exact ? &by_description : &by_content, known, exact)) {
            free_element(known);
            known = NULL;
        }
    }
    ferryi_mutex_unlock(&intern_lock);
    return known;
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

/* Returns the known element of a type that an earlier call has checked and added. Returns NULL if
 * there is none, or if it lacks a declaration that `element` has. Does not compare names. */
static ferry_element *
find_known(const ferry_element *element)
{
    if (!element || !element->name || (element->field_count > 0 && !element->fields))
        return NULL;
    ferry_element *known = find(element, false);
    bool same = known && known->identity == element->identity && known->bytes == element->bytes &&
                known->align == element->align && known->field_count == element->field_count &&
                (!element->cuda_declaration || ferryi_element_cuda_declaration(known)) &&
                (!element->opencl_declaration || ferryi_element_opencl_declaration(known));
    return same ? known : NULL;
}

static ferry_status
intern(const ferry_element *element, bool exact, const ferry_element **out)
{
    FERRYI_OR_RETURN(check_description(element));
    const ferry_element *known = exact ? find(element, true) : NULL;
    if (!known)
        known = add(element, exact);
    if (!known)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "keep the description of element %s: out of host memory", element->name);
    *out = known;
    return FERRY_OK;
}

ferry_status
ferryi_element_intern(const ferry_element *element, const ferry_element **out)
{
    const ferry_element *known = find_known(element);
    if (!known)
        return intern(element, false, out);
    *out = known;
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
