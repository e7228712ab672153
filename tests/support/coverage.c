/* SPDX-License-Identifier: MIT */
/*
 * Writes coverage counts in processes that end with _exit() or by a fatal signal, which would not
 * write them otherwise. Every program that calls _exit() is linked with this file.
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

/* Runs before main(), so the library installs its signal handlers later. They pass signals on to
 * the handler of this file. */
static void __attribute__((constructor)) count_deaths(void)
{
    signal(SIGSEGV, die);
    signal(SIGBUS, die);
}
