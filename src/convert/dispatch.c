/* SPDX-License-Identifier: MIT */
/* Which loops convert a pair of elements on this processor. */
#include "src/convert/kernels.h"

#include <stdatomic.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

/* The number an element is, or ferryi_number_count. */
static enum ferryi_number
number_of(const ferry_element *element)
{
    static const struct {
        ferry_kind kind;
        uint32_t bits;
    } numbers[ferryi_number_count] = {
        [ferryi_number_float] = {FERRY_KIND_FLOAT, 32},
        [ferryi_number_double] = {FERRY_KIND_FLOAT, 64},
        [ferryi_number_half] = {FERRY_KIND_FLOAT, 16},
        [ferryi_number_bfloat16] = {FERRY_KIND_BFLOAT, 16},
        [ferryi_number_int8] = {FERRY_KIND_INT, 8},
        [ferryi_number_int16] = {FERRY_KIND_INT, 16},
        [ferryi_number_int] = {FERRY_KIND_INT, 32},
        [ferryi_number_int64] = {FERRY_KIND_INT, 64},
        [ferryi_number_byte] = {FERRY_KIND_UINT, 8},
        [ferryi_number_uint16] = {FERRY_KIND_UINT, 16},
        [ferryi_number_uint32] = {FERRY_KIND_UINT, 32},
        [ferryi_number_uint64] = {FERRY_KIND_UINT, 64},
        [ferryi_number_bool8] = {FERRY_KIND_BOOL, 8},
        [ferryi_number_complex_float] = {FERRY_KIND_COMPLEX, 64},
        [ferryi_number_complex_double] = {FERRY_KIND_COMPLEX, 128},
    };
    enum ferryi_number number = 0;

    while (number < ferryi_number_count &&
           (numbers[number].kind != element->kind || numbers[number].bits != element->bits))
        number++;
    return number;
}

/* The compiler's run-time library knows whether the system saves the wide registers; not every one knows F16C. */
static ferryi_convert_table *
choose_table(void)
{
#ifdef __x86_64__
    unsigned int a, b, c, d;
    if (__builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C))
        return &ferryi_convert_table_avx2;
#endif
    return &ferryi_convert_table_baseline;
}

ferryi_convert_table *
ferryi_convert_table_here(void)
{
    static _Atomic(ferryi_convert_table *) chosen; /* asking the processor is slow in a virtual machine */
    ferryi_convert_table *table = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!table) {
        table = choose_table();
        atomic_store_explicit(&chosen, table, memory_order_relaxed);
    }
    return table;
}

const struct ferryi_convert_kernel *
ferryi_convert_kernel(const ferry_element *from, const ferry_element *to)
{
    enum ferryi_number source = number_of(from), target = number_of(to);
    if (source == ferryi_number_count || target == ferryi_number_count)
        return NULL;

    const struct ferryi_convert_kernel *kernel = &(*ferryi_convert_table_here())[source][target];
    return kernel->nearest ? kernel : NULL;
}
