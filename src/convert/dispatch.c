/* SPDX-License-Identifier: MIT */
/* Selects the fastest conversion loop for each pair of element types on this processor. */
#include "src/convert/kernels.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "src/base/base.h"

enum ferryi_number
ferryi_convert_number(const ferry_element *element)
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

enum { MOST_SETS = 3 };

static struct ferryi_convert_set sets[MOST_SETS + 1];
static struct ferryi_convert_kernel here[ferryi_number_count][ferryi_number_count];

/* Finds the instruction sets that this process can use. __builtin_cpu_supports() also checks that
 * the operating system saves the wide registers. F16C is checked with cpuid, because some
 * compilers' run-time libraries do not know it. */
static void
find_sets(void)
{
    size_t count = 0;
    sets[count++] = (struct ferryi_convert_set){"baseline", &ferryi_convert_table_baseline};
#ifdef __x86_64__
    unsigned int a, b, c, d;
    if (!__builtin_cpu_supports("avx2") || !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C))
        return;
    sets[count++] = (struct ferryi_convert_set){"avx2", &ferryi_convert_table_avx2};
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        sets[count++] = (struct ferryi_convert_set){"avx512", &ferryi_convert_table_avx512};
#endif
}

/*
 * Returns whether wide AVX-512 registers can be used without lowering the processor's clock. The
 * first processors with AVX-512 lower the clock, which slows all other work on the core as well.
 * Processors with VBMI2 do not lower the clock.
 */
static bool
has_cheap_width(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx512vbmi2");
#else
    return true;
#endif
}

/* Returns whether conversions of this type use AVX-512 even if it lowers the clock. Wide integers
 * do, because AVX2 has hardly any instructions for them. */
static bool
is_wide_integer(enum ferryi_number number)
{
    return number == ferryi_number_uint32 || number == ferryi_number_int64 ||
           number == ferryi_number_uint64;
}

static void
take(const struct ferryi_convert_set *set)
{
    bool all = strcmp(set->name, "avx512") != 0 || has_cheap_width();
    for (enum ferryi_number from = 0; from < ferryi_number_count; from++)
        for (enum ferryi_number to = 0; to < ferryi_number_count; to++)
            if (all || is_wide_integer(from) || is_wide_integer(to))
                here[from][to] = (*set->table)[from][to];
}

/* Fills the table of conversion loops. The instruction sets are visited from the baseline to the
 * best, and the loops of each set replace those of the previous one. If FERRY_CONVERT_WITH names a
 * set, better sets are not used. */
static void
choose_loops(void)
{
    const char *last = ferryi_getenv("FERRY_CONVERT_WITH");
    bool found = !last || !*last;
    find_sets();
    for (const struct ferryi_convert_set *set = sets; set->table; set++) {
        take(set);
        if (last && strcmp(last, set->name) == 0) {
            found = true;
            break;
        }
    }
    if (!found)
        ferryi_log_setting(NULL, FERRY_LOG_WARNING,
                           "FERRY_CONVERT_WITH is \"%s\", which names no instructions that this "
                           "processor has; it is ignored",
                           last);
}

/* The table of conversion loops is filled only once, because cpuid is slow in a virtual machine. */
static pthread_once_t once = PTHREAD_ONCE_INIT;

const struct ferryi_convert_set *
ferryi_convert_sets(void)
{
    pthread_once(&once, choose_loops);
    return sets;
}

ferryi_convert_table *
ferryi_convert_table_here(void)
{
    pthread_once(&once, choose_loops);
    return (ferryi_convert_table *)&here;
}

const struct ferryi_convert_kernel *
ferryi_convert_kernel(const ferry_element *from, const ferry_element *to)
{
    enum ferryi_number source = ferryi_convert_number(from), target = ferryi_convert_number(to);
    if (source == ferryi_number_count || target == ferryi_number_count)
        return NULL;

    const struct ferryi_convert_kernel *kernel = &(*ferryi_convert_table_here())[source][target];
    return kernel->nearest ? kernel : NULL;
}
