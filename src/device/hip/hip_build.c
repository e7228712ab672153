/* SPDX-License-Identifier: MIT */
/* Compiles texts with hiprtc: for a device, which loads the result, or in a child, only to check
 * them. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/device/gpu/gpu_device.h"
#include "src/device/hip/hip.h"
#include "src/device/hip/hiprtc.h"
#include "src/device/image.h"
#include "src/device/target.h"

/* The target of a check if the caller chooses none. */
#define DEFAULT_TARGET "gfx90a"

/* A child that has not checked a text after this time is ended. */
#define CHECK_SECONDS 300

/* -- options of CUDA source -------------------------------------------------------------------- */

/* A text of CUDA has options of another compiler. These are the ones that have a counterpart. */
static const struct counterpart {
    const char *option, *own;
    bool has_value; /* whether the value follows in the same option */
} counterparts[] = {
    {"--define-macro=", "-D", true},
    {"--undefine-macro=", "-U", true},
    {"--include-path=", "-I", true},
    {"--std=", "-std=", true},
    {"-D", "-D", true},
    {"-U", "-U", true},
    {"-I", "-I", true},
    {"-std=", "-std=", true},
    {"--fmad=false", "-ffp-contract=off", false},
    {"-fmad=false", "-ffp-contract=off", false},
};

/* Returns the counterpart of an option, which the caller frees, or NULL if it has none. */
static char *
translate(const char *option)
{
    for (size_t i = 0; i < sizeof(counterparts) / sizeof(counterparts[0]); i++) {
        const struct counterpart *known = &counterparts[i];
        const size_t length = strlen(known->option);
        char *text = NULL;
        if (strncmp(option, known->option, length) != 0 || (known->has_value == !option[length]))
            continue;
        return asprintf(&text, "%s%s", known->own, option + length) < 0 ? NULL : text;
    }
    return NULL;
}

/* The options of a code in this compiler's words. */
struct options {
    char **list;
    size_t count;
};

static void
free_options(struct options *options)
{
    for (size_t i = 0; i < options->count; i++)
        free(options->list[i]);
    free(options->list);
}

static ferry_status
make_options(const struct ferryi_code_job *job, const struct ferryi_log *log, struct options *out)
{
    const ferry_kernel_code *code = job->code;
    *out = (struct options){.list = calloc(code->option_count + 1, sizeof(*out->list))};
    if (!out->list)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu options",
                           code->option_count);
    for (size_t i = 0; i < code->option_count; i++) {
        char *own =
            code->kind == FERRY_CODE_HIP ? strdup(code->options[i]) : translate(code->options[i]);
        if (own)
            out->list[out->count++] = own;
        else
            ferryi_log(log, FERRY_LOG_DEBUG,
                       "compile kernel \"%s\": the option %s has no counterpart in HIP", job->name,
                       code->options[i]);
    }
    return FERRY_OK;
}

static ferry_status
compile(const struct ferryi_code_job *job, const char *target, int major, bool keep,
        const struct ferryi_log *log, struct ferryi_compiled *out)
{
    struct options options;
    FERRYI_OR_RETURN(make_options(job, log, &options));
    const struct ferryi_compiler_job own = {.name = job->name,
                                            .text = job->code->code,
                                            .options = (const char *const *)options.list,
                                            .option_count = options.count,
                                            .exact = job->code->flags & FERRY_CODE_EXACT,
                                            .keep = keep};
    ferry_status status = ferryi_hiprtc_compile(&own, target, major, log, out);
    free_options(&options);
    return status;
}

/* -- for a device ------------------------------------------------------------------------------ */

ferry_status
ferryi_hip_build(struct ferryi_gpu_device *gpu, const struct ferryi_code_job *job,
                 struct ferryi_image **images, void **out_module)
{
    const struct ferryi_device_properties *properties = &gpu->base.properties;
    const struct ferryi_image *image = ferryi_images_find(*images, properties->target, 0);
    if (!image) {
        struct ferryi_compiled code;
        FERRYI_OR_RETURN(compile(job, properties->target, properties->driver_version / 1000, true,
                                 &gpu->log, &code));
        FERRYI_OR_RETURN(ferryi_images_add(images, properties->target, 0, code.bytes, code.size));
        image = *images;
    }
    return out_module ? ferryi_gpu_code_load(&gpu->base, image->bytes, image->size, out_module)
                      : FERRY_OK;
}

