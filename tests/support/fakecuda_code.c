/* SPDX-License-Identifier: MIT */
/* A part of fakecuda, the library that imitates the CUDA driver: modules and kernel launches. The
 * image of a module is PTX text, or "FAKEPTX", a NUL and text. The text names the kernels, and
 * tests register a host function for each kernel. A cubin or fatbin is refused unless a test has
 * called fakecuda_take_binaries(). */
#include "tests/support/fakecuda_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define SHARED_BYTES_MOST (227 << 10)
#define KERNELS_MAX       1024
#define THREADS_MOST      1024u
#define CLUSTER_MOST      8u
#define TOGETHER_MOST     (132u * 2048u) /* threads that the device runs at the same time */

static struct kernel {
    char name[64];
    fakecuda_kernel *run;
    int count;
    size_t bytes[FAKE_PARAMETERS];
} kernels[KERNELS_MAX];
static int kernel_count;
static bool take_binaries;

static struct fakecuda_attributes last_attributes;

static _Thread_local fake_result fault;

FAKE_EXPORT void fakecuda_register_kernel(const char *name, fakecuda_kernel *run, int count,
                                          const size_t *bytes);
FAKE_EXPORT struct fakecuda_attributes fakecuda_last_attributes(void);
FAKE_EXPORT void fakecuda_take_binaries(void);
FAKE_EXPORT void fakecuda_fault(int code);

