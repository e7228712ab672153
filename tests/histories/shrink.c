/* SPDX-License-Identifier: MIT */
#include "tests/histories/shrink.h"
#include "tests/support/interleave.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 30, TRIES = 3000 };

static void
redirect(int messages)
{
    int target = messages >= 0 ? messages : open("/dev/null", O_WRONLY);
    dup2(target, STDERR_FILENO);
    dup2(target, STDOUT_FILENO);
}

bool
history_fails(const unsigned char *bytes, size_t count, const struct history_setup *setup,
              int messages)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct history_setup timed = *setup;
        timed.seconds = SECONDS;
        redirect(messages);
        interleave(setup->interleave);
        history_play(bytes, count, &timed);
        _exit(0);
    }
    return child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
           WEXITSTATUS(status) != 0;
}

/* Plays the shortened random history and returns whether a check still fails. Plays a history of
 * several threads up to six times, because its failure may be intermittent. */
static bool
still_fails(const unsigned char *bytes, size_t count, const struct history_setup *setup, int *tries)
{
    bool fails = false;
    for (unsigned i = 0; i < (setup->players > 1 ? 6 : 1) && !fails && *tries > 0; i++, --*tries)
        fails = history_fails(bytes, count, setup, -1);
    return fails;
}

static size_t
leave_out(unsigned char *bytes, size_t steps, const struct history_setup *setup, int *tries)
{
    unsigned char *shorter = malloc(steps * STEP_BYTES + 1);
    for (size_t length = (steps + 1) / 2; length > 0 && shorter && *tries > 0;) {
        bool any = false;
        for (size_t at = steps; at > 0;) {
            at = at > length ? at - length : 0;
            size_t gone = at + length < steps ? length : steps - at;
            size_t rest = steps - at - gone;
            memcpy(shorter, bytes, at * STEP_BYTES);
            memcpy(shorter + at * STEP_BYTES, bytes + (at + gone) * STEP_BYTES, rest * STEP_BYTES);
            if (gone > 0 && still_fails(shorter, (steps - gone) * STEP_BYTES, setup, tries)) {
                steps -= gone;
                memcpy(bytes, shorter, steps * STEP_BYTES);
                any = true;
            }
        }
        length = length == 1 && any ? 1 : length / 2;
    }
    free(shorter);
    return steps;
}

size_t
history_shrink(unsigned char *bytes, size_t count, const struct history_setup *setup)
{
    int tries = TRIES;
    size_t steps = leave_out(bytes, count / STEP_BYTES, setup, &tries);
    for (size_t i = 0; i < steps * STEP_BYTES; i++) {
        unsigned char byte = bytes[i];
        if (i % STEP_BYTES == 0 || byte == 0)
            continue;
        bytes[i] = 0;
        if (!still_fails(bytes, steps * STEP_BYTES, setup, &tries))
            bytes[i] = byte;
    }
    return steps * STEP_BYTES;
}

/* -- printing ---------------------------------------------------------------------------------- */

static void
print_player(FILE *out, unsigned number, FILE *script)
{
    char line[4096];
    fprintf(out, "\nstatic void *\nplayer_%u(void *argument_of_thread)\n{\n    BEGIN\n", number);
    rewind(script);
    while (fgets(line, sizeof(line), script))
        fputs(line, out);
    fclose(script);
    fprintf(out, "    END\n}\n");
}

/* Prints a random test of several threads as an array of bytes, with its calls as comments. The
 * results of these calls differ between runs, so the printed program contains no expected results.
 * It plays the bytes and checks the results with the functions of oracle.c. */
static void
print_bytes(FILE *out, const unsigned char *bytes, size_t count, const struct history_setup *setup)
{
    fprintf(out, "\nstatic const unsigned char steps[] = {\n");
    for (size_t i = 0; i + STEP_BYTES <= count; i += STEP_BYTES) {
        fprintf(out, "   ");
        for (size_t k = 0; k < STEP_BYTES; k++)
            fprintf(out, " %u,", bytes[i + k]);
        fprintf(out, " // player %u: %s\n", (bytes[i + STEP_BYTES - 1] & 3) % setup->players,
                history_step_name(bytes[i]));
    }
    fprintf(out,
            "    0};\n\nint\nmain(void)\n{\n    history_play(steps, sizeof(steps) - 1, &(struct "
            "history_setup){.device = \"%s\", "
            ".players = %u, .streams = %u, .memory = %zu, .seconds = %u});\n}\n",
            setup->device, setup->players, setup->streams, setup->memory, SECONDS);
}

static void
print_comment(FILE *out, unsigned number, FILE *script)
{
    char line[4096];
    fprintf(out, "\n// Player %u:\n", number);
    rewind(script);
    while (fgets(line, sizeof(line), script))
        fprintf(out, "//%s", line);
    fclose(script);
}

void
history_print(FILE *out, const unsigned char *bytes, size_t count,
              const struct history_setup *setup, const char *comment)
{
    struct history_setup own = *setup;
    for (unsigned i = 0; i < setup->players; i++)
        own.scripts[i] = tmpfile();
    history_fails(bytes, count, &own, -1);
    fprintf(out, "/* %s */\n#include \"tests/histories/printed.h\"\n", comment);
    if (setup->players > 1) {
        print_bytes(out, bytes, count, setup);
        for (unsigned i = 0; i < setup->players; i++)
            if (own.scripts[i])
                print_comment(out, i, own.scripts[i]);
        return;
    }
    for (unsigned i = 0; i < setup->players; i++)
        if (own.scripts[i])
            print_player(out, i, own.scripts[i]);
    fprintf(out, "\nint\nmain(void)\n{\n    static void *(*const players[])(void *) = {");
    for (unsigned i = 0; i < setup->players; i++)
        fprintf(out, "player_%u, ", i);
    fprintf(out,
            "};\n    play(&(struct history_setup){.device = \"%s\", .players = %u, .streams = %u, "
            ".memory = %zu}, players);\n}\n",
            setup->device, setup->players, setup->streams, setup->memory);
}
