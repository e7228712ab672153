/* SPDX-License-Identifier: MIT */
/* Probes modules and launches. */
#include "tests/gpu/probe.h"

/* PTX of two kernels: one spins for a given number of milliseconds, and one uses 32 KiB of static
 * shared memory. */
static const char ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry probe_spin(.param .u64 ms) {\n.reg .pred %p;\n.reg .u64 %a, %b, %c;\n"
    "ld.param.u64 %c, [ms];\nmul.lo.u64 %c, %c, 1000000;\nmov.u64 %a, %globaltimer;\n"
    "again:\nmov.u64 %b, %globaltimer;\nsub.u64 %b, %b, %a;\nsetp.lt.u64 %p, %b, %c;\n@%p bra "
    "again;\nret;\n}\n"
    ".visible .entry probe_shared() {\n.reg .u32 %r;\n.shared .align 4 .b8 own[32768];\n"
    "mov.u32 %r, own;\nst.shared.u32 [%r], 1;\nret;\n}\n"
    ".visible .entry probe_fault() {\n.reg .u64 %a;\nmov.u64 %a, 64;\nst.global.u32 [%a], "
    "1;\nret;\n}\n";

ferryi_gpu_function
probe_function_of(const char *name)
{
    static ferryi_gpu_module module;
    ferryi_gpu_function function = NULL;
    if (!module)
        cu->module_load(&module, ptx, 0, NULL, NULL);
    cu->module_function(&function, module, name);
    return function;
}

long long
probe_start(ferryi_gpu_function function, unsigned blocks_x, unsigned blocks_y, unsigned threads_x,
            unsigned threads_z, unsigned shared, void **arguments)
{
    return (long long)cu->launch(function, blocks_x, blocks_y, 1, threads_x, 1, threads_z, shared,
                                 stream, arguments, NULL);
}

void
probe_launches(void)
{
    uint64_t none = 0;
    void *arguments[] = {&none};
    ferryi_gpu_function spin = probe_function_of("probe_spin"),
                        shared = probe_function_of("probe_shared");
    int value = 0;
    answer("launch", probe_start(spin, 1, 1, 32, 1, 0, arguments));
    answer("launch-grid-y-65536", probe_start(spin, 1, 65536, 1, 1, 0, arguments));
    answer("launch-block-z-128", probe_start(spin, 1, 1, 1, 128, 0, arguments));
    answer("launch-threads-2048", probe_start(spin, 1, 1, 2048, 1, 0, arguments));
    answer("launch-no-blocks", probe_start(spin, 0, 1, 32, 1, 0, arguments));
    answer("launch-dynamic-48K", probe_start(spin, 1, 1, 32, 1, 48 << 10, arguments));
    answer("launch-dynamic-49K", probe_start(spin, 1, 1, 32, 1, 49 << 10, arguments));
    ASK("shared-static", function_attribute, &value, 1, shared);
    answer("shared-static-is", value);
    ASK("shared-dynamic-allowed", function_attribute, &value, 8, shared);
    answer("shared-dynamic-allowed-is", value);
    answer("launch-static-32K-dynamic-16K", probe_start(shared, 1, 1, 32, 1, 16 << 10, NULL));
    answer("launch-static-32K-dynamic-24K", probe_start(shared, 1, 1, 32, 1, 24 << 10, NULL));
    ASK("allow-24K", function_set_attribute, shared, 8, 24 << 10);
    answer("launch-static-32K-dynamic-24K-allowed",
           probe_start(shared, 1, 1, 32, 1, 24 << 10, NULL));
    ASK("allow-227K", function_set_attribute, shared, 8, 227 << 10);
    ASK("allow-195K", function_set_attribute, shared, 8, 195 << 10);
    answer("launch-grid-x-2^31", probe_start(spin, 1u << 31, 1, 1, 1, 0, arguments));
    answer("launch-threads-1025", probe_start(spin, 1, 1, 1025, 1, 0, arguments));
    answer("launch-no-threads", probe_start(spin, 1, 1, 0, 1, 0, arguments));
    answer("launch-no-function", probe_start(NULL, 1, 1, 1, 1, 0, NULL));
    ASK("allow-negative", function_set_attribute, shared, 8, -1);
    ASK("function-attribute-beyond", function_attribute, &value, 1000, shared);
    ASK("function-attribute-that-is-constant", function_set_attribute, shared, 1, 16);
    settle("launches-settle");
}

void
probe_modules(void)
{
    static const char *const texts[] = {
        "",
        ".version 99.0\n.target sm_50\n.address_size 64\n.visible .entry f() { ret; }\n",
        ".version 6.0\n.target sm_999\n.address_size 64\n.visible .entry f() { ret; }\n",
        ".version 6.0\n.target sm_50\n.visible .entry f(.param .u64 a) { ret; }\n",
        ".version 6.0\n.target sm_50\n.address_size 64\n",
        ".version 6.0\n.target sm_50\n.address_size 64\nnonsense\n"};
    ferryi_gpu_module whole = NULL;
    ferryi_gpu_function function;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ferryi_gpu_module module;
        answer_at("load-odd-ptx", i, (long long)cu->module_load(&module, texts[i], 0, NULL, NULL));
    }
    ASK("load-ptx", module_load, &whole, ptx, 0, NULL, NULL);
    ASK("function-unknown", module_function, &function, whole, "probe_nothing");
    ASK("function-without-name", module_function, &function, whole, "");
    ASK("unload", module_unload, whole);
}