static struct kernel *
find_kernel(const char *name)
{
    for (int i = 0; i < kernel_count; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}

void
fakecuda_register_kernel(const char *name, fakecuda_kernel *run, int count, const size_t *bytes)
{
    pthread_mutex_lock(&fake_lock);
    struct kernel *kernel = find_kernel(name);
    if (!kernel) {
        if (kernel_count == KERNELS_MAX || count > FAKE_PARAMETERS)
            abort();
        kernel = &kernels[kernel_count++];
        snprintf(kernel->name, sizeof(kernel->name), "%s", name);
    }
    kernel->run = run;
    kernel->count = count;
    if (count > 0)
        memcpy(kernel->bytes, bytes, (size_t)count * sizeof(bytes[0]));
    pthread_mutex_unlock(&fake_lock);
}

struct fakecuda_attributes
fakecuda_last_attributes(void)
{
    pthread_mutex_lock(&fake_lock);
    struct fakecuda_attributes attributes = last_attributes;
    pthread_mutex_unlock(&fake_lock);
    return attributes;
}

void
fakecuda_take_binaries(void)
{
    take_binaries = true;
}

void
fakecuda_fault(int code)
{
    fault = (fake_result)code;
}

/* -- modules -- */

static void
write_log(const char *message, unsigned int count, const ferryi_gpu_jit_option *options,
          void **values)
{
    char *buffer = NULL;
    size_t bytes = 0;
    for (unsigned int i = 0; i < count; i++) {
        if (options[i] == FERRYI_GPU_JIT_ERROR_LOG_BUFFER)
            buffer = values[i];
        if (options[i] == FERRYI_GPU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            bytes = (size_t)(uintptr_t)values[i];
    }
    if (buffer && bytes > 0)
        snprintf(buffer, bytes, "%s", message);
}

/* The newest PTX version that the imitated driver accepts, as 10 * major + minor. */
#define PTX_NEWEST (FAKECUDA_GENERATION == 13 ? 90 : FAKECUDA_GENERATION == 12 ? 87 : 60)

/* Returns an error if the text requires a PTX version or an architecture that the imitated driver
 * does not support. A text that states neither of them is accepted. */
static fake_result
check_ptx(const char *text)
{
    const char *version = strstr(text, ".version "), *target = strstr(text, ".target sm_");
    int major, minor, architecture;
    if (version && sscanf(version, ".version %d.%d", &major, &minor) == 2 &&
        10 * major + minor > PTX_NEWEST)
        return FERRYI_GPU_ERROR_UNSUPPORTED_PTX_VERSION;
    if ((fake.strict & FAKE_STRICT_PTX) && target &&
        sscanf(target, ".target sm_%d", &architecture) == 1 &&
        architecture > 10 * fake_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                           fake_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR))
        return FERRYI_GPU_ERROR_NO_BINARY_FOR_GPU;
    return FERRYI_GPU_SUCCESS;
}

ferryi_gpu_result
cuModuleLoadDataEx(ferryi_gpu_module *out_module, const void *image, unsigned int option_count,
                   ferryi_gpu_jit_option *options, void **values)
{
    const char *text = image;
    fake_context *context = NULL;
    FAKE_BEGIN(cuModuleLoadDataEx, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    if (!image)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    if (!text[0])
        return fake_end(FERRYI_GPU_ERROR_INVALID_IMAGE);
#ifdef FAKEHIP
    /* A code object has the text of a kernel after its magic number, or is empty. */
    if (strncmp(text, FAKEHIP_OBJECT, 4) != 0 &&
        strncmp(text, FAKEHIP_BUNDLE, sizeof(FAKEHIP_BUNDLE) - 1) != 0)
        return fake_end(FERRYI_GPU_ERROR_INVALID_IMAGE);
    if (strstr(text, ".entry"))
        text = strstr(text, ".entry");
#endif
    bool binary = strncmp(text,
                          "\x7f"
                          "ELF",
                          4) == 0 ||
                  strncmp(text, "\x50\xed\x55\xba", 4) == 0;
    if (binary && !take_binaries)
        return fake_end(FERRYI_GPU_ERROR_NO_BINARY_FOR_GPU);
    if (binary)
        text = "";
    if (strcmp(text, "FAKEPTX") == 0)
        text += sizeof("FAKEPTX");
    if (!binary && !strstr(text, ".entry")) {
        write_log("fakecuda: there is no .entry in the text", option_count, options, values);
        return fake_end(FERRYI_GPU_ERROR_INVALID_PTX);
    }
    fake_result refused = check_ptx(text);
    if (refused != FERRYI_GPU_SUCCESS) {
        write_log("fakecuda: this driver does not know that PTX", option_count, options, values);
        return fake_end(refused);
    }
    struct ferryi_gpu_module *module = calloc(1, sizeof(*module));
    char *copy = strdup(text);
    if (!module || !copy) {
        free(module);
        free(copy);
        return fake_end(FERRYI_GPU_ERROR_OUT_OF_MEMORY);
    }
    *module =
        (struct ferryi_gpu_module){.next = context->modules, .context = context, .text = copy};
    context->modules = module;
    fake.live.modules++;
    *out_module = module;
    return fake_end(FERRYI_GPU_SUCCESS);
}

static struct ferryi_gpu_module **
link_to(fake_context *context, const struct ferryi_gpu_module *module)
{
    struct ferryi_gpu_module **link = &context->modules;
    while (*link && *link != module)
        link = &(*link)->next;
    return link;
}

static void
free_module(struct ferryi_gpu_module *module)
{
    while (module->functions) {
        struct ferryi_gpu_function *function = module->functions;
        module->functions = function->next;
        free(function->name);
        free(function);
    }
    free(module->text);
    free(module);
}

ferryi_gpu_result
cuModuleUnload(ferryi_gpu_module module)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuModuleUnload, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    fake_wait_context(context);
    struct ferryi_gpu_module **link = link_to(context, module);
    if (!*link)
        return fake_end(FERRYI_GPU_ERROR_INVALID_HANDLE);
    *link = module->next;
    free_module(module);
    fake.live.modules--;
    return fake_end(FERRYI_GPU_SUCCESS);
}

void
fake_modules_end(fake_context *context)
{
    while (context->modules) {
        struct ferryi_gpu_module *module = context->modules;
        context->modules = module->next;
        free_module(module);
    }
}

static bool
is_name_part(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_' || letter == '$';
}

/* Returns the part of PTX text after ".entry name", or NULL if the text has no such entry point. */
static const char *
find_entry(const char *text, const char *name)
{
    size_t length = strlen(name);
    while ((text = strstr(text, ".entry")) != NULL) {
        text += strlen(".entry");
        text += strspn(text, " \t\n");
        if (strncmp(text, name, length) == 0 && !is_name_part(text[length]))
            return text + length;
    }
    return NULL;
}

/* Returns whether the identifier `name` occurs in the PTX text between `text` and `end`. */
static bool
is_used(const char *text, const char *end, const char *name, size_t length)
{
    for (; text + length <= end; text++)
        if (strncmp(text, name, length) == 0 && !is_name_part(text[-1]) &&
            !is_name_part(text[length]))
            return true;
    return false;
}

/* Returns the size in bytes of one PTX declaration such as ".shared .align 4 .b32 name[100];".
 * Returns 0 if the kernel's text does not use the declared variable. */
static int
bytes_of_shared(const char *declaration, const char *begin, const char *end)
{
    int align, bits, count, name_at = 0, name_end = 0;
    if (sscanf(declaration, ".shared .align %d .%*1[bsuf]%d %n%*[A-Za-z0-9_$]%n[%d]", &align, &bits,
               &name_at, &name_end, &count) != 3)
        return 0;
    return is_used(begin, end, declaration + name_at, (size_t)(name_end - name_at))
               ? bits / 8 * count
               : 0;
}

/* Returns how many bytes of static shared memory a kernel uses. The parameter `kernel` points to
 * the PTX after the kernel's name. Variables of the module count if the kernel uses them. */
static int
static_shared(const char *text, const char *kernel)
{
    const char *end = strstr(kernel, ".entry");
    int bytes = 0;
    if (!end)
        end = kernel + strlen(kernel);
    for (; (text = strstr(text, ".shared .align")) != NULL; text++)
        if (text < end)
            bytes += bytes_of_shared(text, kernel, end);
    return bytes;
}

/* Parses the parameter list of a PTX kernel, such as "(.param .u64 a, .param .align 4 .b8 b[12])".
 * The list follows the kernel's name in the text. */
static void
read_parameters(struct ferryi_gpu_function *function, const char *text)
{
    int align, bits, length;
    text += strspn(text, " \t\n");
    function->parameter_count = -1;
    if (*text != '(' && *text != '{')
        return;
    const char *end = text + strcspn(text, "){");
    for (function->parameter_count = 0; (text = strstr(text, ".param")) != NULL && text < end;
         text += strlen(".param")) {
        if (function->parameter_count == FAKE_PARAMETERS)
            abort();
        size_t *bytes = &function->parameters[function->parameter_count++];
        if (sscanf(text, ".param .align %d .b8 %*[A-Za-z0-9_$][%d]", &align, &length) == 2)
            *bytes = (size_t)length;
        else if (sscanf(text, ".param .%*1[bsuf]%d", &bits) == 1)
            *bytes = (size_t)bits / 8;
        else
            abort();
    }
}

ferryi_gpu_result
cuModuleGetFunction(ferryi_gpu_function *out_function, ferryi_gpu_module module, const char *name)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuModuleGetFunction, FAKE_NEEDS_CONTEXT, &context);
    if (!*link_to(context, module))
        return fake_end(FERRYI_GPU_ERROR_INVALID_HANDLE);
    if (!name[0])
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    struct ferryi_gpu_function *function = module->functions;
    while (function && strcmp(function->name, name) != 0)
        function = function->next;
    const char *entry = find_entry(module->text, name);
    if (!function && !entry && (module->text[0] || !find_kernel(name)))
        return fake_end(FERRYI_GPU_ERROR_NOT_FOUND);
    if (!function) {
        function = calloc(1, sizeof(*function));
        char *copy = strdup(name);
        if (!function || !copy)
            abort();
        int shared = entry ? static_shared(module->text, entry) : 0;
        *function = (struct ferryi_gpu_function){.next = module->functions,
                                                 .module = module,
                                                 .name = copy,
                                                 .static_bytes = shared,
                                                 .shared_bytes = SHARED_BYTES_FREE - shared};
        read_parameters(function, entry ? entry : "");
        module->functions = function;
    }
    *out_function = function;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuFuncGetAttribute(int *out_value, ferryi_gpu_function_attribute attribute,
                   ferryi_gpu_function function)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuFuncGetAttribute, FAKE_NEEDS_CONTEXT, &context);
    if (attribute != FERRYI_GPU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
        attribute != FERRYI_GPU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    *out_value = attribute == FERRYI_GPU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? function->static_bytes
                                                                          : function->shared_bytes;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuFuncSetAttribute(ferryi_gpu_function function, ferryi_gpu_function_attribute attribute, int value)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuFuncSetAttribute, FAKE_NEEDS_CONTEXT, &context);
    if (attribute != FERRYI_GPU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > SHARED_BYTES_MOST - function->static_bytes)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    function->shared_bytes = value;
    return fake_end(FERRYI_GPU_SUCCESS);
}

