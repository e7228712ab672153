/* SPDX-License-Identifier: MIT */
#include "cli/report.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum { WORDS_MOST = 32, INTERPRETER_WORDS = 5 };

static const char script[] = "ferry_report.py";

FILE *
report_input(const char *command, void (*write)(FILE *file, const void *what), const void *what)
{
    FILE *file = tmpfile();
    if (file)
        write(file, what);
    if (file && !ferror(file) && fflush(file) == 0 && lseek(fileno(file), 0, SEEK_SET) == 0)
        return file;
    fprintf(stderr, "ferry %s: writing a temporary file: %s\n", command, strerror(errno));
    if (file)
        fclose(file);
    return NULL;
}

/* Finds the script from where this program lies, so that a tree may be moved: in the installed
 * folder, or beside the program in a build folder. */
static bool
find_script(char path[PATH_MAX])
{
    static const char *const folders[] = {FERRY_REPORT_FOLDER, "report"};
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
    if (length < 0)
        return false;
    own[length] = 0;
    *strrchr(own, '/') = 0;
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        bool is_absolute = folders[i][0] == '/';
        int bytes = snprintf(path, PATH_MAX, "%s%s%s/%s", is_absolute ? "" : own,
                             is_absolute ? "" : "/", folders[i], script);
        if (bytes < PATH_MAX && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

int
report_become(const char *const *words, FILE *input)
{
    char path[PATH_MAX];
    /* -B: no compiled modules are written beside the script. -E, -s: nor read from elsewhere. */
    const char *command[WORDS_MOST + INTERPRETER_WORDS + 1] = {"python3", "-B", "-E", "-s", path};
    size_t count = 0;
    while (words[count])
        count++;
    if (count > WORDS_MOST) {
        fprintf(stderr, "ferry %s: at most %d words are allowed, and there are %zu\n", words[0],
                WORDS_MOST, count);
        return EXIT_USAGE;
    }
    memcpy(command + INTERPRETER_WORDS, words, count * sizeof(*words));
    if (!find_script(path)) {
        fprintf(stderr, "ferry %s: the program of the report, %s/%s, is missing\n", words[0],
                FERRY_REPORT_FOLDER, script);
        return EXIT_FAILED;
    }
    if (input && dup2(fileno(input), STDIN_FILENO) < 0) {
        fprintf(stderr, "ferry %s: %s\n", words[0], strerror(errno));
        return EXIT_FAILED;
    }
    fflush(NULL);
    execv(FERRY_REPORT_PYTHON, (char *const *)command);
    execvp("python3", (char *const *)command);
    fprintf(stderr, "ferry %s: reports need python3, which cannot be started: %s\n", words[0],
            strerror(errno));
    return EXIT_FAILED;
}