/* -- without a device -------------------------------------------------------------------------- */

/* What the child reports. */
struct answer {
    ferry_status status;
    char message[4096];
};

/* Returns whether a code object has a kernel of this name, which the compiler has not mangled. */
static bool
has_kernel(const struct ferryi_compiled *code, const char *name)
{
    char symbol[256];
    int length = snprintf(symbol, sizeof(symbol), "%s.kd", name);
    return length < 0 || (size_t)length >= sizeof(symbol) ||
           memmem(code->bytes, code->size, symbol, (size_t)length + 1);
}

static ferry_status
check(const struct ferryi_code_job *job, const char *target)
{
    struct ferryi_compiled code;
    FERRYI_OR_RETURN(compile(job, target, 0, false, NULL, &code));
    const bool has = has_kernel(&code, job->name);
    free(code.bytes);
    if (!has)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "the code has no entry point of this name; declare the function as "
                           "extern \"C\" __global__");
    return FERRY_OK;
}

/* Runs in the child. A handler of the program could return into the program, which would then run
 * twice. */
static void
forget_handlers(void)
{
    sigset_t none;
    for (int i = 1; i < NSIG; i++)
        (void)signal(i, SIG_DFL);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
}

/* Runs in the child. What the compiler prints before it ends the process is not shown. */
static void
answer_in_child(const struct ferryi_code_job *job, const char *target, int out)
{
    struct answer answer = {0};
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0)
        (void)dup2(nowhere, STDERR_FILENO);
    forget_handlers();
    alarm(CHECK_SECONDS);
    answer.status = check(job, target);
    snprintf(answer.message, sizeof(answer.message), "%s",
             answer.status == FERRY_OK ? "" : ferry_last_error());
    ssize_t written = write(out, &answer, sizeof(answer));
    _exit(written == (ssize_t)sizeof(answer) ? 0 : 1);
}

/* Reads the answer of the child. Returns false if the child ended before it answered. */
static bool
read_answer(int in, struct answer *out)
{
    size_t bytes = 0;
    while (bytes < sizeof(*out)) {
        ssize_t result = read(in, (char *)out + bytes, sizeof(*out) - bytes);
        if (result < 0 && errno == EINTR)
            continue;
        if (result <= 0)
            return false;
        bytes += (size_t)result;
    }
    return true;
}

/* The program may itself wait for all its children, so an end that was not seen is no error. */
static void
wait_for(pid_t child)
{
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
}

static ferry_status
check_in_child(const struct ferryi_code_job *job, const char *target)
{
    struct answer answer;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "make a pipe to a child: %s",
                           strerror(errno));
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child == 0)
        answer_in_child(job, target, ends[1]);
    const int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    const bool has_answer = child > 0 && read_answer(ends[0], &answer);
    close(ends[0]);
    if (child < 0)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "make a child that compiles: %s",
                           strerror(why));
    wait_for(child);
    if (!has_answer)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "hiprtc ended its process while it compiled for %s: it does not know "
                           "this target",
                           target);
    return answer.status == FERRY_OK ? FERRY_OK : ferryi_fail(answer.status, "%s", answer.message);
}

ferry_status
ferryi_hip_code_check(const struct ferryi_code_job *job, const char *target, size_t most,
                      size_t *out_bytes, size_t *out_count)
{
    (void)most, (void)out_bytes;
    target = target ? target : DEFAULT_TARGET;
    FERRYI_OR_RETURN(ferryi_target_check(FERRY_LANGUAGE_HIP, target));
    FERRYI_OR_RETURN(check_in_child(job, target));
    *out_count = FERRYI_PARAMETERS_UNKNOWN;
    return FERRY_OK;
}
