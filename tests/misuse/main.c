/* SPDX-License-Identifier: MIT */
#include "tests/misuse/misuse.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/unwinder.h"

static bool device_is_coherent, runs_host_functions;

void
tell(ferry_status status)
{
    if (status != FERRY_OK)
        fprintf(stderr, "%s: %s\n", ferry_status_name(status), ferry_last_error());
}

void
must(ferry_status status)
{
    if (status == FERRY_OK)
        return;
    fprintf(stderr, "went wrong by itself: %s\n", ferry_last_error());
    _exit(3);
}

static void
print_log(ferry_log_level level, const char *message, void *user)
{
    (void)user;
    if (level <= FERRY_LOG_WARNING)
        fprintf(stderr, "log: %s\n", message);
}

__attribute__((noinline)) void
make_height(struct scene *scene)
{
    ferry_buffer_options named = {.name = "height"};
    must(ferry_int_create(scene->context, HEIGHT_COUNT, &named, &scene->height));
}

static void
set_up(struct scene *scene)
{
    ferry_context_options options = {.log = print_log};
    must(ferry_context_create(&options, &scene->context));
    scene->stream = ferry_context_stream(scene->context, 1);
    make_height(scene);
    must(ferry_int_fill(scene->height, 0, HEIGHT_COUNT, 7, NULL));
    ferry_scope scope;
    int *p;
    must(ferry_int_update_host(scene->height, &scope, &p));
    must(ferry_scope_close(&scope));
}

/* Runs in the child process. */
static void
play(const struct misuse *misuse)
{
    struct scene scene = {0};
    struct rlimit no_core = {0};
    setrlimit(RLIMIT_CORE, &no_core);
    set_up(&scene);
    misuse->make(&scene);
    ferry_int_destroy(&scene.height);
    ferry_context_destroy(&scene.context);
    _exit(0);
}

static size_t
read_all(int file, char *text, size_t room)
{
    size_t length = 0;
    ssize_t got;
    while ((got = read(file, text + length, room - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = 0;
    return length;
}

/* Returns whether one line of the output contains all texts of `misuse->expected`. */
static bool
says(const char *text, const struct misuse *misuse)
{
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        size_t length = strcspn(line, "\n");
        bool all = true;
        for (size_t i = 0; i < 3 && misuse->expected[i]; i++) {
            const char *at = strstr(line, misuse->expected[i]);
            all = all && at && at < line + length;
        }
        if (all)
            return true;
    }
    return false;
}

static bool
is_caught(const struct misuse *misuse)
{
    static char text[1 << 16];
    int ends[2], how;
    if (pipe(ends) != 0)
        return false;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        play(misuse);
    }
    close(ends[1]);
    read_all(ends[0], text, sizeof(text));
    close(ends[0]);
    if (waitpid(child, &how, 0) != child)
        return false;
    bool survived = WIFEXITED(how) && WEXITSTATUS(how) == 0;
    bool caught = says(text, misuse) && survived != misuse->faults;
    if (!caught)
        printf("# %s (%s %d) instead of \"%s\" \"%s\" \"%s\":\n# %s\n", misuse->name,
               WIFEXITED(how) ? "exit" : "signal",
               WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how), misuse->expected[0],
               misuse->expected[1] ? misuse->expected[1] : "",
               misuse->expected[2] ? misuse->expected[2] : "", text);
    return caught;
}

static bool
applies(const struct misuse *misuse)
{
#ifndef FERRYI_DEBUG_CHECKS
    if (misuse->needs & NEEDS_CHECKED_BUILD)
        return false;
#endif
    if ((misuse->needs & NEEDS_SANITIZER) && !FERRYI_ADDRESS_SANITIZER)
        return false;
    if ((misuse->needs & NEEDS_UNWINDER) && !has_unwinder())
        return false;
    if ((misuse->needs & NEEDS_HOST_FUNCTIONS) && !runs_host_functions)
        return false;
    return !(misuse->needs & NEEDS_DEVICE) || !device_is_coherent;
}

/* Queries the device in a child process, because the query creates a context. So this process has
 * no threads or signal handlers of a context when the misuse runs. */
static void
ask_device(void)
{
    pid_t child = fork();
    int how;
    if (child == 0) {
        ferry_context *context;
        ferry_place_info info;
        must(ferry_context_create(NULL, &context));
        must(ferry_context_get_place_info(context, 1, &info));
        _exit(8 | (info.coherent ? 1 : 0) |
              (info.capabilities & FERRY_CAN_RUN_HOST_FUNCTION ? 2 : 0));
    }
    if (waitpid(child, &how, 0) == child && WIFEXITED(how) && (WEXITSTATUS(how) & 8)) {
        device_is_coherent = WEXITSTATUS(how) & 1;
        runs_host_functions = WEXITSTATUS(how) & 2;
    }
}

/* Runs one misuse in this process instead of a child process, for tools that can watch only one
 * process. */
static int
play_named(const struct misuse *misuse, const char *name)
{
    for (; misuse->name; misuse++)
        if (strcmp(misuse->name, name) == 0)
            play(misuse);
    return 2;
}

int
main(int count, char **arguments)
{
    if (count > 1) {
        setenv("FERRY_DEBUG", "1", 1);
        return play_named(block_misuses, arguments[1]);
    }
    const struct misuse *const lists[] = {pointer_misuses, handle_misuses, block_misuses,
                                          kernel_misuses};
    unsigned made = 0, caught = 0, number = 0;
    setenv("FERRY_DEBUG", "1", 1);
    ask_device();
    for (size_t list = 0; list < sizeof(lists) / sizeof(*lists); list++) {
        for (const struct misuse *misuse = lists[list]; misuse->name; misuse++) {
            number++;
            if (!applies(misuse)) {
                printf("ok %u %s # SKIP not here\n", number, misuse->name);
                continue;
            }
            bool good = is_caught(misuse);
            made++;
            caught += good;
            printf("%s %u %s\n", good ? "ok" : "not ok", number, misuse->name);
        }
    }
    printf("1..%u\n# %u mistakes made, %u caught\n", number, made, caught);
    return caught == made ? 0 : 1;
}