/* Loads a kernel on its first use. Does nothing if the imitated driver has no lazy loading, because
 * it loads all kernels together with their module. */
static fake_result
load(struct ferryi_gpu_function *function, fake_context *context)
{
    if (function->loaded || !(fake.strict & FAKE_STRICT_LOAD) || FAKECUDA_GENERATION < 12)
        return FERRYI_GPU_SUCCESS;
    if (fake_capture_forbids())
        return FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    fake_wait_context(context);
    function->loaded = true;
    return FERRYI_GPU_SUCCESS;
}

#if FAKECUDA_GENERATION >= 12
ferryi_gpu_result
cuFuncLoad(ferryi_gpu_function function)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuFuncLoad, FAKE_NEEDS_CONTEXT, &context);
    if (!function || function->module->context != context)
        return fake_end(FERRYI_GPU_ERROR_INVALID_HANDLE);
    return fake_end(load(function, context));
}

/* If the kernel's PTX has no parameter list, the driver uses the list that a test has registered
 * together with the host function. */
ferryi_gpu_result
cuFuncGetParamInfo(ferryi_gpu_function function, size_t index, size_t *out_offset,
                   size_t *out_bytes)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuFuncGetParamInfo, FAKE_NEEDS_CONTEXT, &context);
    const size_t *bytes = function->parameters;
    int count = function->parameter_count;
    size_t offset = 0;
    if (count < 0) {
        const struct kernel *kernel = find_kernel(function->name);
        if (!kernel)
            return fake_end(FERRYI_GPU_ERROR_NOT_SUPPORTED);
        bytes = kernel->bytes;
        count = kernel->count;
    }
    if (index >= (size_t)count)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < index; i++)
        offset += (bytes[i] + 7) / 8 * 8;
    *out_offset = offset;
    *out_bytes = bytes[index];
    return fake_end(FERRYI_GPU_SUCCESS);
}
#endif

