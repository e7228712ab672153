/* SPDX-License-Identifier: MIT */
/*
 * Writes the counts of a coverage build when a process ends with _exit() or by a fatal signal.
 * Without this file the counts of such a process would be lost. Every program that calls _exit() is
 * linked with this file.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

void __gcov_dump(void);
void _exit(int code) __attribute__((noreturn));

void
_exit(int code)
{
    __gcov_dump();
    for (;;)
        syscall(SYS_exit_group, code);
}

static void
die(int signal_number)
{
    __gcov_dump();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Runs before main(). Ferry installs its signal handlers later, and passes fatal signals on to the
 * handler die(). */
static void __attribute__((constructor)) count_deaths(void)
{
    signal(SIGSEGV, die);
    signal(SIGBUS, die);
}