/* -- launches -- */

struct launch {
    fakecuda_kernel *run;
    unsigned grid[3], block[3];
    int count;
    void *parameters[FAKE_PARAMETERS];
    _Alignas(16) char values[];
};

static fake_result
run_launch(void *payload)
{
    struct launch *launch = payload;
    fault = FERRYI_GPU_SUCCESS;
    launch->run(launch->parameters, launch->grid, launch->block);
    return fault;
}

static size_t
padded(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

/* Replaces an argument that is an address of managed memory. The new value is the address at which
 * the device reaches this memory. */
static void
use_view(void *parameter)
{
    void *pointer;
    memcpy(&pointer, parameter, sizeof(pointer));
    pointer = fake_view(pointer);
    memcpy(parameter, &pointer, sizeof(pointer));
}

static void
drop_launch(void *payload)
{
    (void)payload;
    fake_kernel_ends();
}

/* Creates a kernel launch, with copies of the present values of its arguments. */
static struct launch *
prepare(const struct kernel *kernel, void **arguments)
{
    size_t bytes = 0, at = 0;
    for (int i = 0; i < kernel->count; i++)
        bytes += padded(kernel->bytes[i]);
    struct launch *launch = NULL;
    if (posix_memalign((void **)&launch, 16, sizeof(*launch) + bytes) != 0)
        return NULL;
    *launch = (struct launch){.run = kernel->run, .count = kernel->count};
    for (int i = 0; i < kernel->count; i++) {
        launch->parameters[i] = launch->values + at;
        memcpy(launch->values + at, arguments[i], kernel->bytes[i]);
        if (kernel->bytes[i] == sizeof(void *))
            use_view(launch->parameters[i]);
        at += padded(kernel->bytes[i]);
    }
    return launch;
}

/* Returns an error if the device does not take the attributes of a launch. */
static fake_result
check_attributes(const struct fakecuda_attributes *attributes, const unsigned grid[3],
                 const unsigned block[3])
{
    const unsigned *cluster = attributes->cluster;
    const int major = fake_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    if (attributes->cooperative && !fake_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH))
        return FERRYI_GPU_ERROR_NOT_SUPPORTED;
    if (attributes->cooperative &&
        (uint64_t)grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2] > TOGETHER_MOST)
        return FERRYI_GPU_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    if (attributes->overlap && major < 9)
        return FERRYI_GPU_ERROR_NOT_SUPPORTED;
    if (!cluster[0])
        return FERRYI_GPU_SUCCESS;
    if (!fake_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH))
        return FERRYI_GPU_ERROR_NOT_SUPPORTED;
    return grid[0] % cluster[0] || grid[1] % cluster[1] || grid[2] % cluster[2] ||
                   (uint64_t)cluster[0] * cluster[1] * cluster[2] > CLUSTER_MOST
               ? FERRYI_GPU_ERROR_INVALID_CLUSTER_SIZE
               : FERRYI_GPU_SUCCESS;
}

/* Queues a launch. The caller must hold `fake_lock`. */
static fake_result
queue_launch(fake_context *context, const struct ferryi_gpu_launch_config *config,
             const struct fakecuda_attributes *attributes, ferryi_gpu_function function,
             void **arguments, void **extra)
{
    const unsigned grid[3] = {config->grid_x, config->grid_y, config->grid_z},
                   block[3] = {config->block_x, config->block_y, config->block_z};
    struct fake_queue *queue;
    fake_result result = fake_queue_of(context, config->stream, &queue);
    if (result != FERRYI_GPU_SUCCESS)
        return result;
    if (!function || function->module->context != context)
        return FERRYI_GPU_ERROR_INVALID_HANDLE;
    result = load(function, context);
    if (result != FERRYI_GPU_SUCCESS)
        return result;
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || block[0] == 0 || block[1] == 0 ||
        block[2] == 0 || extra || (uint64_t)block[0] * block[1] * block[2] > THREADS_MOST ||
        config->shared_bytes > (unsigned)function->shared_bytes || grid[0] > 0x7fffffffu ||
        grid[1] > 65535 || grid[2] > 65535 || block[2] > 64)
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    result = check_attributes(attributes, grid, block);
    if (result != FERRYI_GPU_SUCCESS)
        return result;
    const struct kernel *kernel = find_kernel(function->name);
    if (!kernel)
        return FERRYI_GPU_ERROR_NOT_SUPPORTED;
    struct launch *launch = prepare(kernel, arguments);
    if (!launch)
        return FERRYI_GPU_ERROR_OUT_OF_MEMORY;
    memcpy(launch->grid, grid, sizeof(launch->grid));
    memcpy(launch->block, block, sizeof(launch->block));
    last_attributes = *attributes;
    last_attributes.shared_bytes = config->shared_bytes;
    if (queue->capture) /* the kernel is not queued now, but by each launch of the captured graph */
        return fake_enqueue(queue, run_launch, NULL, launch, NULL);
    fake_kernel_begins();
    return fake_enqueue(queue, run_launch, drop_launch, launch, NULL);
}

ferryi_gpu_result
cuLaunchKernel(ferryi_gpu_function function, unsigned int grid_x, unsigned int grid_y,
               unsigned int grid_z, unsigned int block_x, unsigned int block_y,
               unsigned int block_z, unsigned int shared_bytes, ferryi_gpu_stream stream,
               void **arguments, void **extra)
{
    const struct ferryi_gpu_launch_config config = {.grid_x = grid_x,
                                                    .grid_y = grid_y,
                                                    .grid_z = grid_z,
                                                    .block_x = block_x,
                                                    .block_y = block_y,
                                                    .block_z = block_z,
                                                    .shared_bytes = shared_bytes,
                                                    .stream = stream};
    const struct fakecuda_attributes none = {.overlap = false};
    fake_context *context = NULL;
    FAKE_BEGIN(cuLaunchKernel, FAKE_NEEDS_CONTEXT, &context);
    return fake_end(queue_launch(context, &config, &none, function, arguments, extra));
}

#if FAKECUDA_GENERATION >= 12
/* Returns whether all bytes of the attribute's value from byte `used` on are 0. The driver ignores
 * them; a caller that leaves them uninitialised has forgotten something. */
static bool
is_clear(const struct ferryi_gpu_launch_attribute *attribute, size_t used)
{
    const unsigned char *bytes = (const unsigned char *)&attribute->value;
    for (size_t i = used; i < sizeof(attribute->value); i++)
        if (bytes[i])
            return false;
    return true;
}

/* Adds an attribute. In contrast to the driver, accepts none twice, and none that changes nothing.
 */
static bool
add_attribute(const struct ferryi_gpu_launch_attribute *attribute, struct fakecuda_attributes *out)
{
    bool *on = attribute->id == FERRYI_GPU_LAUNCH_ATTRIBUTE_COOPERATIVE ? &out->cooperative
                                                                        : &out->overlap;
    switch (attribute->id) {
    case FERRYI_GPU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case FERRYI_GPU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        if (*on || attribute->value.on != 1 || !is_clear(attribute, sizeof(int)))
            return false;
        *on = true;
        return true;
    case FERRYI_GPU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        if (out->cluster[0] || !is_clear(attribute, sizeof(out->cluster)))
            return false;
        memcpy(out->cluster, attribute->value.cluster, sizeof(out->cluster));
        return out->cluster[0] && out->cluster[1] && out->cluster[2];
    default:
        return false;
    }
}

ferryi_gpu_result
cuLaunchKernelEx(const struct ferryi_gpu_launch_config *config, ferryi_gpu_function function,
                 void **arguments, void **extra)
{
    struct fakecuda_attributes attributes = {.overlap = false};
    fake_context *context = NULL;
    FAKE_BEGIN(cuLaunchKernelEx, FAKE_NEEDS_CONTEXT, &context);
    for (unsigned i = 0; i < config->attribute_count; i++)
        if (!add_attribute(&config->attributes[i], &attributes))
            return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    return fake_end(queue_launch(context, config, &attributes, function, arguments, extra));
}
#endif
